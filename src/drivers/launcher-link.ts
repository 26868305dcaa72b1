/** The platform's end of one launcher, wherever it runs: starts and stops workers through it and knows which are alive. */

import { bootFailureHead, exitedHead, logHead, startedHead, workersHead } from "../domain/frame-heads.ts";
import { ENVIRONMENT_IN_HEAD_MAX_BYTES, LAUNCHER_ANSWER_MAX_MS } from "../domain/limits.ts";
import {
  type ExitedHead,
  FRAME,
  type HeldAddress,
  type StartedHead,
  type StartHead,
} from "../domain/worker-protocol.ts";
import { type Frame, readHead } from "../lib/frames.ts";

/** The launcher's connection, as the worker link hands it over. */
export interface LauncherChannel {
  readonly isOpen: boolean;
  send(type: number, channel: number, head?: object, body?: Uint8Array): void;
  onFrame: (frame: Frame) => void;
  onClose: () => void;
}

export interface LauncherEvents {
  /** A worker of before a break of the link runs; `share` is that of its START. */
  survived(workerId: string, share: unknown): void;
  started(head: StartedHead): void;
  exited(head: ExitedHead): void;
  bootFailed(workerId: string, head: object): void;
  log(workerId: string, stream: "stdout" | "stderr", text: string): void;
  /** Workers can be started, and it is known which run. */
  available?(): void;
}

export class LauncherLink {
  readonly #events: LauncherEvents;
  #channel: LauncherChannel | undefined;
  #isReady = false;
  #connected = Promise.withResolvers<void>();
  #isKnown = false;
  #heard = false;
  /** Of those who asked whether it answers. */
  readonly #asking = new Set<() => void>();
  #wasShutDown = false;
  /** What the launcher said that its machine lacks of what keeps workers apart, and whether `strict` can hold. */
  isolation: { readonly missing: readonly string[]; readonly strict: boolean } = { missing: [], strict: false };
  /** Workers known to run. */
  readonly alive = new Set<string>();
  /** Of those that were to end while the launcher was away: milliseconds of grace. */
  readonly #stops = new Map<string, number>();

  constructor(events: LauncherEvents) {
    this.#events = events;
    this.#connected.promise.catch(() => {});
  }

  get isUp(): boolean {
    return this.#channel !== undefined;
  }

  /** It has said, over the connection that it has now, which workers are alive: one that was started before would be counted out by that. */
  get isReady(): boolean {
    return this.#isReady;
  }

  /** A launcher has said which workers are alive, or there is none. While that is not so, `alive` says nothing. */
  get isKnown(): boolean {
    return this.#isKnown;
  }

  /** It did what `shutdown` asked for. */
  get wasShutDown(): boolean {
    return this.#wasShutDown;
  }

  /** Whether something came since the last question. */
  takeHeard(): boolean {
    const heard = this.#heard;
    this.#heard = false;
    return heard;
  }

  /** The workers that run, by a launcher that answers now: one that stands still knows nothing of those that ended. */
  async vouched(): Promise<readonly string[]> {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const late = setTimeout(() => resolve(false), LAUNCHER_ANSWER_MAX_MS);
    const answered = () => resolve(true);
    this.#asking.add(answered);
    this.ping();
    const answers = await promise;
    clearTimeout(late);
    this.#asking.delete(answered);
    return answers && this.#isKnown ? [...this.alive] : [];
  }

  /** Resolves when the launcher has said which workers are alive; rejects with what `giveUp` was given. */
  connected(): Promise<void> {
    return this.#connected.promise;
  }

  /** Nobody should wait for this launcher any longer. */
  giveUp(reason: Error): void {
    this.#connected.reject(reason);
  }

  /** The launcher is gone, and with it its workers; `connected` is about the next one from now on. */
  expectAnother(reason: string): void {
    this.#channel = undefined;
    this.#isReady = false;
    this.#isKnown = true;
    this.#connected = Promise.withResolvers<void>();
    this.#connected.promise.catch(() => {});
    this.#stops.clear();
    this.#countOut([...this.alive], reason);
  }

