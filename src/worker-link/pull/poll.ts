const ENDED = Symbol("ended"); // Any reason will do: by default each would be an error with its stack.

/** A question that is held open: it ends when its time is over, its caller has gone, or somebody ends it. */
export class Poll {
  readonly #controller = new AbortController();
  readonly #timer: NodeJS.Timeout;
  readonly #caller: AbortSignal;
  readonly end = (): void => this.#controller.abort(ENDED);

  constructor(holdMs: number, caller: AbortSignal) {
    this.#caller = caller;
    this.#timer = setTimeout(this.end, holdMs);
    if (caller.aborted) this.end();
    else caller.addEventListener("abort", this.end, { once: true });
  }

  get signal(): AbortSignal {
    return this.#controller.signal;
  }

  /** Resolves when it ends. */
  ended(): Promise<void> {
    return new Promise((resolve) => {
      if (this.signal.aborted) resolve();
      else this.signal.addEventListener("abort", () => resolve(), { once: true });
    });
  }

  close(): void {
    clearTimeout(this.#timer);
    this.#caller.removeEventListener("abort", this.end);
  }
}
