/** Jobs on their way from one database to another: how far they are, and what came along. */
import type { Query } from "../postgres/connection.ts";

export interface MovedJobs {
  /** Not final, those that run included. */
  readonly open: number;
  readonly done: number;
  /** Of which only a line is left. */
  readonly expired: number;
  /** Bodies outside the rows. */
  readonly bodies: number;
  readonly bodyBytes: number;
  /** Bodies that were missing or damaged where they came from. */
  readonly lostBodies: number;
}

export const NONE_MOVED: MovedJobs = { open: 0, done: 0, expired: 0, bodies: 0, bodyBytes: 0, lostBodies: 0 };

export function plus(a: MovedJobs, b: Partial<MovedJobs>): MovedJobs {
  const names = Object.keys(NONE_MOVED) as (keyof MovedJobs)[];
  return Object.fromEntries(names.map((name) => [name, a[name] + (b[name] ?? 0)])) as unknown as MovedJobs;
}

export type Transaction = <T>(work: (query: Query) => Promise<T>) => Promise<T>;

/** Where the batches have got to, kept with them: a move that was killed goes on behind the last that was committed. */
export interface MoveBook<T> {
  readonly before: T | undefined;
  /** Part of the transaction of the batch. */
  write(query: Query, state: T): Promise<unknown>;
}

/** Told after every batch. */
export type MoveTold = (moved: MovedJobs) => void;
