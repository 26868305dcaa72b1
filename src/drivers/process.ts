/** Workers as processes of this machine, forked by the launcher. */
import { mkdir } from "node:fs/promises";
import path from "node:path";
import type { ArtifactStore } from "../artifacts/artifact-store.ts";
import { RECONNECT_MAX_MS } from "../domain/limits.ts";
import type { StartedHead, StartHead } from "../domain/worker-protocol.ts";
import { BaseLayers } from "./base-layers.ts";
import { type CapacityLedger, machineOf, type Share } from "./capacity.ts";
import { Interpreters } from "./interpreter.ts";
import { Launcher, type LauncherChannel } from "./launcher.ts";
import { LayerFolder } from "./layers.ts";
import type { Capacity, WorkerDriver, WorkerExit, WorkerImage, WorkerSpec } from "./worker-driver.ts";

const GB = 1024 ** 3;

interface ProcessDriverOptions {
  readonly dataDir: string;
  readonly socketPath: string;
  readonly pythonPath: string;
  readonly python: string | undefined;
  /** Environment of pip and uv; the launcher inherits a few of its variables. */
  readonly installerEnv: Readonly<Record<string, string | undefined>>;
  readonly isolation: "none" | "standard" | "strict";
  /** Folders of the platform and its users that workers must not see. */
  readonly hidden: readonly string[];
  readonly logFd: number;
  readonly artifacts: ArtifactStore;
  readonly ledger: CapacityLedger;
  readonly hooks: {
    bootFailed(workerId: string, failure: object): void;
    log(workerId: string, stream: "stdout" | "stderr", text: string): void;
    started(head: StartedHead): void;
  };
}

/** The files of a prepared image. */
interface Prepared {
  readonly python: string;
  readonly handler: string;
  readonly paths: readonly string[];
}

export class ProcessDriver implements WorkerDriver {
  readonly #options: ProcessDriverOptions;
  readonly #layers: LayerFolder;
  readonly #baseLayers: BaseLayers;
  readonly #interpreters: Interpreters;
  readonly #launcher: Launcher;
  readonly #prepared = new Map<string, Prepared>();
  #onExit: (exit: WorkerExit) => void = () => {};

  constructor(options: ProcessDriverOptions) {
    this.#options = options;
    const { dataDir, artifacts, hooks } = options;
    this.#layers = new LayerFolder(path.join(dataDir, "layers"), artifacts);
    this.#baseLayers = new BaseLayers(path.join(dataDir, "base"), options.installerEnv);
    this.#interpreters = new Interpreters(options.python);
    this.#launcher = new Launcher({
      env: options.installerEnv,
      stateDir: dataDir,
      pythonPath: options.pythonPath,
      socketPath: options.socketPath,
      logFd: options.logFd,
      events: {
        survived: (worker, share) => options.ledger.restore(worker, share as Share),
        started: hooks.started,
        exited: ({ worker, code, signal, reason }) => this.#exited(worker, code, signal, reason),
        bootFailed: hooks.bootFailed,
        log: hooks.log,
      },
    });
  }

  /** Call before anything large is loaded, and after the socket listens. */
  async open(): Promise<void> {
    await this.#launcher.start(async () => (await this.#interpreters.default()).path);
  }

  attachLauncher(secret: string, channel: LauncherChannel): boolean {
    return this.#launcher.attach(secret, channel);
  }

  async prepare(image: WorkerImage, report: (line: string) => void): Promise<void> {
    const interpreter = await this.#interpreters.find(image.pythonVersion);
    const source = await this.#layers.ensure(image.sourceLayer);
    const paths = [path.join(source, "src")];
    if (image.dependencyLayer !== null) {
      await this.#layers.ensure(image.dependencyLayer);
      paths.push(await this.#layers.packages(image.dependencyLayer));
    }
    if (image.baseDependencies.length > 0) {
      paths.push(await this.#baseLayers.ensure(image.baseDependencies, interpreter, report));
    }
    const handler = path.join(source, image.handler);
    await mkdir(this.#tempDir(image), { recursive: true, mode: 0o700 });
    this.#prepared.set(imageKey(image), { python: interpreter.path, handler, paths });
  }

  async start(spec: WorkerSpec): Promise<void> {
    const { image } = spec;
    const prepared = this.#prepared.get(imageKey(image));
    if (prepared === undefined) throw new Error(`image ${imageKey(image)} was not prepared`);
    const share = this.#options.ledger.book(spec);
    const tempDir = path.join(this.#tempDir(image), spec.workerId); // The worker makes it.
    const machine = machineOf(spec);
    const head: StartHead = {
      worker: spec.workerId,
      token: spec.token,
      zygote: `${image.endpointId}:${spec.revision}`,
      python: prepared.python,
      boot: image.bootType,
      handler: prepared.handler,
      paths: prepared.paths,
      endpoint: {
        id: image.endpointId,
        name: image.endpointName,
        environment: spec.environmentName,
        kind: spec.kind,
      },
      env: spec.gpuIds === "" ? spec.env : { ...spec.env, CUDA_VISIBLE_DEVICES: share.gpus.join(",") },
      concurrency: spec.maxConcurrency,
      socket: this.#options.socketPath,
      machine: machine.id,
      memoryBytes: machine.memoryGb * GB,
      vcpus: machine.vcpus,
      tempDir,
      reconnectMs: RECONNECT_MAX_MS,
      isolation: this.#options.isolation,
      hidden: this.#options.hidden,
      share,
    };
    this.#launcher.startWorker(head);
  }

  async stop(workerId: string, graceMs: number): Promise<void> {
    this.#launcher.stopWorker(workerId, graceMs);
  }

  async list(): Promise<string[]> {
    return [...this.#launcher.alive];
  }

  async capacity(): Promise<Capacity> {
    return this.#options.ledger.capacity;
  }

  onExit(listener: (exit: WorkerExit) => void): void {
    this.#onExit = listener;
  }

  async retire(endpointId: string, revision: string): Promise<void> {
    this.#launcher.retire(`${endpointId}:${revision}`);
  }

  async close({ stopAll }: { stopAll: boolean }): Promise<void> {
    if (stopAll) await this.#launcher.shutdown(0);
  }

  #exited(workerId: string, code: number | null, signal: string | null, reason?: string): void {
    this.#options.ledger.free(workerId);
    const words = signal !== null ? `killed by ${signal}` : `exited with code ${code}`;
    this.#onExit({ workerId, code, signal, reason: reason ?? words });
  }

  /** All temporary directories of the endpoint's workers. */
  #tempDir(image: WorkerImage): string {
    return path.join(this.#options.dataDir, "tmp", image.endpointId);
  }
}

function imageKey(image: WorkerImage): string {
  return `${image.endpointId}:${image.buildId}`;
}
