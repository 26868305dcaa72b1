/**
 * A job that a pulling worker has, or says that it has.
 *
 *   handed out ──listed, or heard of otherwise──▶ received ──job-done──▶ settled
 *       └── cancelled, timed out ──▶ ended: told to stop until it is not listed any more
 */
import type { PullCaller } from "../../domain/pull.ts";
import type { Claim } from "../../queue/queue.ts";

export class PulledJob {
  readonly id: string;
  /** Undefined: it is not, or no more, this worker's. */
  readonly claim: Claim | undefined;
  /** Milliseconds it may run. */
  readonly timeoutMs: number;
  /** In milliseconds of a monotonic clock, like all times here. */
  readonly startedAt: number;
  /** Its worker said something of it last. */
  listedAt: number;
  /** The answer with it left whole; it may still be lost on its way. */
  sent: boolean;
  /** The worker has it for sure. */
  received: boolean;
  /** The connection that it was handed out on. */
  readonly via: object | undefined;
  /** Since when the worker is to stop it. */
  endedAt: number | null = null;
  /** What became of it is being stored, or is. */
  settled: Promise<unknown> | undefined;
  /** The last chunk that was stored: its digest, and the connection that it came on. */
  chunk: { readonly digest: string; readonly via: PullCaller["via"] } | undefined;

  constructor(
    claim: Claim | { readonly jobId: string; readonly fence?: undefined },
    timeoutMs: number,
    { startedAt, now, via }: { readonly startedAt: number; readonly now: number; readonly via?: object },
  ) {
    this.id = claim.jobId;
    this.claim = claim.fence === undefined ? undefined : claim;
    this.timeoutMs = timeoutMs;
    this.startedAt = startedAt;
    this.listedAt = now;
    this.via = via;
    this.sent = this.received = via === undefined;
  }

  /** Nothing has become of it yet. */
  get runs(): boolean {
    return this.endedAt === null && this.settled === undefined && this.claim !== undefined;
  }

  heard(now: number): void {
    this.received = true;
    this.listedAt = now;
  }
}
