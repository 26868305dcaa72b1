import { Readable } from "node:stream";
import { FrameError } from "./frames.ts";

/** A part that is much smaller than the read it came in is copied, so that it does not keep the rest in memory. */
const COPY_MAX_BYTES = 4096;

/**
 * A body that comes in frames. It holds at most one window of bytes: the sender may send that much ahead of the reader and gets room for
 * more as the reader takes it, so a slow reader holds up neither the memory nor what else is on the connection.
 */
export class WindowedStream extends Readable {
  readonly #windowBytes: number;
  readonly #excessMaxBytes: number;
  readonly #onTaken: (bytes: number) => void;
  readonly #waiting: Buffer[] = [];
  #wanted = false;
  #ended = false;
  #taken = 0;
  /** Sent, and not yet told to the sender as taken. */
  #ahead = 0;

  /** `onTaken` is told how many bytes more may be sent. */
  constructor(windowBytes: number, excessMaxBytes: number, onTaken: (bytes: number) => void) {
    super({ highWaterMark: windowBytes / 4 });
    this.#windowBytes = windowBytes;
    this.#excessMaxBytes = excessMaxBytes;
    this.#onTaken = onTaken;
    // It may break before anybody reads it, or after its caller has gone; whoever reads it hears of it all the same.
    this.on("error", () => {});
  }

  /** Throws when far more is sent than may be. */
  add(part: Buffer): void {
    if (this.destroyed || part.length === 0) return;
    this.#ahead += part.length;
    if (this.#ahead > this.#windowBytes + this.#excessMaxBytes) {
      throw new FrameError(`a body went ${this.#ahead} bytes ahead of its reader`);
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
    if (!this.#ended && this.#taken >= this.#windowBytes / 2) {
      this.#ahead -= this.#taken;
      this.#onTaken(this.#taken);
      this.#taken = 0;
    }
  }
}
