/**
 * Keeps the event loop awake while an answer is due in a moment. A process that sleeps is woken late, by up to 50 µs on
 * virtual machines, and goes on with cold caches; one that looks again and again is not.
 *
 * Looking costs processor time, so it stops after BUSY_POLL_MAX_MS, and where it was in vain it is left out for a while,
 * longer each time: with answers that take long, one of BUSY_POLL_PAUSE_MAX + 1 is polled for.
 */
import { BUSY_POLL_MAX_MS, BUSY_POLL_PAUSE_MAX } from "../domain/limits.ts";

export class BusyPoll {
  #polling = false;
  /** In milliseconds of `performance.now()`; 0 when what was expected is there. */
  #until = 0;
  /** Expectations to leave out. */
  #skip = 0;
  #pause = 0;

  /** An answer is due. */
  expect(): void {
    if (!this.#polling) {
      if (this.#skip > 0) {
        this.#skip--;
        return;
      }
      this.#polling = true;
      setImmediate(this.#turn);
    }
    this.#until = performance.now() + BUSY_POLL_MAX_MS;
  }

  /** Something came. */
  arrived(): void {
    this.#until = 0;
  }

  readonly #turn = (): void => {
    if (this.#until !== 0 && performance.now() < this.#until) {
      setImmediate(this.#turn);
      return;
    }
    this.#polling = false;
    this.#pause = this.#until === 0 ? 0 : Math.min(2 * this.#pause + 1, BUSY_POLL_PAUSE_MAX);
    this.#skip = this.#pause;
  };
}
