/**
 * The streamed body of an answer. It holds at most one window of bytes: the worker may send that much ahead of the
 * caller and gets room for more as the caller takes it, so a slow caller holds up neither the platform's memory nor
 * the other requests on the worker's connection.
 */
import { Readable } from "node:stream";
import { STREAM_EXCESS_MAX_BYTES, STREAM_WINDOW_BYTES } from "../domain/limits.ts";
import { FrameError } from "../lib/frames.ts";

/** A part that is much smaller than the read it came in is copied, so that it does not keep the rest in memory. */
const COPY_MAX_BYTES = 4096;

export class AnswerStream extends Readable {
  readonly #onTaken: (bytes: number) => void;
  readonly #waiting: Buffer[] = [];
  #wanted = false;
  #ended = false;
  #taken = 0;
  /** Sent by the worker, and not yet told to it as taken. */
  #ahead = 0;

  /** `onTaken` is told how many bytes more the worker may send. */
  constructor(onTaken: (bytes: number) => void) {
    super({ highWaterMark: STREAM_WINDOW_BYTES / 4 });
    this.#onTaken = onTaken;
    // It may break before anybody reads it, or after its caller has gone; whoever reads it hears of it all the same.
    this.on("error", () => {});
  }

  /** Throws when the worker sends far more than it may. */
  add(part: Buffer): void {
    if (this.destroyed || part.length === 0) return;
    this.#ahead += part.length;
    if (this.#ahead > STREAM_WINDOW_BYTES + STREAM_EXCESS_MAX_BYTES) {
      throw new FrameError(`an answer went ${this.#ahead} bytes ahead of its caller`);
    }
    this.#waiting.push(part.length > COPY_MAX_BYTES ? part : Buffer.from(part));
    this.#pass();
  }

  finish(): void {
    this.#ended = true;
    this.#pass();
  }

  override _read(): void {
    this.#wanted = true;
    this.#pass();
  }

  #pass(): void {
    while (this.#wanted && this.#waiting.length > 0) {
      const part = this.#waiting.shift()!;
      this.#taken += part.length;
      this.#wanted = this.push(part);
    }
    if (this.#ended && this.#waiting.length === 0) this.push(null);
    if (!this.#ended && this.#taken >= STREAM_WINDOW_BYTES / 2) {
      this.#ahead -= this.#taken;
      this.#onTaken(this.#taken);
      this.#taken = 0;
    }
  }
}
