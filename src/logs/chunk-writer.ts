/**
 * Writes chunks of logs to the bucket, and their rows: some endpoints' at once, again and again until none is due. One that cannot be
 * written stays in memory, and is tried again each second.
 */
import {
  LOG_CHUNK_LOOK_MS,
  LOG_CHUNKS_AT_ONCE,
  LOG_CLOSE_MAX_MS,
  LOG_HELD_WAIT_BYTES,
  LOG_HELD_WAIT_MS,
} from "../domain/limits.ts";
import { Reconciler } from "../lib/reconciler.ts";
import type { ChunkIndex, ChunkRow } from "./chunk-index.ts";
import type { ChunkName, ChunkObjects } from "./chunk-objects.ts";
import type { HeldChunks, TakenChunk } from "./held-chunks.ts";
import type { ChunkText } from "./log-store.ts";

export interface ChunkWriterOptions {
  readonly held: HeldChunks;
  readonly objects: ChunkObjects;
  readonly index: ChunkIndex;
  /** Milliseconds of a monotonic clock, that of `held`. */
  readonly now: () => number;
  /** What was printed waits so long. */
  readonly waitMs: number;
  readonly onError: (name: string, error: unknown) => void;
}

export class ChunkWriter {
  readonly #options: ChunkWriterOptions;
  readonly #writing: Reconciler;
  #turn: Promise<void> = Promise.resolve();
  #putting: Promise<void> = Promise.resolve();
  #isFailing = false;
  #waiting: (() => void)[] = [];

  constructor(options: ChunkWriterOptions) {
    this.#options = options;
    const write = () => this.write(options.waitMs);
    this.#writing = new Reconciler("log-chunks", LOG_CHUNK_LOOK_MS, write, options.onError);
  }

  start(): void {
    this.#writing.start();
  }

  /** Some are full. */
  nudge(): void {
    this.#writing.nudge();
  }

  /** For whoever prints more than the bucket takes; one that is away keeps nobody from printing. Undefined: need not wait. */
  wait(endpointId: string): Promise<void> | undefined {
    if (this.#isFailing || this.#options.held.bytesOf(endpointId) <= LOG_HELD_WAIT_BYTES) return undefined;
    this.#writing.nudge();
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, LOG_HELD_WAIT_MS);
      this.#waiting.push(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }

  /** Writes what has waited for `waitedMs`, and what is full. Throws what keeps it from that. */
  write(waitedMs: number): Promise<void> {
    const turn = this.#turn.catch(() => {}).then(() => this.#write(this.#options.now() - waitedMs));
    this.#turn = turn;
    return turn;
  }

  /** When no row is on its way that was before. */
  async putsEnded(): Promise<void> {
    await this.#putting.catch(() => {});
  }

  /** Objects whose rows are gone. Throws where the bucket does not delete one; the sweep finds those that are left. */
  async delete(names: readonly ChunkName[]): Promise<void> {
    const { objects } = this.#options;
    const next = names[Symbol.iterator]();
    const one = async () => {
      for (const name of next) await objects.delete(name);
    };
    await Promise.all(Array.from({ length: Math.min(LOG_CHUNKS_AT_ONCE, names.length) }, one));
  }

  /** One chunk from elsewhere: its object, then its row. */
  async put(chunk: ChunkText): Promise<void> {
    await this.#options.objects.put(chunk, chunk.text);
    await this.#options.index.put([rowOf(chunk)]);
  }

  /** Writes what it can in LOG_CLOSE_MAX_MS. */
  async close(): Promise<void> {
    const { promise: late, resolve } = Promise.withResolvers<void>();
    const timer = setTimeout(resolve, LOG_CLOSE_MAX_MS);
    const last = this.#writing.stop().then(() => this.write(0));
    await Promise.race([last.catch((error: unknown) => this.#options.onError("log-chunks", error)), late]);
    clearTimeout(timer);
  }

  async #write(before: number): Promise<void> {
    const { held } = this.#options;
    held.letGo();
    for (;;) {
      const taken = held.take(before, this.#isFailing ? 1 : LOG_CHUNKS_AT_ONCE);
      if (taken.length === 0) return;
      this.#putting = this.#put(taken);
      try {
        await this.#putting;
        this.#isFailing = false;
      } catch (error) {
        this.#isFailing = true;
        throw error;
      } finally {
        for (const resolve of this.#waiting.splice(0)) resolve();
      }
    }
  }

  async #put(taken: readonly TakenChunk[]): Promise<void> {
    const { objects, index } = this.#options;
    try {
      await Promise.all(taken.map((chunk) => objects.put(chunk, chunk.text)));
      const kept = taken.filter((chunk) => !chunk.isGone());
      if (kept.length > 0) await index.put(kept.map(rowOf));
      const begun = kept.filter((chunk) => chunk.stored());
      const gone = taken.filter((chunk) => !kept.includes(chunk));
      const surplus = begun.length === 0 ? [] : await index.trim(begun.map(({ endpointId }) => endpointId));
      await this.delete([...gone, ...surplus]).catch(() => {});
    } catch (error) {
      for (const chunk of taken) chunk.failed();
      throw error;
    }
  }
}

function rowOf({ id, endpointId, firstAt, lastAt, lines, text }: ChunkText): ChunkRow {
  return { id, endpointId, firstAt, lastAt, lines, bytes: Buffer.byteLength(text) };
}
