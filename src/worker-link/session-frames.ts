/** What a welcome worker says: frames of its works, and those about itself. */
import { bootFailureHead, creditHead, logHead } from "../domain/frame-heads.ts";
import { LINK_FRAME_COST_BYTES, LINK_LINE_COST_BYTES, LOG_FRAME_MAX_BYTES } from "../domain/limits.ts";
import { type BootFailure, type CreditHead, FRAME } from "../domain/worker-protocol.ts";
import { type Frame, FrameError, readHead } from "../lib/frames.ts";
import type { JobProgress, Queue } from "../queue/queue.ts";
import { dispatchJobs } from "./job-work.ts";
import type { LinkHooks } from "./link-hooks.ts";
import { jobLines } from "./pull/job-lines.ts";
import type { PullWorkers } from "./pull/pull-workers.ts";
import type { RequestDispatch } from "./request-dispatch.ts";
import type { WorkerSession } from "./session.ts";
import type { Sessions } from "./sessions.ts";
import type { Work } from "./work.ts";

interface SessionFramesDeps {
  readonly sessions: Sessions;
  readonly requests: RequestDispatch;
  readonly queue: Queue & JobProgress;
  readonly hooks: LinkHooks;
  readonly pull: PullWorkers;
}

export class SessionFrames {
  readonly #deps: SessionFramesDeps;

  constructor(deps: SessionFramesDeps) {
    this.#deps = deps;
  }

  /** Throws when the frame breaks the protocol: the connection must be closed then. */
  take(session: WorkerSession, frame: Frame): void {
    if (frame.channel !== 0 && frame.type !== FRAME.LOG) {
      const work = session.works.get(frame.channel);
      if (work === undefined) {
        session.said(LINK_FRAME_COST_BYTES);
        // A result that nobody waits for any more: the worker may forget it.
        if (frame.type === FRAME.RESULT) session.connection.send(FRAME.ACK, frame.channel);
      } else if (work.onFrame(frame)) this.#over(session, work);
      // How often a work ends is up to us.
      else {
        session.said(LINK_FRAME_COST_BYTES + (frame.type === FRAME.PROGRESS ? frame.body.length : 0));
        if (frame.type === FRAME.BODY) session.sentOn(work);
      }
      return;
    }
    session.said(LINK_FRAME_COST_BYTES);
    if (frame.type === FRAME.CREDIT) this.#ready(session, readHead(frame, creditHead));
    else if (frame.type === FRAME.BOOT_FAILED) this.#bootFailed(session, readHead(frame, bootFailureHead));
    else if (frame.type === FRAME.LOG) this.#log(session, frame);
    else if (frame.type === FRAME.GOODBYE) session.left();
    else if (frame.type === FRAME.HELLO) throw new FrameError("it says HELLO again");
  }

  /** Of one that pulls, the end of its program is no failed start once it has asked for a job. */
  #bootFailed(session: WorkerSession, failure: BootFailure): void {
    const { hooks, pull } = this.#deps;
    if (!session.pulls || !pull.isReady(session.worker.id)) hooks.bootFailed(session.worker.id, failure);
  }

  #over(session: WorkerSession, work: Work): void {
    session.remove(work);
    session.done += 1;
    if (session.works.size === 0) this.#deps.hooks.workerIdle();
    if (session.endpoint.kind === "load-balanced") this.#deps.requests.serve(session);
  }

  #ready(session: WorkerSession, credit: CreditHead): void {
    if (session.pulls) {
      session.credit = credit;
      this.#deps.pull.programStarted(session.worker.id);
      return;
    }
    const again = session.slots > 0;
    // It was started with this concurrency: one that asks for more would only gather what others wait for.
    session.slots = Math.min(credit.slots, session.endpoint.maxConcurrency);
    if (again) {
      if (session.endpoint.kind === "queue") session.onFree();
      else this.#deps.requests.serve(session);
      return;
    }
    session.credit = credit;
    session.idleSince = performance.now();
    this.#deps.sessions.becameReady(session);
    if (!this.#deps.hooks.ahead?.ready(session.worker.id)) this.begin(session);
  }

  /** From now on it gets work. */
  begin(session: WorkerSession): void {
    const { requests, queue, hooks } = this.#deps;
    if (session.endpoint.kind === "queue") session.own("handing out jobs", dispatchJobs(session, queue));
    else {
      session.onFree = () => {};
      requests.serve(session);
    }
    hooks.workerReady(session.worker);
  }

  #log(session: WorkerSession, frame: Frame): void {
    const { job: jobId = "", stream = "stdout" } = readHead(frame, logHead);
    const { body } = frame;
    const text = body.toString("utf8", 0, LOG_FRAME_MAX_BYTES);
    const line = { workerId: session.worker.id, endpointId: session.endpoint.id, jobId, stream };
    session.said(body.length + linesOf(body.subarray(0, LOG_FRAME_MAX_BYTES)) * LINK_LINE_COST_BYTES);
    const parts = session.pulls ? jobLines(text) : [{ jobId, text }];
    for (const part of parts) session.prints(this.#deps.hooks.log({ ...line, ...part }));
    if (body.length <= LOG_FRAME_MAX_BYTES) return;
    // No worker of ours does that.
    const leftOut = `[svc] lines were left out here: they came ${body.length - LOG_FRAME_MAX_BYTES} bytes too long in one go`;
    session.prints(this.#deps.hooks.log({ ...line, stream: "stderr", text: leftOut }));
  }
}

function linesOf(body: Buffer): number {
  let lines = 0;
  for (let at = body.indexOf(10); at !== -1; at = body.indexOf(10, at + 1)) lines++;
  return lines;
}
