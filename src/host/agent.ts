/**
 * The agent of a host: a driver and its launcher for a platform on another machine. It decides nothing: the platform says
 * what is prepared, started and stopped, and its workers dial the platform by themselves.
 *
 *   platform ◀══ one TLS link (link.ts) ══▶ agent ─▶ driver ─▶ launcher ─▶ workers ══ TLS, their own ══▶ platform
 *
 * Launcher and workers outlive the agent; the next one on the same data directory takes them over.
 */
import { mkdirSync } from "node:fs";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { openDiskArtifactStore } from "../artifacts/disk-artifact-store.ts";
import {
  AGENT_LEAVE_POLL_MS,
  AGENT_REASON_MAX_CHARS,
  AGENT_TRACEBACK_MAX_CHARS,
  AGENT_USE_MS,
} from "../domain/agent-limits.ts";
import { SvcError } from "../domain/errors.ts";
import type { HostEvent, HostHello, HostState, HostWelcome, HostWorkerExit } from "../domain/host-protocol.ts";
import { FRAME, type HelloHead, PROTOCOL_VERSION } from "../domain/worker-protocol.ts";
import { type CapacityLedger, hardware } from "../drivers/capacity.ts";
import { POD_SOCKETS } from "../drivers/pod/pod-driver.ts";
import type { DriverHooks, WorkerExit } from "../drivers/worker-driver.ts";
import type { NetworkFolder } from "../lib/network-folder.ts";
import { unlessAborted } from "../lib/unless-aborted.ts";
import type { Config } from "../server/config.ts";
import { type LocalDriver, makeDriver } from "../server/driver.ts";
import { openVolumesDisk } from "../server/volumes.ts";
import { GpuMeter } from "../telemetry/gpu-meter.ts";
import { MachineMeter } from "../telemetry/machine-use.ts";
import type { Connection } from "../worker-link/connection.ts";
import { Reception, refuse } from "../worker-link/reception.ts";
import type { AgentEvent } from "./agent-events.ts";
import { awayWords, type JoinAddress, type WorkerPort, workersDial } from "./dial.ts";
import { FetchedLayers } from "./fetch-layers.ts";
import type { HostDirectory } from "./host-directory.ts";
import { PlatformLink } from "./link.ts";
import { freeDisk } from "./machine-facts.ts";
import { PlatformCalls } from "./platform-calls.ts";
import { checkShared } from "./shared-volumes.ts";

export interface AgentOptions {
  readonly directory: HostDirectory;
  readonly address: JoinAddress;
  /** Where the platform was reached last. */
  readonly port: Pick<WorkerPort, "host" | "port">;
  /** Lets this machine in the first time; undefined: it was let in before. */
  readonly token: string | undefined;
  readonly hello: Omit<HostHello, "clock">;
  readonly config: Config;
  readonly ledger: CapacityLedger;
  /** What fetched layers may take, packed. */
  readonly layersMaxBytes: number;
  /** Workers that run have so long to finish when it is told to leave. */
  readonly graceMs: number;
  readonly told: (event: AgentEvent) => void;
}

/** Left: no worker runs here any more. Handed over: all run on, for the next agent. */
export type AgentEnd = "left" | "handedOver";

export class Agent {
  readonly #options: AgentOptions;
  readonly #driver: LocalDriver;
  readonly #volumesDisk: NetworkFolder;
  /** What their mark says, once the platform's are there. */
  #volumesMark: string | undefined;
  readonly #link: PlatformLink;
  readonly #calls: PlatformCalls;
  readonly #reception: Reception;
  readonly #ended = Promise.withResolvers<AgentEnd>();
  #port: Pick<WorkerPort, "host" | "port">;
  /** What the workers that run here dial. */
  #dialled: string;
  #secret: string | undefined;
  /** Lets links of workers wait at the platform. */
  #ahead: string | undefined;
  #ending: Promise<AgentEnd> | undefined;
  /** When what runs has to be finished, of one that leaves. */
  #leavesBy: number | undefined;
  #hurry = new AbortController();
  #measuring: NodeJS.Timeout | undefined;

