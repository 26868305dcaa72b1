import type { Kysely } from "kysely";
import type { EnvColumn } from "./sealed-env.ts";
import type { StoreChange } from "./store.ts";
import type { Tables } from "./tables.ts";

/** Runs a statement; a broken constraint becomes CONFLICT with `message`. */
export type Guard = <T>(message: string, statement: Promise<T>) => Promise<T>;

/** What every repository works with. */
export interface Session {
  readonly db: Kysely<Tables>;
  /** Call it after the write; what waits for it knows that all who keep something of it on this platform have been told. */
  readonly changed: (...changes: StoreChange[]) => Promise<void> | void;
  /** Runs `work` in the transaction that is under way, or in one of its own: no other write comes between. */
  readonly alone: <T>(work: (db: Kysely<Tables>) => Promise<T>) => Promise<T>;
  readonly guard: Guard;
  readonly env: EnvColumn;
}
