/**
 * Background work: runs on a timer and when nudged, never twice at once. `work` takes no input, looks at the stored
 * state, and may run at any time any number of times.
 */
export class Reconciler {
  readonly name: string;
  readonly #work: () => Promise<unknown>;
  readonly #everyMs: number;
  readonly #onError: (name: string, error: unknown) => void;
  #timer: NodeJS.Timeout | undefined;
  #running: Promise<void> | undefined;
  #again = false;

  constructor(
    name: string,
    everyMs: number,
    work: () => Promise<unknown>,
    onError: (name: string, error: unknown) => void,
  ) {
    this.name = name;
    this.#everyMs = everyMs;
    this.#work = work;
    this.#onError = onError;
  }

  start(): void {
    this.#timer = setInterval(() => this.nudge(), this.#everyMs);
  }

  nudge(): void {
    if (this.#running !== undefined) this.#again = true;
    else this.#running = this.#run();
  }

  /** Stops the timer and waits for a run under way. */
  async stop(): Promise<void> {
    clearInterval(this.#timer);
    this.#again = false;
    await this.#running;
  }

  async #run(): Promise<void> {
    do {
      this.#again = false;
      try {
        await this.#work();
      } catch (error) {
        this.#onError(this.name, error);
      }
    } while (this.#again);
    this.#running = undefined;
  }
}
