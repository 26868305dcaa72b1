/** Bytes of bodies that lie in memory while they arrive: all share one budget, and those that take too long make room for others. */
export interface ArrivalBounds {
  readonly maxBytes: number;
  /** Bodies that are here whole may have so much beyond that. */
  readonly wholeMaxBytes: number;
  /** A body has so long to arrive, and a millisecond more for so many of its bytes, while another finds no room. */
  readonly arrivesMaxMs: number;
  readonly bytesPerMs: number;
  /** Milliseconds of a clock that is never set. */
  readonly now: () => number;
  readonly full: () => Error;
  readonly slow: () => Error;
}

interface Arriving {
  readonly since: number;
  readonly bytes: () => number;
  readonly refuse: (error: Error) => void;
}

export class ArrivalBudget {
  readonly #bounds: ArrivalBounds;
  /** The oldest first. */
  readonly #arriving = new Set<Arriving>();
  #used = 0;

  constructor(bounds: ArrivalBounds) {
    this.#bounds = bounds;
  }

  get usedBytes(): number {
    return this.#used;
  }

  /** Where there is no room, bodies that take too long to arrive make it. Throws what `full` gives. */
  take(bytes: number): void {
    if (!this.#fits(bytes)) this.#makeRoom(bytes);
    if (!this.#fits(bytes)) throw this.#bounds.full();
    this.#used += bytes;
  }

  /** The same of a body that is here: those that arrive slowly do not keep it out. */
  takeWhole(bytes: number): void {
    if (this.#fits(bytes - this.#bounds.wholeMaxBytes)) this.#used += bytes;
    else this.take(bytes);
  }

  give(bytes: number): void {
    this.#used -= bytes;
  }

  /** A body begins to arrive, until the function that is returned is called. `bytes`: how much of it has been taken. */
  arrives(bytes: () => number, refuse: (error: Error) => void): () => void {
    const arriving = { since: this.#bounds.now(), bytes, refuse };
    this.#arriving.add(arriving);
    return () => this.#arriving.delete(arriving);
  }

  #fits(bytes: number): boolean {
    return this.#used + bytes <= this.#bounds.maxBytes;
  }

  #makeRoom(bytes: number): void {
    const { now, arrivesMaxMs, bytesPerMs, slow } = this.#bounds;
    for (const { since, bytes: taken, refuse } of this.#arriving) {
      if (this.#fits(bytes)) return;
      if (now() - since > arrivesMaxMs + taken() / bytesPerMs) refuse(slow());
    }
  }
}
