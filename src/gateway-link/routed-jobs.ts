/**
 * The jobs, whoever has them: a question whose owner has moved is asked of the next, a job sent again under its id. Where several have
 * them, one that is known by its id alone is looked up in the rows first: they say whose it is, and are the same for all.
 */
import { isFinal } from "../domain/job.ts";
import type { CallerJobs, Enqueued, Job, NewJob } from "../queue/queue.ts";
import type { Backing } from "./backing.ts";
import type { AskOptions, Route } from "./route.ts";

export class RoutedJobs implements CallerJobs {
  readonly #route: Route;

  constructor(route: Route) {
    this.#route = route;
  }

  enqueue(job: NewJob) {
    let wasSent = false;
    return this.#ask(
      async ({ queue }, again) => {
        wasSent ||= again;
        return isNew(await queue.enqueue(again ? { ...job, isSentAgain: true } : job), job, wasSent);
      },
      { endpointId: job.endpointId },
    );
  }

  async call(job: NewJob, timeoutMs: number, signal: AbortSignal) {
    const until = performance.now() + timeoutMs;
    let asked: Backing | undefined;
    const called = await this.#ask(
      async (backing, again) => {
        asked = backing;
        const { queue } = backing;
        const sent = again ? { ...job, isSentAgain: true } : job;
        if (queue.call !== undefined) {
          const { created, job: found } = await queue.call(sent, left(until), signal);
          return { ...isNew({ id: found?.id ?? job.id, created }, job, again), job: found };
        }
        const { job: ended, ...submitted } = isNew(await queue.enqueue(sent), job, again);
        return { ...submitted, job: ended ?? (await queue.wait(submitted.id, left(until), signal)) };
      },
      { signal, endpointId: job.endpointId },
    );
    const { created, job: found } = called;
    if (!this.#isEarly(found, asked, until, signal)) return { created, job: found };
    return { created, job: await this.wait(called.id, left(until), signal) };
  }

  async wait(id: string, timeoutMs: number, signal?: AbortSignal): Promise<Job | undefined> {
    const until = performance.now() + timeoutMs;
    for (;;) {
      let asked: Backing | undefined;
      const found = await this.#askOf(
        id,
        (backing) => {
          asked = backing;
          return backing.queue.wait(id, left(until), signal);
        },
        signal,
      );
      if (!this.#isEarly(found, asked, until, signal)) return found;
    }
  }

  find(id: string, outputMaxBytes?: number) {
    return this.#read(({ queue }) => queue.find(id, outputMaxBytes));
  }

  findExpired(id: string) {
    return this.#read(({ queue }) => queue.findExpired(id));
  }

  cancel(id: string) {
    return this.#askOf(id, ({ queue }) => queue.cancel(id));
  }

  retry(id: string) {
    return this.#askOf(id, async ({ queue }, again) => {
      if (await queue.retry(id)) return true;
      // Who lost the answer may have done it.
      const job = again ? await queue.find(id, 0) : undefined;
      return job !== undefined && !isFinal(job.state);
    });
  }

  purge(endpointId: string) {
    return this.#ask(({ queue }) => queue.purge(endpointId), { endpointId });
  }

  input(id: string, maxBytes?: number) {
    return this.#read(({ queue }) => queue.input(id, maxBytes));
  }

  counts(endpointId: string) {
    return this.#ask(({ queue }) => queue.counts(endpointId), { endpointId });
  }

  /** Whoever has them knows which run. */
  list(endpointId: string, options: Parameters<CallerJobs["list"]>[1]) {
    return this.#ask(({ queue }) => queue.list(endpointId, options), { endpointId });
  }

  takeChunks(id: string, holdMs: number, signal?: AbortSignal, chunkMaxBytes?: number) {
    return this.#askOf(id, ({ queue }) => queue.takeChunks(id, holdMs, signal, chunkMaxBytes), signal);
  }

  readChunks(id: string, after: number, holdMs: number, signal?: AbortSignal, chunkMaxBytes?: number) {
    return this.#askOf(id, ({ queue }) => queue.readChunks(id, after, holdMs, signal, chunkMaxBytes), signal);
  }

  async #read<T>(work: (backing: Backing) => Promise<T>): Promise<T> {
    const own = this.#route.shared?.own;
    return own === undefined ? this.#ask(work) : work(own);
  }

  /** Of whoever has the job. */
  async #askOf<T>(
    id: string,
    work: (backing: Backing, again: boolean) => Promise<T>,
    signal?: AbortSignal,
  ): Promise<T> {
    const endpointId = this.#route.shared && (await this.find(id, 0))?.endpointId;
    return this.#ask(work, { signal, endpointId });
  }

  async #ask<T>(work: (backing: Backing, again: boolean) => Promise<T>, options?: AskOptions): Promise<T> {
    return this.#route.ask(work, options);
  }

  /** Who closed its queue answered with the job as it was, before its time. */
  #isEarly(job: Job | undefined, asked: Backing | undefined, until: number, signal?: AbortSignal): boolean {
    if (job === undefined || isFinal(job.state) || signal?.aborted || left(until) === 0) return false;
    return this.#route.backingOf(job.endpointId) !== asked;
  }
}

function left(until: number): number {
  return Math.max(0, until - performance.now());
}

/** One that is there because it was sent before is new to its caller. */
function isNew(answer: Enqueued, job: NewJob, wasSent: boolean): Enqueued {
  return { ...answer, created: answer.created || (wasSent && answer.id === job.id) };
}
