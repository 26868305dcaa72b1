/**
 * A worker that is what its image runs by itself: one container, with the image's own program, user and files. Its jobs
 * come over HTTP; the engine tells what it prints and when it ends. A later platform finds it by its labels and goes on.
 */
import { finished } from "node:stream/promises";
import { setTimeout as delay } from "node:timers/promises";
import type { ContainerCreateOptions } from "dockerode";
import { CONTAINER_CALL_RETRY_MS, CONTAINER_WORKER_PIDS, LOG_LINE_MAX_BYTES } from "../../domain/limits.ts";
import type { ExitedHead } from "../../domain/worker-protocol.ts";
import { LastLines } from "../../lib/last-lines.ts";
import type { Own } from "../../lib/own.ts";
import { wholeLines } from "../../lib/whole-lines.ts";
import { createContainer, ended, removeContainer } from "./container-life.ts";
import { answered, type Container, type Engine, engineFailed, engineWords, hasStatus } from "./engine.ts";
import { CPU_PERIOD_US, type Mount, type WorkerShare } from "./worker-container.ts";

const LAST_LINES = 5;

export interface ProgramPlan {
  readonly name: string;
  readonly imageId: string;
  /** In place of the image's own; [] for those. */
  readonly entrypoint: readonly string[];
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly mounts: readonly Mount[];
  readonly network: string;
  /** What the engine runs it with; "" is the engine's own choice. */
  readonly runtime: string;
  readonly extraHosts: readonly string[];
  readonly share: WorkerShare;
  readonly gpus: boolean;
  readonly labels: Readonly<Record<string, string>>;
}

interface Events {
  exited(head: ExitedHead): void;
  printed(workerId: string, stream: "stdout" | "stderr", text: string): void;
}

export class PullContainer {
  readonly #workerId: string;
  readonly #events: Events;
  readonly #own: Own;
  readonly #over = new AbortController();
  readonly #last = new LastLines(LAST_LINES);
  /** All that it printed is read. */
  #read: Promise<void> = Promise.resolve();
  #container: Container | undefined;
  #kill: NodeJS.Timeout | undefined;
  #killAt = Number.POSITIVE_INFINITY;
  #wasKilled = false;

  constructor(workerId: string, events: Events, own: Own) {
    this.#workerId = workerId;
    this.#events = events;
    this.#own = own;
  }

