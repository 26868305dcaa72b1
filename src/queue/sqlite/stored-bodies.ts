/**
 * Turns bodies into what their row holds: small ones stay bytes, large ones are written to files first. Writing a file
 * takes turns of the event loop, so what a job says later waits for what it said before.
 */
import { INLINE_BODY_MAX_BYTES } from "../../domain/limits.ts";
import { explained, lackOf, type StorageWatch, UNWATCHED } from "../../domain/storage.ts";
import type { BodyFiles } from "./body-files.ts";
import type { Body } from "./statements.ts";

type Bytes = Uint8Array | null;
type Stored = Body | null;

export class StoredBodies {
  readonly #files: BodyFiles;
  readonly #storage: StorageWatch;
  /** Job → its last write that is under way. */
  readonly #last = new Map<string, Promise<unknown>>();

  constructor(files: BodyFiles, storage: StorageWatch = UNWATCHED) {
    this.#files = files;
    this.#storage = storage;
  }

  /** Calls `write` with the stored form of `bodies`, after the earlier writes of the same job. */
  store<T>(jobId: string, bodies: readonly Bytes[], write: (stored: readonly Stored[]) => Promise<T>): Promise<T> {
    return this.#inTurn(jobId, bodies, write, (work) => work());
  }

  /** As store, for what must not be lost: while it cannot be written it waits, and so does what the job says later. */
  keep<T>(jobId: string, bodies: readonly Bytes[], write: (stored: readonly Stored[]) => Promise<T>): Promise<T> {
    return this.#inTurn(jobId, bodies, write, (work) => this.#storage.keep(work));
  }

  /** As store, for what may be dropped when it cannot be written. */
  async try(
    jobId: string,
    bodies: readonly Bytes[],
    write: (stored: readonly Stored[]) => Promise<void>,
  ): Promise<void> {
    if (this.#storage.lack !== undefined) return;
    try {
      await this.store(jobId, bodies, write);
    } catch (error) {
      if (lackOf(error) === undefined) throw error;
    }
  }

  #inTurn<T>(
    jobId: string,
    bodies: readonly Bytes[],
    write: (stored: readonly Stored[]) => Promise<T>,
    attempt: (work: () => Promise<T>) => Promise<T>,
  ): Promise<T> {
    const before = this.#last.get(jobId);
    if (before === undefined && bodies.every(isSmall)) return attempt(() => write(bodies));
    const written = (before ?? Promise.resolve()).then(() => attempt(() => this.#write(bodies, write)));
    const over = () => {
      if (this.#last.get(jobId) === settled) this.#last.delete(jobId);
    };
    const settled = written.then(over, over);
    this.#last.set(jobId, settled);
    return written;
  }

  /** Resolves, never rejects, when what the job said so far is written; undefined when nothing is under way. */
  underWay(jobId: string): Promise<unknown> | undefined {
    return this.#last.get(jobId);
  }

  /** Resolves when everything under way is done. */
  async idle(): Promise<void> {
    while (this.#last.size > 0) await Promise.all(this.#last.values());
  }

  async #write<T>(bodies: readonly Bytes[], write: (stored: readonly Stored[]) => Promise<T>): Promise<T> {
    const held: string[] = [];
    try {
      const stored: Stored[] = [];
      for (const body of bodies) {
        if (isSmall(body)) stored.push(body);
        else stored.push(held[held.push(await this.#hold(body!)) - 1]!);
      }
      return await write(stored);
    } finally {
      for (const digest of held) this.#files.release(digest);
    }
  }

  async #hold(body: Uint8Array): Promise<string> {
    try {
      return await this.#files.hold(body);
    } catch (error) {
      this.#storage.noticed(error);
      throw explained(error);
    }
  }
}

function isSmall(body: Bytes): boolean {
  return body === null || body.byteLength <= INLINE_BODY_MAX_BYTES;
}
