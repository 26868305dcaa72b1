/**
 * Jobs between two attempts. When the next one is due stands in the row, so it survives a restart; the wait itself goes by a
 * clock that runs on from the start of the queue, so that setting the machine's clock neither skips nor stretches it.
 *
 *   IN_PROGRESS ──raised──▶ DELAYED (state -1) ──due──▶ IN_QUEUE
 */
import { DELETE_BATCH_ROWS, RETRY_DELAY_MAX_MS, TIMER_MAX_MS } from "../../domain/limits.ts";
import { DELAYED, IN_QUEUE, type JobRow } from "../machine/job-row.ts";
import type { EndpointState, LiveState } from "../machine/live-state.ts";
import type { Statements } from "./statements.ts";

interface DelayHooks {
  readonly steady: () => number;
  /** Part of a batch: a job of the endpoint began to wait for a worker. */
  touch(endpoint: EndpointState): void;
  /** Part of a batch that is tried again while it cannot be stored. */
  keep<T>(work: () => T): Promise<T>;
}

export class DelayedJobs {
  readonly #sql: Statements;
  readonly #live: LiveState;
  readonly #hooks: DelayHooks;
  #timer: NodeJS.Timeout | undefined;
  /** What the timer waits for. */
  #at = Number.POSITIVE_INFINITY;
  #isClosed = false;

  constructor(sql: Statements, live: LiveState, hooks: DelayHooks) {
    this.#sql = sql;
    this.#live = live;
    this.#hooks = hooks;
    // What a clock that was set back since would hold for longer than any delay.
    sql.nearDue.run(hooks.steady() + RETRY_DELAY_MAX_MS);
    this.#waitForFirst();
  }

  /** A job is due then. */
  expect(dueAt: number): void {
    if (dueAt >= this.#at || this.#isClosed) return;
    clearTimeout(this.#timer);
    this.#at = dueAt;
    const waitMs = Math.min(TIMER_MAX_MS, Math.max(0, dueAt - this.#hooks.steady()));
    this.#timer = setTimeout(() => this.wake().catch(() => {}), waitMs); // it fails only when the queue closes
    this.#timer.unref();
  }

  /** Queues what is due. Resolves how many jobs. */
  async wake(): Promise<number> {
    let woken = 0;
    for (;;) {
      const rows = await this.#hooks.keep(() => this.#batch());
      woken += rows;
      if (rows < DELETE_BATCH_ROWS) break;
    }
    this.#waitForFirst();
    return woken;
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  #batch(): number {
    const sql = this.#sql;
    const live = this.#live;
    const rows = sql.due.all(this.#hooks.steady(), DELETE_BATCH_ROWS) as unknown as JobRow[];
    for (const row of rows) {
      const endpoint = live.of(row.endpoint);
      sql.wake.run(row.seq);
      live.count(endpoint, DELAYED, false, -1);
      live.count(endpoint, IN_QUEUE, row.low_priority === 1, 1);
      this.#hooks.touch(endpoint);
    }
    return rows.length;
  }

  #waitForFirst(): void {
    if (this.#isClosed) return;
    this.#at = Number.POSITIVE_INFINITY;
    const { at } = this.#sql.firstDue.get() as { at: number | null };
    if (at !== null) this.expect(at);
  }
}
