/**
 * The launcher of this machine: one small Python process that forks every worker. It is started while this process is
 * small (forking a large one blocks it) and outlives the platform: the next platform finds it by the file `launcher.json`.
 */
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import path from "node:path";
import { hashSecret, newSecret } from "../domain/api-key.ts";
import { LAUNCHER_RETURN_MS, RECONNECT_MAX_MS } from "../domain/limits.ts";
import { writeFileAtomic } from "../lib/write-file-atomic.ts";
import { type LauncherChannel, type LauncherEvents, LauncherLink } from "./launcher-link.ts";

interface LauncherOptions {
  /** The launcher inherits a few variables of it: PATH, HOME, locale, certificates, CUDA. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly stateDir: string;
  /** Folder that holds the Python package `svc`. */
  readonly pythonPath: string;
  readonly socketPath: string;
  readonly logFd: number;
  /** What zygotes without workers may hold together. */
  readonly zygoteMemoryBytes: number;
  readonly events: LauncherEvents;
}

interface StateFile {
  readonly pid: number;
  readonly tokenHash: string;
}

export class Launcher {
  readonly #options: LauncherOptions;
  readonly #stateFile: string;
  readonly link: LauncherLink;
  #tokenHash = "";
  /** Resolves when it is known which launcher is ours: one of an earlier platform may dial in before. */
  readonly #known = Promise.withResolvers<void>();

  constructor(options: LauncherOptions) {
    this.#options = options;
    this.#stateFile = path.join(options.stateDir, "launcher.json");
    this.link = new LauncherLink(options.events);
  }

  /** Waits for the launcher of an earlier platform, or starts one. `python` is resolved only when it is needed. */
  async start(python: () => Promise<string>): Promise<void> {
    const earlier = this.#readState();
    if (earlier !== undefined && isAlive(earlier.pid)) {
      this.#tokenHash = earlier.tokenHash;
      this.#known.resolve();
      const timer = setTimeout(() => this.link.giveUp(new Error("late")), LAUNCHER_RETURN_MS);
      const back = await this.link.connected().then(
        () => true,
        () => false,
      );
      clearTimeout(timer);
      if (back) return;
    }
    this.link.expectAnother();
    await this.#spawn(await python());
    await this.link.connected();
  }

  /** The platform's socket has a connection that says it is the launcher. False: it is not ours. */
  async attach(secret: string, channel: LauncherChannel): Promise<boolean> {
    await this.#known.promise;
    if (!channel.isOpen || this.#tokenHash === "" || hashSecret(secret) !== this.#tokenHash) return false;
    this.link.attach(channel);
    return true;
  }

  async #spawn(python: string): Promise<void> {
    const { secret, hash } = newSecret("worker");
    this.#tokenHash = hash;
    this.#known.resolve();
    const { pythonPath, socketPath, logFd, zygoteMemoryBytes } = this.#options;
    const file = path.join(pythonPath, "svc", "_runtime", "launcher.py");
    const child = spawn(python, ["-I", "-S", file], {
      detached: true,
      stdio: ["pipe", logFd, logFd],
      cwd: "/",
      env: launcherEnvironment(this.#options.env),
    });
    child.on("error", (error) => this.link.giveUp(error));
    child.on("exit", (code) => this.link.giveUp(new Error(`the launcher exited with code ${code}`)));
    child.stdin!.on("error", () => {});
    const settings = {
      socket: socketPath,
      token: secret,
      id: "launcher",
      reconnectMs: RECONNECT_MAX_MS,
      zygoteMemoryBytes,
    };
    child.stdin!.end(`${JSON.stringify(settings)}\n`);
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
