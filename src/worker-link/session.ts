/**
 * One connected worker: which work it holds on which channel, and how much more it may get. The first `slots`
 * works of the map run, those behind them wait on the worker (prefetched).
 */
import {
  CANCEL_GRACE_MS,
  CANCEL_MANY_MAX_MS,
  CHANNEL_MAX,
  LINK_FRAME_COST_BYTES,
  PREFETCH_MAX_BYTES,
  STORING_MAX_BYTES,
} from "../domain/limits.ts";
import { type CreditHead, FRAME } from "../domain/worker-protocol.ts";
import type { Own } from "../lib/own.ts";
import type { Again } from "../queue/queue.ts";
import type { Endpoint, Worker } from "../store/store.ts";
import type { Connection } from "./connection.ts";
import type { EndpointLoad } from "./endpoint-load.ts";
import type { LinkRate } from "./link-rate.ts";
import type { EndReason, Work } from "./work.ts";

export class WorkerSession {
  readonly worker: Worker;
  readonly endpoint: Endpoint;
  readonly load: EndpointLoad;
  connection: Connection;
  /** Its program pulls its jobs over HTTP: this link has logs, and what concerns the process. */
  pulls = false;
  /** 0 until the handler is loaded. */
  slots = 0;
  credit: CreditHead | undefined;
  readonly works = new Map<number, Work>();
  /** Works that it has ended. */
  done = 0;
  /** What it says that it holds is being looked up. */
  isResuming = false;
  /** When the last work ended, or the worker became ready (`performance.now()`). */
  idleSince = performance.now();
  /** `performance.now()` when it said HELLO first. */
  readonly beganAt = performance.now();
  /** `performance.now()` when it was asked for. */
  readonly createdAt: number;
  /** Aborts when it takes no more work: it drains, or it is gone. */
  readonly intake = new AbortController();
  onFree: () => void = () => {};
  /** The endpoint as it is now; `endpoint` is as it was when the worker came. */
  current: () => Endpoint | undefined | Promise<Endpoint | undefined> = () => this.endpoint;
  /** The traceparent for a job that it is given now, when that is traced. */
  traceOf: ((jobId: string) => string | undefined) | undefined;
  /** A job reported progress, as JSON text. */
  onProgress: ((jobId: string, text: string) => void) | undefined;
  /** Takes over what nobody awaits. */
  readonly own: Own;
  readonly #rate: LinkRate;
  /** Of the jobs that it was given. */
  #inputBytes = 0;
  /** Bytes of its works that are on their way to the disk. */
  #storing = 0;
  /** Not read from until some of them are there. */
  readonly #unheard = new Set<Connection>();
  #lastChannel = 0;
  #lostBy: "machine" | undefined;
  #drainGraceMs: number | undefined;
  /** When a cancelled work ended last, or sent on what had room in its window: its cancel may wait to be read behind that. */
  #movedAt = 0;
  /** The long work behind which others were recalled. */
  #blockedBy: Work | undefined;

  constructor(
    worker: Worker,
    endpoint: Endpoint,
    load: EndpointLoad,
    connection: Connection,
    own: Own,
    rate: LinkRate,
  ) {
    this.own = own;
    this.#rate = rate;
    this.worker = worker;
    this.endpoint = endpoint;
    this.load = load;
    this.connection = connection;
    this.createdAt = this.beganAt - Math.max(0, Date.now() - worker.createdAt);
  }

  get isReady(): boolean {
    return this.slots > 0 && !this.intake.signal.aborted;
  }

  /** How many more works it may get now. */
  get free(): number {
    if (!this.isReady || !this.connection.isOpen) return 0;
    const mayPrefetch = this.#blockedBy === undefined && this.#inputBytes < PREFETCH_MAX_BYTES;
    const ahead = mayPrefetch ? this.load.prefetch(performance.now()) : 0;
    return this.slots + ahead - this.works.size;
  }

  /** Whether a new work would run at once. */
  get hasFreeSlot(): boolean {
    return this.isReady && this.works.size < this.slots;
  }

  /** How its endpoint wants jobs that raised to be tried again; undefined: not at all. */
  async retries(): Promise<Again | undefined> {
    const endpoint = await this.current();
    if (endpoint === undefined || endpoint.retriesMax === 0) return undefined;
    const { retriesMax, retryDelayMs, retryBackoff, retryMaxDelayMs } = endpoint;
    return { max: retriesMax, delayMs: retryDelayMs, backoff: retryBackoff, maxDelayMs: retryMaxDelayMs };
  }

