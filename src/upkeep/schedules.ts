/**
 * Calls endpoints by their schedules: each tick becomes a job of the queue, in the transaction that notes the tick. Which ticks
 * are due is asked of the time of day; how long to wait until the next one, of a timer. So a clock that is set back runs no tick
 * again, one that is set forward misses some, and a platform that starts goes on where the last one ended.
 *
 *   noted ──▶ … missed … │ SCHEDULE_LATE_MAX_MS │ now ──▶ next tick: timer
 *            skip | once        each one runs
 */
import { isMoved } from "../domain/errors.ts";
import { isFinal, runJobId } from "../domain/job.ts";
import { JOB_TTL_DEFAULT_MS, SCHEDULE_CHECK_MS, SCHEDULE_LATE_MAX_MS, SCHEDULE_STEP_MAX_MS } from "../domain/limits.ts";
import type { IsMine } from "../domain/own-endpoints.ts";
import { isRemoved } from "../domain/removal.ts";
import { nextTick, readSchedule, type Schedule } from "../domain/schedule.ts";
import { Reconciler } from "../lib/reconciler.ts";
import type { JobReader, NewJob, ScheduleBook } from "../queue/queue.ts";
import type { Endpoint, Store } from "../store/store.ts";

interface ScheduleDeps {
  readonly store: Pick<Store, "endpoints">;
  readonly queue: ScheduleBook & Pick<JobReader, "find">;
  readonly isMine: IsMine;
  /** Milliseconds since the epoch. */
  readonly clock: () => number;
  readonly newId: () => string;
  /** How long results are kept. */
  readonly retentionMs: number;
  readonly onError: (name: string, error: unknown) => void;
}

export class Schedules {
  readonly #deps: ScheduleDeps;
  readonly #reconciler: Reconciler;
  #timer: NodeJS.Timeout | undefined;

  constructor(deps: ScheduleDeps) {
    this.#deps = deps;
    this.#reconciler = new Reconciler("schedules", SCHEDULE_CHECK_MS, () => this.run(), deps.onError);
  }

  start(): void {
    this.#reconciler.start();
    this.nudge();
  }

  /** An endpoint changed. */
  nudge(): void {
    this.#reconciler.nudge();
  }

  async stop(): Promise<void> {
    await this.#reconciler.stop();
    clearTimeout(this.#timer);
  }

  /** Makes the jobs of all ticks that are due. */
  async run(): Promise<void> {
    const { store, isMine, clock, onError } = this.#deps;
    let next = Number.POSITIVE_INFINITY;
    for (const endpoint of await store.endpoints.listScheduled()) {
      if (isRemoved(endpoint) || !isMine(endpoint.id)) continue;
      try {
        next = Math.min(next, await this.#look(endpoint, clock()));
      } catch (error) {
        if (!isMoved(error)) onError(`the schedule of ${endpoint.name}`, error);
      }
    }
    clearTimeout(this.#timer);
    const waitMs = next - clock();
    // What is further away is looked at by the rounds of the reconciler, which also notice a clock that was set.
    if (waitMs < SCHEDULE_CHECK_MS) this.#timer = setTimeout(() => this.nudge(), Math.max(0, waitMs)).unref();
  }

  /** Resolves when it is to be looked at again. */
  async #look(endpoint: Endpoint, now: number): Promise<number> {
    const { queue } = this.#deps;
    const schedule = readSchedule(endpoint.schedule)!;
    const noted = await queue.scheduleOf(endpoint.id);
    let until = noted?.until ?? now;
    const isAnother = noted?.spec !== endpoint.schedule;
    // So far ahead only a clock that was wrong can have been.
    if (isAnother || until > now + SCHEDULE_STEP_MAX_MS) {
      until = isAnother ? Math.max(until, now) : now;
      await queue.setSchedule(endpoint.id, { spec: endpoint.schedule, until, paused: noted?.paused ?? false });
    }
    if (noted?.paused) return nextTick(schedule, now) ?? Number.POSITIVE_INFINITY;
    const late = now - SCHEDULE_LATE_MAX_MS;
    if (until < late) {
      const missed = nextTick(schedule, until);
      if (schedule.missed === "once" && missed !== undefined && missed <= late) {
        await this.#fire(endpoint, schedule, missed, late);
      }
      until = late;
    }
    for (;;) {
      const tick = nextTick(schedule, until);
      if (tick === undefined || tick > now) return tick ?? Number.POSITIVE_INFINITY;
      await this.#fire(endpoint, schedule, tick, tick);
      until = tick;
    }
  }

  /** `until`: ticks up to then are over with this one. */
  async #fire(endpoint: Endpoint, schedule: Schedule, tick: number, until: number): Promise<void> {
    const { queue } = this.#deps;
    const skips = schedule.overlap === "skip" && (await this.#isRunning(endpoint));
    await queue.tick(endpoint.id, tick, until, skips ? undefined : this.#job(endpoint, schedule, tick));
  }

  async #isRunning({ id }: Endpoint): Promise<boolean> {
    const { queue } = this.#deps;
    const last = (await queue.scheduleOf(id))?.jobId ?? "";
    const job = last === "" ? undefined : await queue.find(last, 0);
    return job !== undefined && !isFinal(job.state);
  }

  #job({ id, executionTimeoutMs }: Endpoint, { input }: Schedule, tick: number): NewJob {
    const { newId, retentionMs } = this.#deps;
    return {
      id: runJobId(newId()),
      endpointId: id,
      input: Buffer.from(JSON.stringify(input)),
      method: "",
      webhook: "",
      // No caller can send such a key: a header has no control characters.
      idempotencyKey: `\u0001tick ${new Date(tick).toISOString()}`,
      lowPriority: false,
      executionTimeoutMs,
      ttlMs: JOB_TTL_DEFAULT_MS,
      retentionMs,
    };
  }
}
