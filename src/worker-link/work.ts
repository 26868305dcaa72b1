/** One unit of work on a worker's channel: a claimed job, or a request of a load-balanced endpoint. */
import type { Frame } from "../lib/frames.ts";

export type EndReason = "cancelled" | "timeout" | "disconnected";

export interface Work {
  readonly channel: number;
  /** What came with it; 0 where that is not known or came as a stream. */
  readonly inputBytes: number;
  /** Milliseconds it may run; the link ends it then. */
  readonly timeoutMs: number;
  /** When the worker began it (`performance.now()`); null while it waits behind another on the same worker. */
  startedAt: number | null;
  /** When it was told to stop; the worker is killed when it has not obeyed after the grace. */
  endedAt: number | null;
  /** A frame for this channel. Returns true when the work is over and the slot free. */
  onFrame(frame: Frame): boolean;
  /** Its time is over, or its caller has gone: settles the work for everyone but the worker. */
  end(reason: EndReason): void;
  /** The worker is gone. `started` is false when it never began. */
  lost(started: boolean, reason: string): void;
  /** The worker has left and never began it. */
  returned(): void;
  /** The worker is asked to give it back if it has not begun it: its result says so. False when it cannot be, or was already. */
  recall(): boolean;
}
