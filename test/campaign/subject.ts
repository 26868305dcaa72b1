/** The platform under test: on a small disk of its own where that can be mounted, started again when it was killed. */
import { mkdirSync, mkdtempSync, statfsSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { runProcess } from "../../src/lib/run-process.ts";
import { type PlatformProcess, startPlatformProcess } from "../e2e/platform-process.ts";
import { type SettableClock, settableClock, whyNoClock } from "../e2e/settable-clock.ts";
import { freePort } from "../free-port.ts";
import { COMPILED } from "../program.ts";
import { removeFolder } from "../remove-folder.ts";
import { deploy, ENDPOINTS, endpointPaths } from "./deploying.ts";

const DISK_MB = 192;
const INTERRUPTS = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

export interface Reply {
  readonly status: number;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: a test looks into any answer
  readonly json: any;
}

/** Those that are not closed: a campaign that is interrupted leaves neither platform nor mount behind. */
const open = new Set<Subject>();

function interrupted(signal: NodeJS.Signals): void {
  for (const name of INTERRUPTS) process.off(name, interrupted);
  const again = () => process.kill(process.pid, signal);
  Promise.allSettled([...open].map((subject) => subject.close())).then(again, again);
}

export class Subject {
  readonly dir: string;
  readonly dataDir: string;
  readonly hasOwnDisk: boolean;
  /** Sets the platform's clock so many seconds ahead; undefined where that cannot be done. */
  readonly setClock: ((seconds: number) => void) | undefined;
  readonly #env: Readonly<Record<string, string>>;
  /** What it logs, and how often it ended by itself. */
  onLogLine: (line: string) => void = () => {};
  #running!: PlatformProcess;
  #key = "";
  #urls: Record<string, string> = {};
  #closed: Promise<void> | undefined;

  private constructor(
    dir: string,
    hasOwnDisk: boolean,
    env: Readonly<Record<string, string>>,
    clock: SettableClock | undefined,
  ) {
    this.#env = { ...env, ...clock?.env };
    this.setClock = clock?.set;
    this.dir = dir;
    this.dataDir = path.join(dir, "disk", "data");
    this.hasOwnDisk = hasOwnDisk;
  }

  static async start(env: Readonly<Record<string, string>> = {}): Promise<Subject> {
    if (open.size === 0) for (const name of INTERRUPTS) process.on(name, interrupted);
    const dir = mkdtempSync(path.join(tmpdir(), "svc-campaign-"));
    const disk = path.join(dir, "disk");
    mkdirSync(disk);
    const mount = ["-t", "tmpfs", "-o", `size=${DISK_MB}m`, "tmpfs", disk];
    const mounted = process.getuid?.() === 0 && (await runProcess("mount", mount)).code === 0;
    const clock = (await whyNoClock()) === false ? await settableClock(dir) : undefined;
    const subject = new Subject(dir, mounted, env, clock);
    open.add(subject);
    try {
      await subject.#launch(String(await freePort()));
    } catch (error) {
      await subject.close();
      throw error;
    }
    return subject;
  }

  get url(): string {
    return this.#running.url;
  }

  get key(): string {
    return this.#key;
  }

  get pid(): number {
    return this.#running.pid;
  }

  get diskIsHalfFull(): boolean {
    const { blocks, bfree } = statfsSync(this.dataDir);
    return this.hasOwnDisk && bfree < blocks / 2;
  }

  get isAlive(): boolean {
    try {
      return process.kill(this.pid, 0);
    } catch {
      return false;
    }
  }

  async #launch(port: string): Promise<void> {
    const env = { PATH: process.env.PATH, HOME: process.env.HOME, ...COMPILED, ...this.#env };
    const onLogLine = (line: string) => this.onLogLine(line);
    this.#running = await startPlatformProcess({ dataDir: this.dataDir, env, port, onLogLine, ownGroup: true });
    this.#key ||= this.#running.firstKey ?? "";
  }

  /** On the port it had. */
  async restart(): Promise<void> {
    await this.#running.end("SIGKILL");
    await this.#launch(new URL(this.url).port);
  }

  deploy(files: Readonly<Record<string, string>>, signal?: AbortSignal) {
    return deploy({ url: this.url, key: this.key, dir: this.dir }, files, signal);
  }

  /** Deploys what must deploy, and learns the endpoints' URLs. */
  async set(files: Readonly<Record<string, string>>): Promise<Readonly<Record<string, string>>> {
    const { code, stderr } = await this.deploy(files);
    if (code !== 0) throw new Error(stderr);
    const { json } = await this.ask("/graphql", { query: ENDPOINTS });
    this.#urls = endpointPaths(json);
    return this.#urls;
  }

  /** Rejects with TimeoutError when there is no answer in time, and otherwise when the connection broke. */
  async ask(route: string, body?: unknown, options: { maxMs?: number; headers?: Record<string, string> } = {}) {
    const response = await fetch(new URL(route, this.url), {
      method: body === undefined ? "GET" : "POST",
      headers: { authorization: `Bearer ${this.#key}`, "content-type": "application/json", ...options.headers },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: AbortSignal.timeout(options.maxMs ?? 60_000),
    });
    const text = await response.text();
    let json: unknown;
    try {
      json = JSON.parse(text);
    } catch {}
    return { status: response.status, text, json } as Reply;
  }

  close(): Promise<void> {
    this.#closed ??= this.#close();
    return this.#closed;
  }

  async #close(): Promise<void> {
    await this.#running?.end("SIGQUIT");
    if (this.hasOwnDisk) await runProcess("umount", ["--lazy", path.join(this.dir, "disk")]);
    await removeFolder(this.dir);
    open.delete(this);
    if (open.size === 0) for (const name of INTERRUPTS) process.off(name, interrupted);
  }
}
