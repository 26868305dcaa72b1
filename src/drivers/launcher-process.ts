/** One launcher process of this machine, started here or by an earlier platform. */
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { hashSecret, newSecret } from "../domain/api-key.ts";
import { LAUNCHER_KILLED_MAX_MS, RECONNECT_MAX_MS } from "../domain/limits.ts";
import { keepUnwaiting } from "../lib/log.ts";
import { isRunning, startTimeOf } from "../lib/start-time.ts";
import { writeFileAtomic } from "../lib/write-file-atomic.ts";

const LOOK_MS = 10;

export interface LauncherOptions {
  /** The launcher inherits a few variables of it: PATH, HOME, locale, certificates, CUDA. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stateDir: string;
  /** Folder that holds the Python package `svc`. */
  readonly pythonPath: string;
  readonly socketPath: string;
  readonly logFd: number;
  /** What zygotes without workers may hold together. */
  readonly zygoteMemoryBytes: number;
  /** Has a folder for each endpoint, in which its workers have theirs. */
  readonly tempRoot: string;
}

interface StateFile {
  readonly pid: number;
  readonly tokenHash: string;
  /** A later process may have the same pid; missing in files of earlier versions. */
  readonly startTime?: string;
}

export class LauncherProcess {
  readonly pid: number;
  readonly #tokenHash: string;
  readonly #startTime: string | undefined;
  /** How it ended, when that is known. */
  end = "ended";

  private constructor({ pid, tokenHash, startTime }: StateFile) {
    this.pid = pid;
    this.#tokenHash = tokenHash;
    this.#startTime = startTime;
  }

  /** The launcher of an earlier platform, if it runs. */
  static earlier(stateDir: string): LauncherProcess | undefined {
    try {
      const state = JSON.parse(readFileSync(stateFile(stateDir), "utf8")) as StateFile;
      const found = new LauncherProcess(state);
      return found.isAlive ? found : undefined;
    } catch {
      return undefined;
    }
  }

  /** Starts one. `onEnd` is called when it has ended, also when it never began. */
  static start(python: string, options: LauncherOptions, onEnd: () => void): LauncherProcess {
    const { secret, hash } = newSecret("worker");
    const { pythonPath, socketPath, logFd, zygoteMemoryBytes, tempRoot } = options;
    const file = path.join(pythonPath, "svc", "_runtime", "launcher.py");
    const child = spawn(python, ["-I", "-S", file], {
      detached: true,
      stdio: ["pipe", logFd, logFd],
      cwd: "/",
      env: launcherEnvironment(options.env),
    });
    keepUnwaiting(logFd);
    const pid = child.pid ?? 0;
    const process = new LauncherProcess({ pid, tokenHash: hash, startTime: startTimeOf(pid) });
    child.on("error", (error) => {
      process.end = `cannot be started: ${error.message}`;
      onEnd();
    });
    child.on("exit", (code, signal) => {
      process.end = signal === null ? `exited with code ${code}` : `was killed by ${signal}`;
      onEnd();
    });
    // Without a process there may be no pipe either.
    child.stdin?.on("error", () => {});
    const settings = { socket: socketPath, token: secret, id: "launcher", reconnectMs: RECONNECT_MAX_MS };
    child.stdin?.end(`${JSON.stringify({ ...settings, zygoteMemoryBytes, tempRoot })}\n`);
    child.unref();
    return process;
  }

  /** A later platform finds it by this. */
  async remember(stateDir: string): Promise<void> {
    const state: StateFile = { pid: this.pid, tokenHash: this.#tokenHash, startTime: this.#startTime };
    await writeFileAtomic(stateFile(stateDir), JSON.stringify(state));
  }

  knows(secret: string): boolean {
    return hashSecret(secret) === this.#tokenHash;
  }

  get isAlive(): boolean {
    return this.pid !== 0 && isRunning(this.pid, this.#startTime);
  }

  /** Resolves when it has ended by itself, with its workers and what they leave behind, at the latest when it was killed. */
  async terminated(): Promise<void> {
    this.#signal("SIGTERM");
    await this.#gone();
    await this.killed();
  }

  /** SIGKILL: its workers end with it. */
  kill(): void {
    this.#signal("SIGKILL");
  }

  /** Resolves when that has happened, unless the kernel takes too long. */
  async killed(): Promise<void> {
    this.kill();
    await this.#gone();
  }

  #signal(signal: NodeJS.Signals): void {
    try {
      if (this.isAlive) process.kill(this.pid, signal);
    } catch {} // It has just ended.
  }

  async #gone(): Promise<void> {
    const late = performance.now() + LAUNCHER_KILLED_MAX_MS;
    while (this.isAlive && performance.now() < late) await delay(LOOK_MS);
  }
}

function stateFile(stateDir: string): string {
  return path.join(stateDir, "launcher.json");
}

// The launcher and what it starts run code of others; /proc shows the environment a process began with.
const INHERITED = /^(PATH|HOME|LANG|TZ|TMPDIR|LD_LIBRARY_PATH|SSL_CERT_FILE|SSL_CERT_DIR|LC_.*|CUDA_.*|NVIDIA_.*)$/;

function launcherEnvironment(env: Readonly<Record<string, string | undefined>>): Record<string, string | undefined> {
  return Object.fromEntries(Object.entries(env).filter(([name]) => INHERITED.test(name)));
}
