import type { Job } from "../queue.ts";

type Waiter = (job: Job | undefined) => void;

/** Callers that wait for something to happen to a job. A waiter is called once and then forgotten. */
export class Waiters {
  readonly #byJob = new Map<string, Set<Waiter>>();

  has(jobId: string): boolean {
    return this.#byJob.has(jobId);
  }

  count(jobId: string): number {
    return this.#byJob.get(jobId)?.size ?? 0;
  }

  jobIds(): string[] {
    return [...this.#byJob.keys()];
  }

  /**
   * Resolves when the job is notified, `timeoutMs` have passed or `signal` aborts: with the job when the one who
   * notified had it at hand, else undefined.
   */
  wait(jobId: string, timeoutMs: number, signal?: AbortSignal): Promise<Job | undefined> {
    return this.begin(jobId, timeoutMs, signal).comes;
  }

  /** The same; who waits no longer calls `end`. */
  begin(
    jobId: string,
    timeoutMs: number,
    signal?: AbortSignal,
  ): { readonly comes: Promise<Job | undefined>; readonly end: () => void } {
    if (timeoutMs <= 0 || signal?.aborted) return { comes: Promise.resolve(undefined), end: () => {} };
    const { promise: comes, resolve } = Promise.withResolvers<Job | undefined>();
    let isOver = false;
    const done = (job: Job | undefined) => {
      isOver = true;
      clearTimeout(timer);
      signal?.removeEventListener("abort", end);
      resolve(job);
    };
    const end = () => {
      if (isOver) return;
      this.remove(jobId, done);
      done(undefined);
    };
    const timer = setTimeout(end, timeoutMs);
    signal?.addEventListener("abort", end);
    this.add(jobId, done);
    return { comes, end };
  }

  /** `done` is called in the turn in which the job is notified, once. */
  add(jobId: string, done: Waiter): void {
    const waiting = this.#byJob.get(jobId);
    if (waiting === undefined) this.#byJob.set(jobId, new Set([done]));
    else waiting.add(done);
  }

  remove(jobId: string, done: Waiter): void {
    const waiting = this.#byJob.get(jobId);
    waiting?.delete(done);
    if (waiting?.size === 0) this.#byJob.delete(jobId);
  }

  notify(jobId: string, job?: Job): void {
    const waiting = this.#byJob.get(jobId);
    if (waiting === undefined) return;
    this.#byJob.delete(jobId);
    for (const done of waiting) done(job);
  }

  notifyAll(): void {
    for (const jobId of [...this.#byJob.keys()]) this.notify(jobId);
  }
}
