import { jobResultHead } from "../domain/frame-heads.ts";
import { FRAME, type JobResultHead } from "../domain/worker-protocol.ts";
import { type Frame, readHead } from "../lib/frames.ts";
import type { Claim, ClaimedJob, JobProgress, Queue } from "../queue/queue.ts";
import type { WorkerSession } from "./session.ts";
import type { EndReason, Work } from "./work.ts";

/**
 * A claimed job on a worker. Its result is acknowledged once it is committed, or refused as late; as long as that cannot
 * be stored, the worker keeps it.
 */
export class JobWork implements Work {
  readonly channel: number;
  readonly inputBytes: number;
  readonly claim: Claim;
  readonly timeoutMs: number;
  startedAt: number | null = null;
  endedAt: number | null = null;
  readonly #session: WorkerSession;
  readonly #queue: Queue & JobProgress;
  /** What became of the job, as soon as that is stored; undefined while it runs. */
  #settled: Promise<unknown> | undefined;
  #recalled = false;

  constructor(
    session: WorkerSession,
    queue: Queue & JobProgress,
    channel: number,
    claim: Claim,
    timeoutMs: number,
    inputBytes = 0,
  ) {
    this.#session = session;
    this.inputBytes = inputBytes;
    this.#queue = queue;
    this.channel = channel;
    this.claim = claim;
    this.timeoutMs = timeoutMs;
  }

  onFrame(frame: Frame): boolean {
    switch (frame.type) {
      case FRAME.PROGRESS:
        if (this.#settled === undefined)
          this.#say("storing a job's progress", frame, (body) => this.#queue.progress(this.claim, body));
        this.#session.onProgress?.(this.claim.jobId, frame.body.toString("utf8"));
        return false;
      case FRAME.CHUNK:
        if (this.#settled === undefined && !this.#queue.passChunk(this.claim, frame.body))
          this.#say("storing a job's chunk", frame, (body) => this.#queue.chunk(this.claim, body));
        return false;
      case FRAME.RESULT:
        this.#session.own("storing a job's result", this.#finish(readHead(frame, jobResultHead), frame.body));
        return true;
      default:
        return false;
    }
  }

  async #finish(head: JobResultHead, body: Buffer): Promise<void> {
    if (head.begun !== false && head.execMs !== undefined) this.#session.load.executed(head.execMs);
    this.#settled ??= this.#session.storing(body.length, this.#outcome(head, body));
    await this.#settled;
    this.#session.connection.send(FRAME.ACK, this.channel);
  }

  #outcome(head: JobResultHead, body: Buffer): Promise<unknown> {
    if (head.begun === false) return this.#queue.release(this.claim, "handed-back");
    if (head.ok) return this.#queue.finish(this.claim, { state: "COMPLETED", output: body });
    return this.#fail(failureText(body), head.raised === true);
  }

  async #fail(error: string, raised: boolean): Promise<unknown> {
    const again = raised ? await this.#session.retries() : undefined;
    return this.#queue.finish(this.claim, { state: "FAILED", error, again });
  }

  #say(what: string, { body }: Frame, store: (body: Buffer) => Promise<void>): void {
    this.#session.own(what, this.#session.storing(body.length, store(body)));
  }

  end(reason: EndReason): void {
    if (this.#settled !== undefined) return;
    const error = `execution timed out after ${this.timeoutMs} ms`;
    // A cancelled job is in its final state already.
    this.#settled =
      reason === "timeout" ? this.#queue.finish(this.claim, { state: "TIMED_OUT", error }) : Promise.resolve();
    this.#session.own("ending a job", this.#settled);
  }

  lost(started: boolean, reason: string): void {
    if (this.#settled !== undefined) return;
    this.#settled = this.#queue.release(this.claim, started ? "lost" : "handed-back", reason);
    this.#session.own("taking a job back", this.#settled);
  }

  returned(): void {
    this.lost(false, "");
  }

  recall(): boolean {
    if (this.#settled !== undefined || this.#recalled) return false;
    this.#recalled = true;
    return true;
  }
}

/** A function that returned `{"error": text}` sends that text as a JSON string; a raised exception sends an object, kept as JSON. */
function failureText(body: Buffer): string {
  const text = body.toString("utf8");
  if (!text.startsWith('"')) return text;
  try {
    return String(JSON.parse(text));
  } catch {
    return text;
  }
}

/**
 * Keeps a claim open for a worker of a queue-based endpoint and hands it the jobs as they come, until the session takes no
 * more work. A claim that arrives too late goes back to the queue.
 */
export async function dispatchJobs(session: WorkerSession, queue: Queue & JobProgress): Promise<void> {
  const { signal } = session.intake;
  const { endpoint, worker } = session;
  let wake = () => {};
  session.onFree = () => wake();
  signal.addEventListener("abort", () => wake(), { once: true });
  while (!signal.aborted && session.isReady) {
    // One that does not read must not gather in our memory what others could run.
    if (session.connection.isBehind) await session.connection.drained();
    const free = session.free;
    if (free <= 0) {
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
      continue;
    }
    const jobs = await queue.claim(endpoint.id, worker.id, free, signal);
    for (const job of jobs) {
      const isLate = signal.aborted || !session.isReady || !session.connection.isOpen;
      if (isLate) session.own("handing a job back", queue.release(job, "handed-back"));
      else send(session, queue, job);
    }
  }
}

function send(session: WorkerSession, queue: Queue & JobProgress, job: ClaimedJob): void {
  const channel = session.newChannel();
  const claim = { jobId: job.jobId, fence: job.fence };
  session.add(new JobWork(session, queue, channel, claim, job.executionTimeoutMs, job.input.byteLength));
  // Written by hand: this runs for every job, and none of the values needs escaping but the method.
  const method = job.method === "" ? "" : `,"method":${JSON.stringify(job.method)}`;
  const attempt = job.attempt === 1 ? "" : `,"attempt":${job.attempt}`;
  const trace = session.traceOf?.(job.jobId);
  const traceparent = trace === undefined ? "" : `,"traceparent":"${trace}"`;
  const rest = `${attempt}${method}${traceparent}`;
  const head = `{"job":"${job.jobId}","fence":${job.fence},"timeoutMs":${job.executionTimeoutMs}${rest}}`;
  session.connection.send(FRAME.JOB, channel, head, job.input, 0, job.isInputOwn);
}