  /** Takes the connection of a launcher that has proved itself. */
  attach(channel: LauncherChannel, closed: () => void = () => {}): void {
    this.#channel = channel;
    this.#isReady = false;
    channel.onFrame = (frame) => this.#onFrame(frame);
    const onClose = channel.onClose;
    channel.onClose = () => {
      onClose();
      if (this.#channel !== channel) return;
      this.#channel = undefined;
      this.#isReady = false;
      closed();
    };
  }

  startWorker(head: StartHead): void {
    if (this.#channel === undefined || !this.#isReady) throw new Error("the launcher is not connected");
    const { env, ...others } = head;
    const text = JSON.stringify(env);
    if (Buffer.byteLength(text) <= ENVIRONMENT_IN_HEAD_MAX_BYTES) this.#channel.send(FRAME.START, 0, head);
    else this.#channel.send(FRAME.START, 0, others, Buffer.from(text));
    this.alive.add(head.worker);
  }

  /** While the launcher is away, the end waits for it. */
  stopWorker(workerId: string, graceMs: number): void {
    if (this.#channel !== undefined) this.#channel.send(FRAME.STOP, 0, { worker: workerId, graceMs });
    else if (this.alive.has(workerId) || !this.#isKnown) this.#stops.set(workerId, graceMs);
  }

  retire(zygote: string): void {
    this.#channel?.send(FRAME.RETIRE, 0, { zygote });
  }

  /** And no others. */
  hold(addresses: readonly HeldAddress[]): void {
    this.#channel?.send(FRAME.HOLD, 0, { addresses });
  }

  ping(): void {
    this.#channel?.send(FRAME.PING, 0);
  }

  /** Ends every worker and the launcher itself; resolves when its connection is closed. */
  async shutdown(graceMs: number): Promise<void> {
    const channel = this.#channel;
    if (channel === undefined) return;
    await new Promise<void>((resolve) => {
      const onClose = channel.onClose;
      channel.onClose = () => {
        onClose();
        this.#wasShutDown = true;
        resolve();
      };
      channel.send(FRAME.SHUTDOWN, 0, { graceMs });
    });
  }

  #countOut(workers: readonly string[], reason: string): void {
    for (const worker of workers) {
      this.alive.delete(worker);
      this.#events.exited({ worker, code: null, signal: null, cause: "machine", reason });
    }
  }

  #onFrame(frame: Frame): void {
    const events = this.#events;
    this.#heard = true;
    for (const answered of this.#asking) answered();
    switch (frame.type) {
      case FRAME.WORKERS: {
        // The ends that it saw while the link was broken came before this.
        const { workers, missing = [], strict = false } = readHead(frame, workersHead);
        this.isolation = { missing, strict };
        const running = new Set(workers.map(({ worker }) => worker));
        this.#countOut(
          [...this.alive].filter((worker) => !running.has(worker)),
          "its launcher does not know it",
        );
        for (const { worker, share } of workers) {
          this.alive.add(worker);
          if (share !== undefined && share !== null) events.survived(worker, share);
        }
        for (const [worker, graceMs] of this.#stops) if (running.has(worker)) this.stopWorker(worker, graceMs);
        this.#stops.clear();
        this.#isKnown = this.#isReady = true;
        this.#connected.resolve();
        events.available?.();
        break;
      }
      case FRAME.STARTED:
        events.started(readHead(frame, startedHead));
        break;
      case FRAME.EXITED: {
        const head = readHead(frame, exitedHead);
        this.alive.delete(head.worker);
        events.exited(head);
        break;
      }
      case FRAME.BOOT_FAILED: {
        const head = readHead(frame, bootFailureHead);
        events.bootFailed(head.worker ?? "", head);
        break;
      }
      case FRAME.LOG: {
        const head = readHead(frame, logHead);
        events.log(head.worker ?? "", head.stream ?? "stderr", frame.body.toString("utf8"));
      }
    }
  }
}