  newChannel(): number {
    do {
      this.#lastChannel = this.#lastChannel === CHANNEL_MAX ? 1 : this.#lastChannel + 1;
    } while (this.works.has(this.#lastChannel));
    return this.#lastChannel;
  }

  /** Channels up to here belong to works from before a break. */
  keepChannelsUpTo(channel: number): void {
    this.#lastChannel = Math.max(this.#lastChannel, channel);
  }

  add(work: Work): void {
    if (this.works.size < this.slots) work.startedAt ??= performance.now();
    this.works.set(work.channel, work);
    this.#inputBytes += work.inputBytes;
  }

  remove(work: Work): void {
    if (!this.works.delete(work.channel)) return;
    this.#inputBytes -= work.inputBytes;
    if (work === this.#blockedBy) this.#blockedBy = undefined;
    const now = performance.now();
    if (work.endedAt !== null) this.#movedAt = now;
    if (this.works.size === 0) this.idleSince = now;
    let running = 0;
    for (const next of this.works.values()) {
      if (++running > this.slots) break;
      next.startedAt ??= now;
    }
    this.onFree();
  }

  /** Ends a work that is over for its caller; the slot stays taken until the worker says so. */
  end(work: Work, reason: EndReason): void {
    if (work.endedAt !== null) return;
    work.endedAt = performance.now();
    work.end(reason);
    this.connection.send(FRAME.CANCEL, work.channel, { reason });
  }

  /** A part of an answer came that nobody wants any more. */
  sentOn(work: Work): void {
    if (work.endedAt !== null) this.#movedAt = performance.now();
  }

  /** The CANCEL of a work that ended while the link was broken. */
  tellAgain(work: Work): void {
    if (work.endedAt === null) return;
    work.endedAt = performance.now();
    this.connection.send(FRAME.CANCEL, work.channel, { reason: "cancelled" });
  }

  /** Ends works past their time; says whether the worker ignores a cancel and must be killed. */
  sweep(now: number): boolean {
    let stuck = false;
    for (const work of this.works.values()) {
      if (work.endedAt !== null) {
        // Of many that are cancelled at once the last takes longest: while others end, it is not stuck.
        const movedAt = Math.min(this.#movedAt, work.endedAt + CANCEL_MANY_MAX_MS);
        stuck ||= now - Math.max(work.endedAt, movedAt) > CANCEL_GRACE_MS;
      } else if (work.startedAt !== null && now - work.startedAt > work.timeoutMs) this.end(work, "timeout");
    }
    return stuck;
  }

  /**
   * Asks for what waits behind a work that turned out to be long. Only the worker knows what it has begun, so each stays
   * here until its result; meanwhile nothing more is prefetched.
   */
  recall(now: number, longMs: number): void {
    const [first] = this.works.values();
    if (this.works.size <= this.slots || first?.startedAt == null || now - first.startedAt < longMs) return;
    this.#blockedBy = first;
    for (const work of this.works.values()) {
      if (work.startedAt === null && work.recall()) {
        this.connection.send(FRAME.CANCEL, work.channel, { reason: "recalled" });
      }
    }
  }

  /** It said something. One that says more than it may is not listened to until it is within its rate again. */
  said(cost: number): void {
    this.#rate.spend(cost);
    if (this.#rate.isOverdrawn) this.connection.restWhile(() => this.#rate.owedMs());
  }

  /** What a work wrote is being stored. A worker that says more than the disk takes is not listened to until it has. */
  async storing<T>(bytes: number, stored: Promise<T>): Promise<T> {
    const cost = bytes + LINK_FRAME_COST_BYTES;
    this.#storing += cost;
    if (this.#storing > STORING_MAX_BYTES && !this.#unheard.has(this.connection)) {
      this.#unheard.add(this.connection);
      this.connection.pause();
    }
    try {
      return await stored;
    } finally {
      this.#storing -= cost;
      if (this.#storing <= STORING_MAX_BYTES) {
        for (const connection of this.#unheard) connection.resume();
        this.#unheard.clear();
      }
    }
  }

  /** It printed something. While there is no room for that, it is not listened to. */
  prints(room: Promise<unknown> | undefined): void {
    if (room === undefined) return;
    const { connection } = this;
    connection.pause();
    this.own(
      "waiting for room in a log",
      room.finally(() => connection.resume()),
    );
  }

  /** No new work; the worker finishes what it has and leaves. */
  drain(graceMs: number): void {
    if (this.intake.signal.aborted) return;
    this.#drainGraceMs = graceMs;
    this.intake.abort();
    this.drainAgain();
  }

  /** The DRAIN that was sent while the link was broken. */
  drainAgain(): void {
    if (this.#drainGraceMs !== undefined) this.connection.send(FRAME.DRAIN, 0, { graceMs: this.#drainGraceMs });
  }

  /** It said GOODBYE: what it has not answered it never began. */
  left(): void {
    this.intake.abort();
    const works = [...this.works.values()];
    this.works.clear();
    this.#inputBytes = 0;
    for (const work of works) work.returned();
  }

  /** What waits behind its slots goes to others. */
  handBackWaiting(reason: string): void {
    for (const work of [...this.works.values()].filter(({ startedAt }) => startedAt === null)) {
      work.lost(false, reason);
      this.remove(work);
    }
  }

  /** The worker is gone; by the machine's fault what it had waits again as if it had not begun, also what it turns out later to have had. */
  loseAll(reason: string, cause?: "machine"): void {
    this.#lostBy ??= cause;
    this.intake.abort();
    for (const work of this.works.values()) work.lost(work.startedAt !== null && this.#lostBy === undefined, reason);
    this.works.clear();
  }
}
