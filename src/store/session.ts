import type { Kysely } from "kysely";
import type { EnvColumn } from "./sealed-env.ts";
import type { StoreChange } from "./store.ts";
import type { Tables } from "./tables.ts";

/** Runs a statement; a broken constraint becomes CONFLICT with `message`. */
export type Guard = <T>(message: string, statement: Promise<T>) => Promise<T>;

/** What every repository works with. */
export interface Session {
  readonly db: Kysely<Tables>;
  readonly changed: (change: StoreChange) => void;
  readonly guard: Guard;
  readonly env: EnvColumn;
}
