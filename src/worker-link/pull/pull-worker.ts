/** One worker that pulls its jobs: which it has, what it asks for at the moment, and when it was heard of. */
import { hash } from "node:crypto";
import { SvcError } from "../../domain/errors.ts";
import {
  PULL_DRAIN_HOLD_MS,
  PULL_JOBS_MAX,
  PULL_SILENCE_MAX_MS,
  PULL_STOP_GRACE_MS,
  PULL_STOP_REPEAT_MS,
  PULL_UNRECEIVED_MAX,
} from "../../domain/limits.ts";
import type { PullCaller, PulledInput } from "../../domain/pull.ts";
import type { Own } from "../../lib/own.ts";
import type { Again, ClaimedJob, JobProgress, Outcome, Queue } from "../../queue/queue.ts";
import type { Endpoint, Worker } from "../../store/store.ts";
import type { EndpointLoad } from "../endpoint-load.ts";
import { Poll } from "./poll.ts";
import { PulledJob } from "./pulled-job.ts";
import { type Report, readChunk } from "./report.ts";

interface PullWorkerDeps {
  readonly queue: Queue & JobProgress;
  readonly own: Own;
  readonly load: EndpointLoad;
  /** The endpoint as it is now. */
  readonly current: () => Endpoint | undefined | Promise<Endpoint | undefined>;
  readonly now: () => number;
  /** A question is held open so long. */
  readonly holdMs: number;
  /** It has finished all it had. */
  readonly idle: () => void;
  /** A job reported progress, as JSON text; undefined: nobody follows it. */
  readonly onProgress?: (jobId: string, text: string) => void;
}

export class PullWorker {
  readonly worker: Worker;
  readonly endpoint: Endpoint;
  readonly jobs = new Map<string, PulledJob>();
  /** When it first asked for jobs; undefined before. In milliseconds of a monotonic clock, like all times here. */
  readyAt: number | undefined;
  readonly createdAt: number;
  idleSince: number;
  /** Jobs that it has ended, since the platform knows it. */
  done = 0;
  readonly #deps: PullWorkerDeps;
  #heardAt: number;
  #take: Poll | undefined;
  #stops: Poll | undefined;
  #toldAt = Number.NEGATIVE_INFINITY;
  #unreceived = 0;
  #leaves = false;

  constructor(worker: Worker, endpoint: Endpoint, deps: PullWorkerDeps) {
    this.worker = worker;
    this.endpoint = endpoint;
    this.#deps = deps;
    const now = this.#now;
    this.idleSince = this.#heardAt = now;
    this.createdAt = now - Math.max(0, Date.now() - worker.createdAt);
    this.#leaves = worker.state === "DRAINING" || worker.state === "FAILED";
    if (worker.state === "READY" || this.#leaves) this.readyAt = now;
  }

  get #now(): number {
    return this.#deps.now();
  }

  get isReady(): boolean {
    return this.readyAt !== undefined && !this.#leaves;
  }

  get running(): number {
    return this.jobs.size;
  }

  /** A job that it got before the platform was started again. */
  adopt(job: PulledJob): void {
    this.jobs.set(job.id, job);
  }

  heard({ via }: Pick<PullCaller, "via">): void {
    this.#heardAt = this.#now;
    for (const job of this.jobs.values()) if (job.via === via) job.received = true;
  }

  /** Nobody is judged by a silence in which we did not listen. */
  forgive(): void {
    this.#heardAt = this.#now;
    for (const job of this.jobs.values()) job.listedAt = this.#heardAt;
  }

