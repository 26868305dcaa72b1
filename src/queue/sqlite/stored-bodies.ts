/**
 * Turns bodies into what their row holds: small ones stay bytes, large ones are written to files first. Writing a file
 * takes turns of the event loop, so what a job says later waits for what it said before.
 */
import { INLINE_BODY_MAX_BYTES } from "../../domain/limits.ts";
import type { BodyFiles } from "./body-files.ts";
import type { Body } from "./statements.ts";

type Bytes = Uint8Array | null;
type Stored = Body | null;

export class StoredBodies {
  readonly #files: BodyFiles;
  /** Job → its last write that is under way. */
  readonly #last = new Map<string, Promise<unknown>>();

  constructor(files: BodyFiles) {
    this.#files = files;
  }

  /** Calls `write` with the stored form of `bodies`, after the earlier writes of the same job. */
  store<T>(jobId: string, bodies: readonly Bytes[], write: (stored: readonly Stored[]) => Promise<T>): Promise<T> {
    const before = this.#last.get(jobId);
    if (before === undefined && bodies.every(isSmall)) return write(bodies);
    const written = (before ?? Promise.resolve()).then(() => this.#write(bodies, write));
    const settled = written.then(
      () => {},
      () => {},
    );
    this.#last.set(jobId, settled);
    void settled.then(() => {
      if (this.#last.get(jobId) === settled) this.#last.delete(jobId);
    });
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
        else stored.push(held[held.push(await this.#files.hold(body!)) - 1]!);
      }
      return await write(stored);
    } finally {
      for (const digest of held) this.#files.release(digest);
    }
  }
}

function isSmall(body: Bytes): boolean {
  return body === null || body.byteLength <= INLINE_BODY_MAX_BYTES;
}
