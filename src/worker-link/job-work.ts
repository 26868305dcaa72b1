import { jobResultHead } from "../domain/frame-heads.ts";
import { FRAME, type JobResultHead } from "../domain/worker-protocol.ts";
import { type Frame, readHead } from "../lib/frames.ts";
import type { Claim, JobProgress, Queue } from "../queue/queue.ts";
import type { WorkerSession } from "./session.ts";
import type { EndReason, Work } from "./work.ts";

/** A claimed job on a worker. Its result is acknowledged once it is committed, or refused as late. */
export class JobWork implements Work {
  readonly channel: number;
  readonly claim: Claim;
  readonly timeoutMs: number;
  startedAt: number | null = null;
  endedAt: number | null = null;
  readonly #session: WorkerSession;
  readonly #queue: Queue & JobProgress;
  #settled = false;
  #recalled = false;

  constructor(session: WorkerSession, queue: Queue & JobProgress, channel: number, claim: Claim, timeoutMs: number) {
    this.#session = session;
    this.#queue = queue;
    this.channel = channel;
    this.claim = claim;
    this.timeoutMs = timeoutMs;
  }

  onFrame(frame: Frame): boolean {
    switch (frame.type) {
      case FRAME.PROGRESS:
        if (!this.#settled) void this.#queue.progress(this.claim, frame.body);
        this.#session.onProgress?.(this.claim.jobId, frame.body.toString("utf8"));
        return false;
      case FRAME.CHUNK:
        if (!this.#settled) void this.#queue.chunk(this.claim, frame.body);
        return false;
      case FRAME.RESULT:
        void this.#finish(readHead(frame, jobResultHead), frame.body);
        return true;
      default:
        return false;
    }
  }

  async #finish(head: JobResultHead, body: Buffer): Promise<void> {
    if (head.begun === false) {
      if (!this.#settled) {
        this.#settled = true;
        await this.#queue.release(this.claim, "handed-back");
      }
      this.#session.connection.send(FRAME.ACK, this.channel);
      return;
    }
    if (head.execMs !== undefined) this.#session.load.executed(head.execMs);
    if (!this.#settled) {
      this.#settled = true;
      const outcome = head.ok
        ? ({ state: "COMPLETED", output: body } as const)
        : ({ state: "FAILED", error: failureText(body) } as const);
      await this.#queue.finish(this.claim, outcome);
    }
    this.#session.connection.send(FRAME.ACK, this.channel);
  }

  end(reason: EndReason): void {
    if (this.#settled) return;
    this.#settled = true;
    if (reason !== "timeout") return; // A cancelled job is in its final state already.
    const error = `execution timed out after ${this.timeoutMs} ms`;
    void this.#queue.finish(this.claim, { state: "TIMED_OUT", error });
  }

  lost(started: boolean, reason: string): void {
    if (this.#settled) return;
    this.#settled = true;
    void this.#queue.release(this.claim, started ? "lost" : "handed-back", reason);
  }

  returned(): void {
    this.lost(false, "");
  }

  recall(): boolean {
    if (this.#settled || this.#recalled) return false;
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
