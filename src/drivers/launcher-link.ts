/** The platform's end of one launcher, wherever it runs: starts and stops workers through it and knows which are alive. */
import { bootFailureHead, exitedHead, logHead, startedHead, workersHead } from "../domain/frame-heads.ts";
import { type ExitedHead, FRAME, type StartedHead, type StartHead } from "../domain/worker-protocol.ts";
import { type Frame, readHead } from "../lib/frames.ts";

/** The launcher's connection, as the worker link hands it over. */
export interface LauncherChannel {
  readonly isOpen: boolean;
  send(type: number, channel: number, head?: object): void;
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
}

export class LauncherLink {
  readonly #events: LauncherEvents;
  #channel: LauncherChannel | undefined;
  #connected = Promise.withResolvers<void>();
  /** Workers known to run. */
  readonly alive = new Set<string>();

  constructor(events: LauncherEvents) {
    this.#events = events;
    this.#connected.promise.catch(() => {});
  }

  get isUp(): boolean {
    return this.#channel !== undefined;
  }

  /** Resolves when the launcher has said which workers are alive; rejects with what `giveUp` was given. */
  connected(): Promise<void> {
    return this.#connected.promise;
  }

  /** Nobody should wait for this launcher any longer. */
  giveUp(reason: Error): void {
    this.#connected.reject(reason);
  }

  /** A new launcher is on its way: `connected` is about it from now on. */
  expectAnother(): void {
    this.#connected = Promise.withResolvers<void>();
    this.#connected.promise.catch(() => {});
  }

  /** Takes the connection of a launcher that has proved itself. */
  attach(channel: LauncherChannel): void {
    this.#channel = channel;
    channel.onFrame = (frame) => this.#onFrame(frame);
    const onClose = channel.onClose;
    channel.onClose = () => {
      onClose();
      if (this.#channel === channel) this.#channel = undefined;
    };
  }

  startWorker(head: StartHead): void {
    if (this.#channel === undefined) throw new Error("the launcher is not connected");
    this.alive.add(head.worker);
    this.#channel.send(FRAME.START, 0, head);
  }

  stopWorker(workerId: string, graceMs: number): void {
    this.#channel?.send(FRAME.STOP, 0, { worker: workerId, graceMs });
  }

  retire(zygote: string): void {
    this.#channel?.send(FRAME.RETIRE, 0, { zygote });
  }

  /** Ends every worker and the launcher itself; resolves when its connection is closed. */
  async shutdown(graceMs: number): Promise<void> {
    const channel = this.#channel;
    if (channel === undefined) return;
    await new Promise<void>((resolve) => {
      const onClose = channel.onClose;
      channel.onClose = () => {
        onClose();
        resolve();
      };
      channel.send(FRAME.SHUTDOWN, 0, { graceMs });
    });
  }

  #onFrame(frame: Frame): void {
    const events = this.#events;
    switch (frame.type) {
      case FRAME.WORKERS:
        this.alive.clear();
        for (const { worker, share } of readHead(frame, workersHead).workers) {
          this.alive.add(worker);
          if (share !== undefined && share !== null) events.survived(worker, share);
        }
        this.#connected.resolve();
        break;
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