  async take(caller: PullCaller, count: number, holdsNone: boolean): Promise<readonly PulledInput[]> {
    if (holdsNone) this.#dropAll();
    this.#take?.end(); // A worker asks once at a time: what waits on the other connection is not read any more.
    const poll = new Poll(this.#leaves ? PULL_DRAIN_HOLD_MS : this.#deps.holdMs, caller.signal);
    this.#take = poll;
    try {
      const free = Math.min(count, PULL_JOBS_MAX - this.jobs.size);
      if (this.#leaves || free <= 0) {
        await poll.ended();
        return [];
      }
      const claimed = await this.#deps.queue.claim(this.endpoint.id, this.worker.id, free, poll.signal);
      if (poll.signal.aborted || this.#leaves) {
        for (const job of claimed) this.#own("handing a job back", this.#deps.queue.release(job, "handed-back"));
        return [];
      }
      return this.#handOut(claimed, caller);
    } finally {
      poll.close();
      if (this.#take === poll) this.#take = undefined;
    }
  }

  #handOut(claimed: readonly ClaimedJob[], caller: PullCaller): readonly PulledInput[] {
    const now = this.#now;
    const jobs = claimed.map((claim) => {
      return new PulledJob({ jobId: claim.jobId, fence: claim.fence }, claim.executionTimeoutMs, {
        startedAt: now,
        now,
        via: caller.via,
      });
    });
    for (const job of jobs) this.jobs.set(job.id, job);
    const taken = caller.answered.then((whole) => {
      for (const job of jobs) {
        job.sent = whole;
        if (!whole && !job.received) this.#notReceived(job);
      }
    });
    this.#own("handing out jobs", taken);
    return claimed.map(({ jobId, input }) => ({ id: jobId, input }));
  }

  async stops(caller: PullCaller): Promise<readonly string[]> {
    this.#stops?.end();
    const poll = new Poll(this.#leaves ? PULL_DRAIN_HOLD_MS : this.#deps.holdMs, caller.signal);
    this.#stops = poll;
    try {
      // `end` wakes this early only when it leaves, or when a job is to be stopped.
      if (this.#toStop().length === 0) await poll.ended();
      const waitMs = this.#toldAt + PULL_STOP_REPEAT_MS - this.#now;
      if (waitMs > 0 && this.#toStop().length > 0) await pause(waitMs, caller.signal);
      const ids = caller.signal.aborted ? [] : this.#toStop();
      if (ids.length > 0) this.#toldAt = this.#now;
      return ids;
    } finally {
      poll.close();
      if (this.#stops === poll) this.#stops = undefined;
    }
  }

  #toStop(): string[] {
    return [...this.jobs.values()].flatMap((job) => (job.endedAt === null ? [] : [job.id]));
  }

  /** A sign of life, with the jobs that it has. One that is not its own it is to stop. */
  ping(ids: readonly string[]): void {
    const now = this.#now;
    const listed = new Set(ids);
    for (const job of this.jobs.values()) {
      if (listed.has(job.id)) job.heard(this.#now);
      // It may have been handed out since the list was made.
      else if (job.endedAt !== null && now - job.startedAt > PULL_STOP_REPEAT_MS) this.#remove(job);
    }
    for (const id of listed) {
      if (this.jobs.has(id) || this.jobs.size >= PULL_JOBS_MAX) continue;
      const stray = new PulledJob({ jobId: id }, 0, { startedAt: now, now });
      stray.endedAt = now;
      this.jobs.set(id, stray);
      this.#stops?.end();
    }
  }

  async stream({ via }: PullCaller, jobId: string, body: Buffer): Promise<void> {
    const job = this.jobs.get(jobId);
    if (job?.claim === undefined || !job.runs) return;
    job.heard(this.#now);
    const chunk = readChunk(body);
    if (typeof chunk === "string") throw new SvcError("BAD_INPUT", `The chunk cannot be read: ${chunk}.`);
    const digest = hash("sha256", body);
    const before = job.chunk;
    job.chunk = { digest, via };
    // Its connection broke before it heard that the chunk is stored: it sends it again.
    const isAgain = before?.digest === digest && before.via !== via && before.via.errored !== null;
    if (!isAgain) await this.#deps.queue.chunk(job.claim, chunk);
  }

  /** Says whether the worker asked to be stopped after it. A report about a job that is over, or another's, changes nothing. */
  async report(jobId: string, report: Report): Promise<boolean> {
    const job = this.jobs.get(jobId);
    if (job === undefined) return false;
    job.heard(this.#now);
    if (report.kind === "progress") {
      if (job.runs && job.claim !== undefined) await this.#progress(job, report.output);
      return false;
    }
    if (job.runs && job.claim !== undefined) {
      const { claim } = job;
      this.#deps.load.executed(this.#now - job.startedAt);
      const stored = this.#outcome(report).then((outcome) => this.#deps.queue.finish(claim, outcome));
      job.settled = stored;
      stored.catch(() => {
        job.settled = undefined; // It is sent again.
      });
    }
    await job.settled;
    this.#unreceived = 0;
    if (this.jobs.has(jobId)) this.done++;
    this.#remove(job);
    return "stop" in report && report.stop;
  }

  async #progress(job: PulledJob, output: Uint8Array): Promise<void> {
    await this.#deps.queue.progress(job.claim!, output);
    this.#deps.onProgress?.(job.id, Buffer.from(output).toString("utf8"));
  }

  async #outcome(report: Report): Promise<Outcome> {
    if (report.kind === "completed") return { state: "COMPLETED", output: report.output };
    if (report.kind !== "failed") {
      const why = report.kind === "unreadable" ? report.why : "";
      return { state: "FAILED", error: `The worker sent a result that cannot be read: ${why}.` };
    }
    const { error, output, raised } = report;
    return { state: "FAILED", error, output, again: raised ? await this.#retries() : undefined };
  }

  async #retries(): Promise<Again | undefined> {
    const endpoint = await this.#deps.current();
    if (endpoint === undefined || endpoint.retriesMax === 0) return undefined;
    const { retriesMax, retryDelayMs, retryBackoff, retryMaxDelayMs } = endpoint;
    return { max: retriesMax, delayMs: retryDelayMs, backoff: retryBackoff, maxDelayMs: retryMaxDelayMs };
  }

  /** It is over for its caller: the worker is told to stop it, and keeps its place until it has. */
  end(job: PulledJob, reason: "cancelled" | "timeout"): void {
    if (!job.runs || job.claim === undefined) return;
    job.endedAt = this.#now;
    this.#stops?.end();
    // A cancelled job is in its final state already.
    if (reason === "cancelled") return;
    const error = `execution timed out after ${job.timeoutMs} ms`;
    this.#own("ending a job", this.#deps.queue.finish(job.claim, { state: "TIMED_OUT", error }));
  }

  /** Ends what is past its time and gives up what it does not list any more. Why it must be replaced; undefined when it need not. */
  sweep(now: number): string | undefined {
    for (const job of [...this.jobs.values()]) {
      if (job.endedAt !== null) {
        if (now - job.endedAt > PULL_STOP_GRACE_MS) return "it did not stop a job that was to be stopped";
      } else if (job.runs && now - job.startedAt > job.timeoutMs) this.end(job, "timeout");
      else if (job.runs && now - job.listedAt > PULL_SILENCE_MAX_MS) this.#gone(job);
    }
    if (this.readyAt === undefined || !this.isSilent(now)) return undefined;
    return `nothing was heard of it for ${PULL_SILENCE_MAX_MS / 1000} s`;
  }

  /** It asks for nothing, and said nothing for long. */
  isSilent(now: number): boolean {
    const asks = this.#take !== undefined || this.#stops !== undefined;
    return !asks && now - this.#heardAt > PULL_SILENCE_MAX_MS;
  }

  /** It takes no more jobs; what it asks is answered at once, so that it can leave. */
  leave(): void {
    this.#leaves = true;
    this.#take?.end();
    this.#stops?.end();
  }

  /** Nothing more will come from it. */
  loseAll(reason: string, how: "lost" | "handed-back" = "lost"): void {
    this.leave();
    for (const job of this.jobs.values()) if (job.runs) this.#release(job, job.sent ? how : "handed-back", reason);
    this.jobs.clear();
  }

  /** It says that it has no job. */
  #dropAll(): void {
    for (const job of [...this.jobs.values()]) {
      if (job.endedAt !== null) this.#remove(job);
      else if (job.runs) this.#gone(job);
    }
  }

  #gone(job: PulledJob): void {
    if (job.received) {
      this.#release(job, "lost", "its worker does not have it any more");
      this.#remove(job);
    } else this.#notReceived(job);
  }

  /** The answer with the job did not arrive: it has not begun. */
  #notReceived(job: PulledJob): void {
    if (!job.runs) return;
    const how = ++this.#unreceived > PULL_UNRECEIVED_MAX ? "lost" : "handed-back";
    this.#release(job, how, "answers do not reach its worker");
    this.#remove(job);
  }

  #release(job: PulledJob, how: "lost" | "handed-back", reason: string): void {
    job.settled = this.#deps.queue.release(job.claim!, how, reason);
    this.#own("taking a job back", job.settled);
  }

  #remove(job: PulledJob): void {
    if (this.jobs.get(job.id) !== job) return;
    this.jobs.delete(job.id);
    if (this.jobs.size > 0) return;
    this.idleSince = this.#now;
    this.#deps.idle();
  }

  #own(what: string, work: Promise<unknown>): void {
    this.#deps.own(what, work);
  }
}

function pause(ms: number, signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener("abort", done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener("abort", done, { once: true });
    if (signal.aborted) done();
  });
}
