/**
 * The supervisor of this machine's launcher: one small Python process that starts every worker. It is started while
 * this process is small (forking a large one blocks it), outlives the platform, and is replaced when it ends.
 *
 *   start ─▶ an earlier one runs? ─ yes ─▶ away ──dials in──▶ up ──connection closes──▶ away
 *               └─ no ─▶ spawned ───────────▲                                            │ process gone, or silent for long
 *                          ▲                                                             │ (then it is killed)
 *                          └── a pause that grows ◀── its workers are counted out ◀──────┘
 *
 * A launcher that is alive is never replaced before it had its time: its workers run, and end with it.
 */
import {
  LAUNCHER_CHECK_MS,
  LAUNCHER_PING_MS,
  LAUNCHER_RESTART_FIRST_MS,
  LAUNCHER_RESTART_MAX_MS,
  LAUNCHER_RETURN_MS,
  LAUNCHER_SHUTDOWN_MAX_MS,
  LAUNCHER_SILENCE_MAX_MS,
} from "../domain/limits.ts";
import { type LauncherChannel, type LauncherEvents, LauncherLink } from "./launcher-link.ts";
import { type LauncherOptions, LauncherProcess } from "./launcher-process.ts";

export interface SupervisorEvents extends LauncherEvents {
  /** Something to know about the launcher itself. */
  told(line: string, facts: Readonly<Record<string, unknown>>): void;
}

export class Launcher {
  readonly #options: LauncherOptions;
  readonly #events: SupervisorEvents;
  readonly link: LauncherLink;
  #python: () => Promise<string> = () => Promise.reject(new Error("the launcher was not started"));
  #process: LauncherProcess | undefined;
  /** Resolves when it is known which launcher is ours: one of an earlier platform may dial in before. */
  readonly #known = Promise.withResolvers<void>();
  #check: NodeJS.Timeout | undefined;
  #restart: NodeJS.Timeout | undefined;
  /** Checks since it was last heard or its connection broke: a platform that stood still itself counts none meanwhile. */
  #silentChecks = 0;
  #goneChecks = 0;
  #pauseMs = 0;
  #closing = false;

  constructor(options: LauncherOptions, events: SupervisorEvents) {
    this.#options = options;
    this.#events = events;
    this.link = new LauncherLink(events);
  }

  /** Why no worker can be started now; undefined when one can. */
  get problem(): string | undefined {
    if (this.link.isReady) return undefined;
    const gone = this.#process === undefined || !this.#process.isAlive;
    return gone
      ? `The launcher, which starts workers, ${this.#process?.end ?? "ended"}; another one is being started.`
      : "The launcher, which starts workers, does not answer at the moment.";
  }

  /** Waits a moment for the launcher of an earlier platform, which may come later too, or starts one. */
  async start(python: () => Promise<string>): Promise<void> {
    this.#python = python;
    const earlier = LauncherProcess.earlier(this.#options.stateDir);
    this.#check = setInterval(() => this.#look(), LAUNCHER_CHECK_MS).unref();
    if (earlier !== undefined) {
      this.#process = earlier;
      this.#known.resolve();
      const waited = Promise.withResolvers<void>();
      const timer = setTimeout(waited.resolve, LAUNCHER_RETURN_MS);
      await Promise.race([this.link.connected(), waited.promise]).finally(() => clearTimeout(timer));
      return;
    }
    const connected = this.link.connected();
    try {
      await this.#spawn();
      await connected;
    } catch (error) {
      this.letGo();
      throw error;
    }
  }

  /** The platform's socket has a connection that says it is the launcher. False: it is not ours. */
  async attach(secret: string, channel: LauncherChannel): Promise<boolean> {
    await this.#known.promise;
    if (!channel.isOpen || this.#process?.knows(secret) !== true) return false;
    this.#silentChecks = 0;
    this.link.attach(channel, () => this.#look());
    return true;
  }

  /** Looks after it no longer; it lives on. */
  letGo(): void {
    this.#closing = true;
    clearInterval(this.#check);
    clearTimeout(this.#restart);
  }

  /** Ends it and its workers, at the latest when its time for that is over. */
  async shutdown(): Promise<void> {
    this.letGo();
    const late = new Promise<void>((resolve) => {
      setTimeout(resolve, this.link.isUp ? LAUNCHER_SHUTDOWN_MAX_MS : 0).unref();
    });
    await Promise.race([this.link.shutdown(0), late]);
    if (this.link.isUp || !this.link.wasShutDown) await this.#process?.killed();
  }

  async #spawn(): Promise<void> {
    const python = await this.#python();
    if (this.#closing) return;
    this.#silentChecks = this.#goneChecks = 0;
    const started = LauncherProcess.start(python, this.#options, () => {
      // The first one of all: whoever started the platform wants to know.
      this.link.giveUp(new Error(`the launcher ${started.end}`));
      this.#look();
    });
    this.#process = started;
    this.#known.resolve();
    // Without the file a later platform starts one of its own, and this one is told to go.
    const unwritten = (error: unknown) => this.#events.told("the launcher's state cannot be written", { error });
    await started.remember(this.#options.stateDir).catch(unwritten);
  }

  #look(): void {
    const process = this.#process;
    if (process === undefined || this.#closing || this.#restart !== undefined) return;
    if (!process.isAlive) {
      // What it said last may still be on its way.
      if (this.link.isUp && this.#goneChecks++ === 0) return;
      this.#ended(process);
      return;
    }
    this.#goneChecks = 0;
    this.#silentChecks = this.link.takeHeard() ? 0 : this.#silentChecks + 1;
    const silentMs = this.#silentChecks * LAUNCHER_CHECK_MS;
    if (silentMs > LAUNCHER_SILENCE_MAX_MS) {
      this.#events.told("the launcher is killed: it has been silent for long", { pid: process.pid, silentMs });
      process.kill();
    } else if (silentMs > 0 && silentMs % LAUNCHER_PING_MS === 0) this.link.ping();
  }

  #ended(process: LauncherProcess): void {
    const { end, pid } = process;
    const lost = this.link.alive.size;
    const pauseMs = this.#pauseMs;
    this.#events.told(`the launcher ${end}: its workers are counted out, another one is started`, {
      pid,
      lost,
      pauseMs,
    });
    this.#pauseMs = Math.min(LAUNCHER_RESTART_MAX_MS, Math.max(LAUNCHER_RESTART_FIRST_MS, pauseMs * 2));
    this.link.expectAnother(`its launcher ${end}`);
    this.#restart = setTimeout(() => {
      this.#restart = undefined;
      this.#spawn().catch((error) => {
        this.#process ??= process;
        process.end = `cannot be started: ${String(error)}`;
        this.#look();
      });
      const isBack = () => {
        this.#pauseMs = 0;
      };
      this.link
        .connected()
        .then(isBack)
        .catch(() => {});
    }, pauseMs);
  }
}