  /** Resolves when the program runs. Throws NO_CAPACITY. */
  async launch(engine: Engine, plan: ProgramPlan): Promise<void> {
    try {
      this.#container = await createContainer(engine, programOptions(plan));
      await answered(this.#container.start());
    } catch (error) {
      await removeContainer(this.#container);
      throw engineFailed("The worker's container cannot be started", error);
    }
    this.#look(this.#container, 0);
    // It was to end before it began.
    if (this.#wasKilled) this.#signal("SIGKILL");
    else if (this.#killAt < Number.POSITIVE_INFINITY) this.#signal("SIGTERM");
  }

  /** One that an earlier platform started. */
  adopt(container: Container): void {
    this.#container = container;
    this.#look(container, Math.floor(Date.now() / 1000));
  }

  /** SIGTERM now, SIGKILL after `graceMs`, or sooner when it was said before. */
  stop(graceMs: number): void {
    const killAt = performance.now() + graceMs;
    if (graceMs > 0) this.#signal("SIGTERM");
    if (killAt >= this.#killAt) return;
    this.#killAt = killAt;
    clearTimeout(this.#kill);
    const kill = () => {
      this.#wasKilled = true;
      this.#signal("SIGKILL");
    };
    if (graceMs === 0) kill();
    else this.#kill = setTimeout(kill, graceMs).unref();
  }

  /** It lives on, for the next platform. */
  letGo(): void {
    clearTimeout(this.#kill);
    this.#over.abort();
  }

  async remove(): Promise<void> {
    this.letGo();
    await removeContainer(this.#container);
  }

  #signal(signal: "SIGTERM" | "SIGKILL"): void {
    // One that has ended is noticed by its end.
    if (this.#container === undefined) return;
    const sent = answered(this.#container.kill({ signal })).catch((error: unknown) => {
      if (!hasStatus(error, 404) && !hasStatus(error, 409)) throw error;
    });
    this.#own(`sending ${signal} to a container`, sent);
  }

  /** `since`: what it printed before is known (seconds since the epoch). */
  #look(container: Container, since: number): void {
    this.#read = this.#follow(container, since);
    this.#own("reading what a container prints", this.#read);
    this.#own("looking after a container", this.#watch(container));
  }

  async #follow(container: Container, since: number): Promise<void> {
    const { signal } = this.#over;
    const output = await container.logs({ follow: true, stdout: true, stderr: true, since, abortSignal: signal });
    const streams = [this.#lines("stdout"), this.#lines("stderr")] as const;
    container.modem.demuxStream(output, ...streams);
    await finished(output, { writable: false }).catch(() => {}); // Its end is noticed otherwise.
    for (const stream of streams) stream.end();
    await Promise.all(streams.map((stream) => finished(stream)));
  }

  #lines(stream: "stdout" | "stderr") {
    return wholeLines(LOG_LINE_MAX_BYTES, (text) => {
      this.#last.add(`${text}\n`);
      this.#events.printed(this.#workerId, stream, text);
    });
  }

  async #watch(container: Container): Promise<void> {
    if (!(await ended(container, this.#over.signal))) return;
    const late = delay(CONTAINER_CALL_RETRY_MS, undefined, { ref: false });
    await Promise.race([this.#read.catch(() => {}), late]);
    const head = await this.#lastWords(container);
    clearTimeout(this.#kill);
    this.#over.abort();
    this.#events.exited(head);
    await removeContainer(container);
  }

  async #lastWords(container: Container): Promise<ExitedHead> {
    const worker = this.#workerId;
    if (this.#wasKilled) {
      return { worker, code: null, signal: "SIGKILL", reason: "killed: it did not stop within the grace period" };
    }
    try {
      const { State } = await answered(container.inspect());
      const code = State.ExitCode;
      if (State.OOMKilled) return { worker, code, signal: null, reason: "killed: it ran out of memory" };
      const isExpected = code === 0 || this.#killAt < Number.POSITIVE_INFINITY;
      const said = isExpected ? "" : this.#last.lines.join("\n");
      return { worker, code, signal: null, reason: `exited with code ${code}${said === "" ? "" : `: ${said}`}` };
    } catch (error) {
      const how = hasStatus(error, 404) ? "its container was removed" : `its container ended: ${engineWords(error)}`;
      return { worker, code: null, signal: null, reason: `lost: ${how}` };
    }
  }
}

/** What the image says holds: its entrypoint, user and folder. Its files are its own to write. */
function programOptions(plan: ProgramPlan): ContainerCreateOptions {
  const { memoryBytes, vcpus } = plan.share;
  return {
    name: plan.name,
    Image: plan.imageId,
    ...(plan.entrypoint.length > 0 ? { Entrypoint: [...plan.entrypoint] } : {}),
    ...(plan.command.length > 0 ? { Cmd: [...plan.command] } : {}),
    Env: Object.entries(plan.env).map(([name, value]) => `${name}=${value}`),
    Healthcheck: { Test: ["NONE"] },
    Labels: { ...plan.labels },
    HostConfig: {
      Init: true,
      Runtime: plan.runtime === "" ? undefined : plan.runtime,
      SecurityOpt: ["no-new-privileges:true"],
      IpcMode: "private",
      NetworkMode: plan.network,
      ExtraHosts: [...plan.extraHosts],
      Mounts: plan.mounts.map(({ from, to, writable }) => {
        return { Type: "bind", Source: from, Target: to, ReadOnly: writable !== true };
      }),
      ShmSize: Math.floor(memoryBytes / 2),
      DeviceRequests: plan.gpus ? [{ Driver: "nvidia", Count: -1, Capabilities: [["gpu"]] }] : [],
      LogConfig: { Type: "json-file", Config: { "max-size": "1m", "max-file": "1" } },
      Memory: memoryBytes,
      MemorySwap: memoryBytes,
      CpuPeriod: CPU_PERIOD_US,
      CpuQuota: Math.round(vcpus * CPU_PERIOD_US),
      PidsLimit: CONTAINER_WORKER_PIDS,
    },
  };
}
