import { SvcError } from "../domain/errors.ts";
import { bodyEndHead, requestResultHead, windowHead } from "../domain/frame-heads.ts";
import { STREAM_EXCESS_MAX_BYTES, STREAM_WINDOW_BYTES } from "../domain/limits.ts";
import type { LoadBalancedRequest, LoadBalancedResponse } from "../domain/request.ts";
import { FRAME, MORE } from "../domain/worker-protocol.ts";
import { type Frame, FrameError, readHead } from "../lib/frames.ts";
import { WindowedStream } from "../lib/windowed-stream.ts";
import type { WorkerSession } from "./session.ts";
import type { EndReason, Work } from "./work.ts";

/** A request that waits for a worker, with the promise of its caller. */
export interface PendingRequest {
  readonly request: LoadBalancedRequest;
  readonly arrivedAt: number;
  resolve(response: LoadBalancedResponse): void;
  reject(error: SvcError): void;
}

/** A request on a worker. The answer comes whole in one RESULT, or streams in BODY frames behind it. */
export class RequestWork implements Work {
  readonly channel: number;
  readonly inputBytes = 0;
  readonly timeoutMs: number;
  startedAt: number | null = null;
  endedAt: number | null = null;
  readonly #session: WorkerSession;
  readonly #pending: PendingRequest;
  readonly #sentAt = performance.now();
  /** Gives the request to another worker. */
  readonly #again: (pending: PendingRequest) => void;
  #settled = false;
  #stream: WindowedStream | undefined;
  /** How much more of the request's body the worker lets come. */
  #uploadRoom: number;
  #onUploadRoom = () => {};
  /** Nothing more of the request's body is wanted. */
  #isOver = false;

  constructor(session: WorkerSession, pending: PendingRequest, again: (pending: PendingRequest) => void) {
    this.#session = session;
    this.channel = session.newChannel();
    this.#pending = pending;
    this.#again = again;
    this.timeoutMs = session.endpoint.executionTimeoutMs;
    this.#uploadRoom = session.credit?.window ?? Number.POSITIVE_INFINITY;
    pending.request.departure.onGone = () => session.end(this, "disconnected");
  }

  onFrame(frame: Frame): boolean {
    const more = (frame.flags & MORE) !== 0;
    if (frame.type === FRAME.RESULT) this.#answer(frame, more);
    else if (frame.type === FRAME.BODY) this.#push(frame, more);
    else {
      if (frame.type === FRAME.WINDOW) this.#widen(readHead(frame, windowHead).bytes);
      return false;
    }
    if (!more) this.#close();
    return !more;
  }

  /** Waits until `bytes` more of the request's body may be sent. Resolves false when nobody wants it any more. */
  async uploadRoom(bytes: number): Promise<boolean> {
    while (this.#uploadRoom <= 0 && !this.#isOver) {
      await new Promise<void>((resolve) => {
        this.#onUploadRoom = resolve;
      });
    }
    this.#uploadRoom -= bytes;
    return !this.#isOver;
  }

  end(reason: EndReason): void {
    if (reason === "timeout") {
      this.#fail(new SvcError("REQUEST_TIMEOUT", `The function did not answer within ${this.timeoutMs} ms.`));
    } else {
      this.#fail(new SvcError("WORKER_LOST", "The caller has gone."));
    }
  }

  lost(_started: boolean, reason: string): void {
    this.#fail(new SvcError("WORKER_LOST", `The worker was lost while it handled the request: ${reason}.`));
  }

  returned(): void {
    // A body that streams is on its way already and cannot be sent again.
    if (this.#settled || !Buffer.isBuffer(this.#pending.request.body)) this.lost(false, "it has left");
    else {
      this.#close();
      this.#settled = true;
      this.#again(this.#pending);
    }
  }

  recall(): boolean {
    return false; // Its body may be on the way already, and a caller waits on this very connection.
  }

  #answer(frame: Frame, more: boolean): void {
    const head = readHead(frame, requestResultHead);
    if (this.#stream !== undefined) throw new FrameError("an answer came twice");
    if (head.execMs !== undefined && !more) this.#session.load.executed(head.execMs);
    if (this.#settled) return;
    this.#settled = true;
    if (more) {
      const { connection } = this.#session;
      this.#stream = new WindowedStream(STREAM_WINDOW_BYTES, STREAM_EXCESS_MAX_BYTES, (bytes) =>
        connection.send(FRAME.WINDOW, this.channel, { bytes }),
      );
      // Whoever gave it up: the worker would wait for room, and keep its slot.
      this.#stream.once("close", () => {
        if (!this.#isOver) this.#session.end(this, "disconnected");
      });
      this.#stream.add(frame.body);
    }
    const { credit, worker, createdAt } = this.#session;
    const bootedForIt = createdAt > this.#pending.arrivedAt;
    this.#pending.resolve({
      status: head.status,
      headers: head.headers,
      body: this.#stream ?? frame.body,
      workerId: worker.id,
      timing: {
        queueMs: this.#sentAt - this.#pending.arrivedAt,
        bootMs: bootedForIt ? (credit?.bootMs ?? 0) : 0,
        importMs: bootedForIt ? (credit?.importMs ?? 0) : 0,
        execMs: head.execMs ?? performance.now() - this.#sentAt,
      },
    });
  }

  #push(frame: Frame, more: boolean): void {
    if (this.#stream === undefined && !this.#settled) throw new FrameError("a body came before its answer");
    if (this.#stream === undefined || this.#stream.destroyed) return;
    this.#stream.add(frame.body);
    if (more) return;
    if (readHead(frame, bodyEndHead).failed) this.#stream.destroy(new Error("The function failed."));
    else this.#stream.finish();
  }

  #fail(error: SvcError): void {
    this.#close();
    this.#stream?.destroy(error);
    if (this.#settled) return;
    this.#settled = true;
    this.#pending.reject(error);
  }

  #widen(bytes: number): void {
    this.#uploadRoom = Math.min(this.#uploadRoom + bytes, this.#session.credit?.window ?? this.#uploadRoom);
    this.#onUploadRoom();
  }

  #close(): void {
    this.#isOver = true;
    this.#onUploadRoom();
    this.#pending.request.departure.onGone = () => {};
  }
}