  /** The driver is made of what the directory holds; `start` does the rest. */
  static async make(options: AgentOptions): Promise<Agent> {
    const { directory, address, layersMaxBytes, told } = options;
    const kept = await openDiskArtifactStore(path.join(directory.path, "artifacts"));
    const bucketFailed = (bucket: string, reason: string) => {
      const message = `The platform's bucket at ${bucket} cannot be used from this machine: ${reason}.`;
      told({ kind: "warning", message, help: "Layers come through the platform." });
    };
    const layers = new FetchedLayers({ platformUrl: address.url, kept, keptMaxBytes: layersMaxBytes, bucketFailed });
    await layers.open();
    return new Agent(options, layers);
  }

  private constructor(options: AgentOptions, layers: FetchedLayers) {
    this.#options = options;
    this.#port = options.port;
    const { address, config, ledger, directory, told } = options;
    const joined = directory.membership;
    this.#dialled = workersDial(address, joined ?? options.port);
    if (joined?.url === address.url && joined.fingerprint === address.fingerprint) this.#secret = joined.secret;
    const diskTold = (message: string) => told({ kind: "warning", message });
    this.#volumesDisk = openVolumesDisk(config.volumesDir, diskTold, async () => this.#volumesMark);
    this.#driver = makeDriver({
      ...{ config, ledger, volumesDisk: this.#volumesDisk },
      artifacts: layers.store,
      socketPath: socketPath(options),
      workersDial: ({ dial }) => workersDial(address, dial ?? this.#port),
      ahead: () => this.#ahead,
      platformUrl: () => address.url,
      containerCalls: { serve: async () => address.url },
      loginOf: async (endpointId) => this.#calls.loginOf(endpointId),
      logFd: directory.openLog(),
      hooks: this.#hooks(),
    });
    this.#driver.onExit((exit) => this.#exited(exit));
    this.#link = new PlatformLink({
      address,
      hello: () => this.#hello(),
      events: {
        welcomed: (welcome, port) => this.#welcomed(welcome, port),
        asked: (ask, body) => this.#calls.asked(ask, body),
        away: (reason) => {
          told({ kind: "away", reason });
          // It may have gone before it told its workers.
          if (this.#leavesBy !== undefined) this.#sendWorkersAway(this.#leavesBy);
        },
        refused: (error) => this.#refused(error),
      },
    });
    this.#calls = new PlatformCalls({
      driver: this.#driver,
      layers,
      send: (type, head, body) => this.#link.send(type, head, body),
      told,
    });
    this.#reception = new Reception((connection, hello) => this.#onHello(connection, hello));
  }

  /** Resolves when the agent has ended; rejects when the platform does not want it any more. */
  get ended(): Promise<AgentEnd> {
    return this.#ended.promise;
  }

  /** What the machine lacks of what keeps workers apart, in words; once it has started. */
  get missingIsolation(): readonly string[] {
    return this.#driver.missingIsolation ?? [];
  }

  /** Throws why the machine cannot run workers, or why the platform does not let it in; an agent that was let in before keeps trying. */
  async start(signal: AbortSignal): Promise<void> {
    // The data directory keeps others out; workers that are users of their own must read their code below it.
    process.umask(0o022);
    await this.#reception.listen(socketPath(this.#options));
    try {
      await unlessAborted(this.#driver.open(), signal);
      await unlessAborted(this.#join(), signal);
      this.#measure();
    } catch (error) {
      // Workers of an earlier agent go on, for a later one.
      await this.#driver.close({ stopAll: this.#workers === 0 });
      await this.#close();
      throw error;
    }
  }

  /** What runs gets a grace to finish; `now` ends it. Nothing of it is left either way. */
  leave(now: boolean): void {
    if (now) this.#hurry.abort();
    this.#ending ??= this.#leave();
    this.#ending.then(this.#ended.resolve, this.#ended.reject);
  }

  /** Lets go of launcher and workers: the next agent on the same directory takes them over. Nothing happens when it leaves already. */
  handOver(): void {
    if (this.#ending !== undefined) return;
    this.#ending = this.#letGo();
    this.#ending.then(this.#ended.resolve, this.#ended.reject);
  }

  async #letGo(): Promise<AgentEnd> {
    await this.#driver.close({ stopAll: false });
    await this.#close();
    return "handedOver";
  }

  async #join(): Promise<void> {
    try {
      await this.#link.dial();
    } catch (error) {
      const code = error instanceof SvcError ? error.code : undefined;
      const isRefused = code === "FORBIDDEN";
      const { token } = this.#options;
      if (this.#secret !== undefined && isRefused && token !== undefined) {
        this.#secret = undefined; // It was removed there, and has a token to come back with.
        return this.#join();
      }
      if (this.#secret === undefined || isRefused || code === "CONFIG_INVALID") throw error;
      this.#options.told({ kind: "away", reason: awayWords(error) });
      this.#link.goOn();
    }
  }

  #hello() {
    const { hello, token } = this.#options;
    const proof = this.#secret ?? token;
    if (proof === undefined) throw new Error("an agent without a token and without a secret");
    return { token: proof, host: { ...hello, clock: Date.now() } };
  }

  async #welcomed(welcome: HostWelcome, port: WorkerPort): Promise<Omit<HostState, "ended">> {
    const { address, directory, hello, told } = this.#options;
    this.#port = port;
    this.#ahead = welcome.ahead;
    if (welcome.secret !== undefined) {
      this.#secret = welcome.secret;
      const { hostId, secret } = welcome;
      await directory.remember({ ...address, name: hello.name, hostId, secret, host: port.host, port: port.port });
    }
    this.#volumesMark = undefined;
    if (hello.sharedVolumes) {
      await checkShared(this.#volumesDisk, welcome.platformId);
      this.#volumesMark = welcome.platformId || undefined;
    }
    const state = await this.#state();
    if (welcome.several !== true) await this.#endAstray(state.workers.map(({ worker }) => worker));
    told({ kind: "joined", host: hello.name, platform: address.url, workers: state.workers.length });
    if (this.#leavesBy !== undefined) this.#tellLeaving(this.#leavesBy);
    return state;
  }

  /** The platform is elsewhere than it was: workers would look for it where it was, and hold their places meanwhile. */
  async #endAstray(workers: readonly string[]): Promise<void> {
    const before = this.#dialled;
    this.#dialled = workersDial(this.#options.address, this.#port);
    if (before === this.#dialled) return;
    for (const worker of workers) await this.#driver.stop(worker, 0);
  }

  /** Waits until it is known which workers run. */
  async #state(): Promise<Omit<HostState, "ended">> {
    for (;;) {
      const running = await this.#driver.list();
      if (running === undefined) {
        await delay(AGENT_LEAVE_POLL_MS);
        continue;
      }
      const { hardware, vcpus, memoryGb, gpus, emulatesGpu, shares } = this.#options.ledger.capacity;
      const none = { vcpus: 0, memoryGb: 0, gpus: [] };
      return {
        machine: { hardware, vcpus, memoryGb, gpus, emulatesGpu },
        workers: running.map((worker) => ({ worker, share: shares.get(worker) ?? none })),
        missing: this.missingIsolation,
        freeDiskBytes: await freeDisk(this.#options.directory.path),
      };
    }
  }

  /** What is in use of the machine, whatever part of it is offered. */
  #measure(): void {
    const { capacity } = this.#options.ledger;
    const meter = new MachineMeter();
    const told = (message: string) => this.#options.told({ kind: "warning", message });
    const gpuMeter = capacity.gpus.some((gpu) => !gpu.emulated)
      ? new GpuMeter({ now: () => performance.now(), told })
      : undefined;
    this.#measuring = setInterval(() => {
      const { vcpus, memory, gpus } = meter.read({ ...capacity, hardware: hardware() }, gpuMeter?.read() ?? []);
      const of = { vcpus: vcpus.used, memoryGb: memory.used, gpus: gpus.measured };
      if (this.#link.isUp) this.#link.tell({ event: "used", of });
    }, AGENT_USE_MS).unref();
  }

  #hooks(): DriverHooks {
    const tell = (event: HostEvent, workerId: string | undefined, of: object) =>
      this.#link.tell({ event, workerId, of });
    return {
      started: (head) => {
        this.#options.told({ kind: "started", worker: head.worker, endpoint: this.#endpointOf(head.worker) });
        tell("started", head.worker, { head });
      },
      bootFailed: (workerId, failure) => tell("bootFailed", workerId, { failure: shortened(failure) }),
      log: (workerId, stream, text) => this.#link.tell({ event: "log", workerId, stream }, Buffer.from(text)),
      programPrinted: (workerId, stream, text) =>
        this.#link.tell({ event: "programPrinted", workerId, stream }, Buffer.from(text)),
      available: () => tell("available", undefined, {}),
      told: (line, facts) => {
        this.#options.told({ kind: "warning", message: line });
        tell("told", undefined, { line: line.slice(0, AGENT_REASON_MAX_CHARS), facts: plain(facts) });
      },
    };
  }

  #exited({ workerId, code, signal, reason, cause }: WorkerExit): void {
    const of: HostWorkerExit = { workerId, code, signal, reason: reason.slice(0, AGENT_REASON_MAX_CHARS), cause };
    this.#options.told({ kind: "ended", worker: workerId, endpoint: this.#endpointOf(workerId), reason });
    this.#calls.endpointNames.delete(workerId);
    this.#link.tell({ event: "exited", workerId, of });
  }

  #endpointOf(worker: string): string {
    return this.#calls.endpointNames.get(worker) ?? "";
  }

  get #workers(): number {
    return this.#options.ledger.capacity.shares.size;
  }

  /** Only launchers come here: workers dial the platform. */
  #onHello(connection: Connection, hello: HelloHead): void {
    if (hello.role !== "launcher") {
      refuse(connection, "only the launcher of this host comes in here");
      return;
    }
    this.#driver.attachLauncher(hello.token, connection).then(
      (isOurs) => {
        if (!isOurs) return refuse(connection, "unknown launcher");
        connection.trust();
        connection.send(FRAME.WELCOME, 0, { protocol: PROTOCOL_VERSION });
      },
      () => connection.destroy(),
    );
  }

  #refused(error: SvcError): void {
    this.#hurry.abort();
    this.#ending ??= this.#leave();
    this.#ending.then(() => this.#ended.reject(error), this.#ended.reject);
  }

  async #leave(): Promise<AgentEnd> {
    this.#calls.isLeaving = true;
    const { graceMs } = this.#options;
    const { signal } = this.#hurry;
    if (!signal.aborted) {
      this.#options.told({ kind: "leaving", workers: this.#workers, graceMs });
      const end = performance.now() + graceMs;
      this.#leavesBy = end;
      if (this.#link.isUp) this.#tellLeaving(end);
      else this.#sendWorkersAway(end);
      while (this.#workers > 0 && performance.now() < end && !signal.aborted) await delay(AGENT_LEAVE_POLL_MS);
    }
    await this.#driver.close({ stopAll: true });
    await this.#close();
    return "left";
  }

  /** The platform has its workers finish; the next one, too, when that ends meanwhile. */
  #tellLeaving(end: number): void {
    this.#link.tell({ event: "leaving", of: { graceMs: Math.max(0, end - performance.now()) } });
  }

  /** Nobody else tells them to finish: those that have nothing to do would stay for all of the grace. */
  #sendWorkersAway(end: number): void {
    const graceMs = Math.max(0, end - performance.now());
    const send = async () => {
      for (const worker of (await this.#driver.list()) ?? []) await this.#driver.stop(worker, graceMs);
    };
    send().catch((error: Error) => this.#options.told({ kind: "warning", message: error.message }));
  }

  async #close(): Promise<void> {
    clearInterval(this.#measuring);
    this.#link.close();
    await this.#reception.close();
    await this.#volumesDisk.close();
  }
}

/** Where its launcher dials: in a Pod that is in another container. */
function socketPath({ config, directory }: AgentOptions): string {
  if (config.driver !== "pod") return directory.socketPath();
  const file = path.join(config.pod.folder, POD_SOCKETS.launcher);
  mkdirSync(path.dirname(file), { recursive: true });
  return file;
}

/** So that it fits into a head. */
function shortened(failure: object): object {
  return Object.fromEntries(
    Object.entries(failure).map(([key, value]) => [
      key,
      typeof value === "string" ? value.slice(-AGENT_TRACEBACK_MAX_CHARS) : value,
    ]),
  );
}

function plain(facts: Readonly<Record<string, unknown>>): Record<string, string> {
  const words = (value: unknown) =>
    typeof value === "object" && !(value instanceof Error) ? JSON.stringify(value) : String(value);
  return Object.fromEntries(
    Object.entries(facts).map(([key, value]) => [key, words(value).slice(0, AGENT_REASON_MAX_CHARS)]),
  );
}
