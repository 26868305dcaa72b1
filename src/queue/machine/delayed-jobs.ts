/**
 * Jobs between two attempts. When the next one is due stands in the row, so it survives a restart; the wait itself goes by a
 * clock that runs on from the start of the queue, so that setting the machine's clock neither skips nor stretches it.
 *
 *   IN_PROGRESS ──raised──▶ DELAYED (state -1) ──due──▶ IN_QUEUE
 */
import { DELAYED_RETRY_MS, DELETE_BATCH_ROWS, TIMER_MAX_MS } from "../../domain/limits.ts";

export interface DelayedRows {
  /** Queues what is due, DELETE_BATCH_ROWS at the most. Resolves how many jobs. */
  queueDue(now: number): Promise<number>;
  firstDue(): Promise<number | null>;
}

export class DelayedJobs {
  readonly #steady: () => number;
  readonly #rows: DelayedRows;
  #timer: NodeJS.Timeout | undefined;
  /** What the timer waits for. */
  #at = Number.POSITIVE_INFINITY;
  #isClosed = false;

  constructor(steady: () => number, rows: DelayedRows) {
    this.#steady = steady;
    this.#rows = rows;
  }

  /** A job is due then. */
  expect(dueAt: number): void {
    if (dueAt >= this.#at || this.#isClosed) return;
    clearTimeout(this.#timer);
    this.#at = dueAt;
    const waitMs = Math.min(TIMER_MAX_MS, Math.max(0, dueAt - this.#steady()));
    this.#timer = setTimeout(() => this.#due(), waitMs);
    this.#timer.unref();
  }

  async #due(): Promise<void> {
    this.#at = Number.POSITIVE_INFINITY;
    await this.wake().catch(() => this.#again());
  }

  /** The rows cannot be reached. */
  #again(): void {
    this.expect(this.#steady() + DELAYED_RETRY_MS);
  }

  /** Queues what is due. Resolves how many jobs. */
  async wake(): Promise<number> {
    let woken = 0;
    for (let count = DELETE_BATCH_ROWS; count === DELETE_BATCH_ROWS; woken += count) {
      count = await this.#rows.queueDue(this.#steady());
    }
    await this.waitForFirst();
    return woken;
  }

  /** Never rejects: what cannot be read is read again in a moment. */
  async waitForFirst(): Promise<void> {
    if (this.#isClosed) return;
    this.#at = Number.POSITIVE_INFINITY;
    const at = await this.#rows.firstDue().catch(() => this.#again());
    if (typeof at === "number") this.expect(at);
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }
}
