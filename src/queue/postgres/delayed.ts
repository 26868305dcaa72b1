/**
 * Jobs between two attempts. When the next one is due stands in the row, so it survives a restart; the wait itself goes by a
 * clock that runs on from the start of the queue, so that setting the machine's clock neither skips nor stretches it.
 *
 *   IN_PROGRESS ──raised──▶ DELAYED (state -1) ──due──▶ IN_QUEUE
 */
import { DELETE_BATCH_ROWS, RETRY_DELAY_MAX_MS, TIMER_MAX_MS } from "../../domain/limits.ts";
import { DELAYED, IN_QUEUE } from "../machine/job-row.ts";
import type { PostgresCore } from "./core.ts";
import type { JobRecord } from "./records.ts";
import { dueRows } from "./rows.ts";

export class DelayedJobs {
  readonly #core: PostgresCore;
  #timer: NodeJS.Timeout | undefined;
  /** What the timer waits for. */
  #at = Number.POSITIVE_INFINITY;
  #isClosed = false;

  constructor(core: PostgresCore) {
    this.#core = core;
    core.expectDue = (dueAt) => this.#expect(dueAt);
  }

  async open(): Promise<void> {
    // What a clock that was set back since would hold for longer than any delay.
    const latest = this.#core.steady() + RETRY_DELAY_MAX_MS;
    await this.#core.pipeline.alone((query) =>
      query("UPDATE open_jobs SET due_at = $1 WHERE state = -1 AND due_at > $1", [latest]),
    );
    await this.#waitForFirst();
  }

  /** Queues what is due. Resolves how many jobs. */
  async wake(): Promise<number> {
    let woken = 0;
    for (;;) {
      const count = await this.#core.keep((jobs: readonly JobRecord[]) => this.#queue(jobs), {
        load: async (query) => {
          const rows = await dueRows(query, this.#core.steady(), DELETE_BATCH_ROWS);
          return rows.map((row) => this.#core.adopt(row, "open"));
        },
      });
      woken += count;
      if (count < DELETE_BATCH_ROWS) break;
    }
    await this.#waitForFirst();
    return woken;
  }

  close(): void {
    this.#isClosed = true;
    clearTimeout(this.#timer);
  }

  #expect(dueAt: number): void {
    if (dueAt >= this.#at || this.#isClosed) return;
    clearTimeout(this.#timer);
    this.#at = dueAt;
    const waitMs = Math.min(TIMER_MAX_MS, Math.max(0, dueAt - this.#core.steady()));
    this.#timer = setTimeout(() => this.wake().catch(() => {}), waitMs); // it fails only when the queue closes
    this.#timer.unref();
  }

  #queue(jobs: readonly JobRecord[]): number {
    const { live } = this.#core;
    for (const job of jobs) {
      if (job.isGone || job.state !== DELAYED) continue;
      const endpoint = live.of(job.endpoint);
      Object.assign(job, { state: IN_QUEUE, due_at: null });
      this.#core.changed(job);
      this.#core.queued(job);
      live.count(endpoint, DELAYED, false, -1);
      live.count(endpoint, IN_QUEUE, job.low_priority === 1, 1);
      this.#core.touch(endpoint);
    }
    return jobs.length;
  }

  async #waitForFirst(): Promise<void> {
    if (this.#isClosed) return;
    this.#at = Number.POSITIVE_INFINITY;
    const [row] = await this.#core.db.read<{ at: number | null }>(
      "SELECT min(due_at)::int8 AS at FROM open_jobs WHERE state = -1",
    );
    if (row!.at !== null) this.#expect(row!.at);
  }
}
