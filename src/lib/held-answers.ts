/** Answers that lie in memory until their callers have taken them: all share one budget, and callers that take too long make room for others. */
import type { ServerResponse } from "node:http";

export interface AnswerBounds {
  readonly maxBytes: number;
  /** Shorter ones, and those of just so many bytes, are not counted. */
  readonly shortMaxBytes: number;
  /** A caller has so long to take an answer, and a millisecond more for so many bytes, while another finds no room. */
  readonly takenMaxMs: number;
  readonly bytesPerMs: number;
  /** Milliseconds of a clock that is never set. */
  readonly now: () => number;
  readonly full: () => Error;
}

export interface HeldAnswer {
  readonly res: ServerResponse;
  readonly bytes: number;
  readonly since: number;
  readonly onClose: () => void;
  /** It is read, into memory, whether or not its caller is there still. */
  isRead: boolean;
}

export class HeldAnswers {
  protected readonly bounds: AnswerBounds;
  /** The oldest first. */
  readonly #held = new Set<HeldAnswer>();
  #heldBytes = 0;

  constructor(bounds: AnswerBounds) {
    this.bounds = bounds;
  }

  /** Bytes that are counted now. */
  get heldBytes(): number {
    return this.#heldBytes;
  }

  /** As add, where there is room: callers that take too long make it. Throws what `full` gives. */
  takeNow(res: ServerResponse, bytes: number): () => void {
    if (!this.isShort(bytes)) {
      if (!this.fits(bytes)) this.cut(() => this.fits(bytes));
      if (!this.fits(bytes)) throw this.bounds.full();
    }
    return this.add(res, bytes);
  }

  /** Counts them, room or not, as they are in memory already: until `res` is over, or the function that is returned is called. */
  add(res: ServerResponse, bytes: number): () => void {
    if (this.isShort(bytes) || res.destroyed) return () => {};
    const held = this.hold(res, bytes, false);
    return () => this.letGo(held);
  }

  protected isShort(bytes: number): boolean {
    return bytes <= this.bounds.shortMaxBytes;
  }

  protected fits(bytes: number): boolean {
    return this.#held.size === 0 || this.#heldBytes + bytes <= this.bounds.maxBytes;
  }

  /** Cuts off callers that take too long, as many as it needs. */
  protected cut(isEnough: () => boolean): void {
    const { now, takenMaxMs, bytesPerMs } = this.bounds;
    for (const { res, bytes, since, onClose } of this.#held) {
      if (isEnough()) return;
      if (now() - since < takenMaxMs + bytes / bytesPerMs) continue;
      res.destroy();
      onClose();
    }
  }

  protected hold(res: ServerResponse, bytes: number, isRead: boolean): HeldAnswer {
    const onClose = () => {
      if (!held.isRead) this.letGo(held);
    };
    const held: HeldAnswer = { res, bytes, since: this.bounds.now(), onClose, isRead };
    this.#held.add(held);
    this.#heldBytes += bytes;
    res.once("close", onClose);
    return held;
  }

  protected letGo(held: HeldAnswer): void {
    if (!this.#held.delete(held)) return;
    held.res.off("close", held.onClose);
    this.#heldBytes -= held.bytes;
    this.roomCame();
  }

  /** Of whoever lets others wait. */
  protected roomCame(): void {}
}
