/**
 * The launcher: one small Python process that forks every worker. It is started while this process is small (forking
 * a large one blocks it) and outlives the platform: the next platform finds it by the file `launcher.json`.
 */
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import path from "node:path";
import { hashSecret, newSecret } from "../domain/api-key.ts";
import { LAUNCHER_RETURN_MS, RECONNECT_MAX_MS } from "../domain/limits.ts";
import {
  type ExitedHead,
  FRAME,
  type StartedHead,
  type StartHead,
  type WorkersHead,
} from "../domain/worker-protocol.ts";
import { type Frame, parseHead } from "../lib/frames.ts";
import { writeFileAtomic } from "../lib/write-file-atomic.ts";

/** The launcher's connection, as the worker link hands it over. */
export interface LauncherChannel {
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

interface LauncherOptions {
  /** The launcher inherits a few variables of it: PATH, HOME, locale, certificates, CUDA. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stateDir: string;
  /** Folder that holds the Python package `svc`. */
  readonly pythonPath: string;
  readonly socketPath: string;
  readonly logFd: number;
  readonly events: LauncherEvents;
}

interface StateFile {
  readonly pid: number;
  readonly tokenHash: string;
}

export class Launcher {
  readonly #options: LauncherOptions;
  readonly #stateFile: string;
  #tokenHash = "";
  #channel: LauncherChannel | undefined;
  #connected = Promise.withResolvers<void>();
  /** Workers known to run. */
  readonly alive = new Set<string>();

  constructor(options: LauncherOptions) {
    this.#options = options;
    this.#stateFile = path.join(options.stateDir, "launcher.json");
  }

  /** Waits for the launcher of an earlier platform, or starts one. `python` is resolved only when it is needed. */
  async start(python: () => Promise<string>): Promise<void> {
    const earlier = this.#readState();
    if (earlier !== undefined && isAlive(earlier.pid)) {
      this.#tokenHash = earlier.tokenHash;
      const timer = setTimeout(() => this.#connected.reject(new Error("late")), LAUNCHER_RETURN_MS);
      const back = await this.#connected.promise.then(
        () => true,
        () => false,
      );
      clearTimeout(timer);
      if (back) return;
    }
    this.#connected = Promise.withResolvers<void>();
    await this.#spawn(await python());
    await this.#connected.promise;
  }

  /** The link has a connection that says it is the launcher. False: it is not ours. */
  attach(secret: string, channel: LauncherChannel): boolean {
    if (this.#tokenHash === "" || hashSecret(secret) !== this.#tokenHash) return false;
    this.#channel = channel;
    channel.onFrame = (frame) => this.#onFrame(frame);
    const onClose = channel.onClose;
    channel.onClose = () => {
      onClose();
      if (this.#channel === channel) this.#channel = undefined;
    };
    return true;
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
    const { events } = this.#options;
    switch (frame.type) {
      case FRAME.WORKERS:
        this.alive.clear();
        for (const { worker, share } of parseHead<WorkersHead>(frame).workers) {
          this.alive.add(worker);
          if (share !== undefined && share !== null) events.survived(worker, share);
        }
        this.#connected.resolve();
        break;
      case FRAME.STARTED:
        events.started(parseHead<StartedHead>(frame));
        break;
      case FRAME.EXITED: {
        const head = parseHead<ExitedHead>(frame);
        this.alive.delete(head.worker);
        events.exited(head);
        break;
      }
      case FRAME.BOOT_FAILED: {
        const head = parseHead<{ worker: string }>(frame);
        events.bootFailed(head.worker, head);
        break;
      }
      case FRAME.LOG: {
        const head = parseHead<{ worker?: string; stream?: "stdout" | "stderr" }>(frame);
        events.log(head.worker ?? "", head.stream ?? "stderr", frame.body.toString("utf8"));
      }
    }
  }

  async #spawn(python: string): Promise<void> {
    const { secret, hash } = newSecret("worker");
    this.#tokenHash = hash;
    const { pythonPath, socketPath, logFd } = this.#options;
    const file = path.join(pythonPath, "svc", "_runtime", "launcher.py");
    const child = spawn(python, ["-I", "-S", file], {
      detached: true,
      stdio: ["pipe", logFd, logFd],
      cwd: "/",
      env: launcherEnvironment(this.#options.env),
    });
    child.on("error", (error) => this.#connected.reject(error));
    child.on("exit", (code) => this.#connected.reject(new Error(`the launcher exited with code ${code}`)));
    child.stdin!.on("error", () => {});
    child.stdin!.end(
      `${JSON.stringify({ socket: socketPath, token: secret, id: "launcher", reconnectMs: RECONNECT_MAX_MS })}\n`,
    );
    child.unref();
    const state: StateFile = { pid: child.pid ?? 0, tokenHash: hash };
    await writeFileAtomic(this.#stateFile, JSON.stringify(state));
  }

  #readState(): StateFile | undefined {
    try {
      return JSON.parse(readFileSync(this.#stateFile, "utf8")) as StateFile;
    } catch {
      return undefined;
    }
  }
}

// The launcher and what it starts run code of others; /proc shows the environment a process began with.
const INHERITED = /^(PATH|HOME|LANG|TZ|TMPDIR|LD_LIBRARY_PATH|SSL_CERT_FILE|SSL_CERT_DIR|LC_.*|CUDA_.*|NVIDIA_.*)$/;

function launcherEnvironment(env: Readonly<Record<string, string | undefined>>): Record<string, string | undefined> {
  return Object.fromEntries(Object.entries(env).filter(([name]) => INHERITED.test(name)));
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
