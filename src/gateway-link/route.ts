/**
 * Where a gateway's questions go, while that changes:
 *
 *   ask ──▶ the backing ──▶ an answer
 *            │ there is none, or it says that it is no more the one (its link broke, it stops, its jobs have moved)
 *            └──▶ held until there is another, for REPLICA_HELD_MAX_MS, and no more than REPLICA_HELD_MAX of them ──▶ asked again
 *
 * What is about an endpoint goes to whoever has its shard, where several share them; all else to whoever has the database. Who is believed to
 * have a shard may say that it has it not yet, or no more: then it is asked again after ROUTE_AGAIN_MS, if there is no other by then.
 */
import { isMoved, SvcError } from "../domain/errors.ts";
import { REPLICA_HELD_MAX, REPLICA_HELD_MAX_MS, ROUTE_AGAIN_MS } from "../domain/limits.ts";
import type { Backing } from "./backing.ts";

export interface AskOptions {
  /** Nobody waits any more. */
  readonly signal?: AbortSignal | undefined;
  /** Whether it may be asked again of another; default: always. */
  readonly mayRepeat?: () => boolean;
  /** Whose jobs, workers or counts it is about. */
  readonly endpointId?: string | undefined;
}

/** Where several platforms have the jobs. */
export interface Shared {
  /** What this process itself has: rows are the same wherever they are read. */
  readonly own: Backing;
  /** Whoever has the endpoint's shard; undefined while nobody is known to, or it cannot be reached. */
  ownerOf(endpointId: string): Backing | undefined;
  /** All that can be asked. */
  all(): Iterable<Backing>;
}

/** `again`: an earlier one may have carried it out. */
type Work<T> = (backing: Backing, again: boolean) => T | Promise<T>;

export class Route {
  #backing: Backing | undefined;
  #shared: Shared | undefined;
  readonly #held = new Set<(isNews: boolean) => void>();
  readonly #watching = new Set<() => void>();
  #isClosed = false;

  /** Whoever has the database. */
  get backing(): Backing | undefined {
    return this.#backing;
  }

  /** Undefined: whoever has the database has all jobs. */
  get shared(): Shared | undefined {
    return this.#shared;
  }

  backingOf(endpointId: string | undefined): Backing | undefined {
    if (this.#shared === undefined || endpointId === undefined) return this.#backing;
    return this.#shared.ownerOf(endpointId);
  }

  /** For what is known of a worker, whoever has it. */
  *backings(): Iterable<Backing> {
    if (this.#shared !== undefined) yield* this.#shared.all();
    else if (this.#backing !== undefined) yield this.#backing;
  }

  /** How many wait for one. */
  get held(): number {
    return this.#held.size;
  }

  set(backing: Backing | undefined): void {
    this.#backing = backing;
    this.look();
  }

  share(shared: Shared | undefined): void {
    this.#shared = shared;
    this.look();
  }

  /** Who is held looks who has it now. */
  look(): void {
    for (const look of [...this.#held, ...this.#watching]) look(true);
  }

  /** Calls `look` when there may be others to ask, until the returned function is called. */
  watch(look: () => void): () => void {
    this.#watching.add(look);
    return () => this.#watching.delete(look);
  }

  /** There will be none any more: who is held, or comes while there is none, is refused. */
  close(): void {
    this.#isClosed = true;
    this.look();
  }

  /** At once where the answer is. Throws, or rejects with, what the last one that was asked says. */
  ask<T>(work: Work<T>, options: AskOptions = {}): T | Promise<T> {
    const backing = this.backingOf(options.endpointId);
    if (backing === undefined) return this.#askNext(work, options, undefined, nobody(), false);
    try {
      const asked = work(backing, false);
      if (!(asked instanceof Promise)) return asked;
      return asked.catch((error) => this.#askNext(work, options, backing, error, true));
    } catch (error) {
      return this.#askNext(work, options, backing, error, true);
    }
  }

  async #askNext<T>(
    work: Work<T>,
    options: AskOptions,
    before: Backing | undefined,
    reason: unknown,
    wasAsked: boolean,
  ): Promise<T> {
    const until = performance.now() + REPLICA_HELD_MAX_MS;
    let error = reason;
    for (let asked = before, again = wasAsked; ; again = true) {
      if (!hasMoved(error) || options.mayRepeat?.() === false) throw error;
      const backing = await this.#next(asked, error, until, options);
      try {
        return await work(backing, again);
      } catch (failed) {
        error = failed;
        asked = backing;
      }
    }
  }

  /** The next one. Rejects with `error` when none comes. */
  #next(
    asked: Backing | undefined,
    error: unknown,
    until: number,
    { signal, endpointId }: AskOptions,
  ): Promise<Backing> {
    return new Promise((resolve, reject) => {
      const over = () => {
        this.#held.delete(look);
        clearTimeout(late);
        clearInterval(again);
        signal?.removeEventListener("abort", refuse);
      };
      const refuse = () => {
        over();
        reject(error);
      };
      const look = (isNews: boolean) => {
        const backing = this.backingOf(endpointId);
        if (backing !== undefined && (backing !== asked || (isNews && mayBeSame))) {
          over();
          resolve(backing);
        } else if (this.#isClosed) refuse();
      };
      const late = setTimeout(refuse, Math.max(0, until - performance.now()));
      const mayBeSame = asked !== undefined && endpointId !== undefined && this.#shared !== undefined;
      const again = mayBeSame ? setInterval(look, ROUTE_AGAIN_MS, true) : undefined;
      if (signal?.aborted || this.#held.size >= REPLICA_HELD_MAX) return refuse();
      signal?.addEventListener("abort", refuse);
      this.#held.add(look);
      look(false);
    });
  }
}

/** Whoever said so is not the one any more. */
function hasMoved(error: unknown): boolean {
  return isMoved(error) || (error instanceof SvcError && error.code === "SHUTTING_DOWN");
}

function nobody(): SvcError {
  return new SvcError("SHUTTING_DOWN", "No platform has the database at the moment, or none that can be reached.", {
    help: "Try again in a moment; what was accepted before goes on.",
  });
}
