/**
 * Workers in the other container of this Pod, whose image is an endpoint's own. Both share a folder, read-only over there: the runtime, unpacked
 * layers and the sockets. The launcher over there dials in here; this container alone has the Pod's token and the agent's secret.
 *
 *   container begins ─▶ asks the boot socket for settings ─▶ its launcher dials in ─▶ workers come and go
 *        ▲                                                        └── gone: its workers are counted out
 *        └── begun anew by the kubelet ◀──────────────────────────────┘
 */
import { existsSync, readFileSync } from "node:fs";
import { cp, mkdir, rename, rm } from "node:fs/promises";
import path from "node:path";
import type { ArtifactStore } from "../../artifacts/artifact-store.ts";
import { hashSecret, newSecret } from "../../domain/api-key.ts";
import { ownImage, podProblems } from "../../domain/driver-offers.ts";
import { SvcError } from "../../domain/errors.ts";
import { LAUNCHER_RETURN_MS, LAUNCHER_SHUTDOWN_MAX_MS, RECONNECT_MAX_MS } from "../../domain/limits.ts";
import { imageKey, zygoteKey } from "../../domain/placement.ts";
import type { ExitedHead } from "../../domain/worker-protocol.ts";
import { writeFileAtomic } from "../../lib/write-file-atomic.ts";
import type { CapacityLedger } from "../capacity.ts";
import { refuseUnsuitable } from "../docker/image-check.ts";
import type { ImageFacts } from "../docker/image-facts.ts";
import { inContainer } from "../docker/worker-group.ts";
import { type LauncherChannel, LauncherLink } from "../launcher-link.ts";
import { LayerFolder } from "../layers.ts";
import { pullEnv } from "../pull-env.ts";
import { startHead, workerExit } from "../start-head.ts";
import type { Capacity, DriverHooks, LocalDriver, WorkerExit, WorkerImage, WorkerSpec } from "../worker-driver.ts";
import { BootSocket } from "./boot-socket.ts";

interface PodDriverOptions {
  /** Of this container alone. */
  readonly dataDir: string;
  /** Both containers have it at this path. */
  readonly folder: string;
  /** Where launchers dial; in that folder. */
  readonly socketPath: string;
  readonly pythonPath: string;
  /** `tls://host:port#fingerprint`, which workers dial. */
  readonly workersDial?: ((spec: WorkerSpec) => string) | undefined;
  /** A ticket with which their links may wait there. */
  readonly ahead?: (() => string | undefined) | undefined;
  readonly platformUrl: () => string;
  readonly isolation: "none" | "standard" | "strict";
  readonly artifacts: ArtifactStore;
  readonly ledger: CapacityLedger;
  readonly hooks: DriverHooks;
}

/** What is kept for an agent that is started again while the launcher runs on. */
interface Begun {
  readonly tokenHash: string;
  readonly facts: ImageFacts;
}

interface Prepared {
  readonly handler: string;
  readonly paths: readonly string[];
}

/** The runtime, whole or not at all: the other container begins with it, and goes on with it after another start of this one. */
async function bring(pythonPath: string, runtime: string): Promise<void> {
  if (existsSync(runtime)) return;
  const part = `${runtime}.part`;
  await rm(part, { recursive: true, force: true });
  await cp(pythonPath, part, { recursive: true, dereference: true });
  await rename(part, runtime);
}

/** In the folder that is shared. */
export const POD_SOCKETS = { launcher: "run/agent.sock", boot: "run/boot.sock" } as const;
const TEMP = "/tmp";

export class PodDriver implements LocalDriver {
  readonly #options: PodDriverOptions;
  readonly #layers: LayerFolder;
  readonly #link: LauncherLink;
  readonly #boot: BootSocket;
  readonly #prepared = new Map<string, Prepared>();
  #begun: Begun | undefined;
  #gone: NodeJS.Timeout | undefined;
  #onExit: (exit: WorkerExit) => void = () => {};

  constructor(options: PodDriverOptions) {
    this.#options = options;
    const { folder, artifacts, hooks, ledger } = options;
    this.#layers = new LayerFolder(path.join(folder, "layers"), artifacts);
    this.#link = new LauncherLink({
      survived: (worker, share) => ledger.restore(worker, share as Parameters<typeof ledger.restore>[1]),
      started: (head) => hooks.started(inContainer(head)),
      exited: (head) => this.#exited(head),
      bootFailed: hooks.bootFailed,
      log: hooks.log,
      available: hooks.available,
    });
    this.#boot = new BootSocket({
      image: "of this Pod",
      isWanted: () => !this.#link.isUp,
      begins: (facts) => this.#begins(facts),
      told: hooks.told,
    });
  }

  /** Resolves when the launcher is there: until then this Pod is of no use to the platform. */
  async open(): Promise<void> {
    const { folder, pythonPath } = this.#options;
    await this.#layers.open();
    await mkdir(path.join(folder, "run"), { recursive: true });
    this.#begun = this.#earlier();
    await this.#boot.listen(path.join(folder, POD_SOCKETS.boot));
    await bring(pythonPath, path.join(folder, "python"));
    await this.#link.connected();
  }

  cannotGive(wishes: Parameters<LocalDriver["cannotGive"]>[0]): readonly string[] {
    return podProblems(wishes);
  }

  /** Kubernetes mounts them; the platform made their folders. */
  async makeVolume(): Promise<void> {}

  async platformUrl(): Promise<string> {
    return this.#options.platformUrl();
  }

  get missingIsolation(): readonly string[] {
    return this.#options.isolation === "none" ? [] : this.#link.isolation.missing;
  }

  async attachLauncher(secret: string, channel: LauncherChannel): Promise<boolean> {
    if (!channel.isOpen || this.#begun === undefined || hashSecret(secret) !== this.#begun.tokenHash) return false;
    clearTimeout(this.#gone);
    this.#link.attach(channel, () => {
      // One that lives dials again at once.
      this.#gone = setTimeout(() => this.#ended(), LAUNCHER_RETURN_MS).unref();
    });
    return true;
  }

  async prepare(image: WorkerImage): Promise<void> {
    const [lack] = podProblems(image, image.pulls === "image");
    if (lack !== undefined) throw new SvcError("INVALID_SETTING", lack);
    refuseUnsuitable(this.#facts, image, ownImage(image) ?? image.imageName);
    const source = await this.#layers.ensure(image.sourceLayer);
    const paths = [path.join(source, "src")];
    if (image.dependencyLayer !== null) {
      await this.#layers.ensure(image.dependencyLayer);
      paths.push(await this.#layers.packages(image.dependencyLayer));
    }
    this.#prepared.set(imageKey(image), { handler: path.join(source, image.handler), paths });
  }

  async start(spec: WorkerSpec): Promise<void> {
    const prepared = this.#prepared.get(imageKey(spec.image));
    if (prepared === undefined) throw new Error(`image ${imageKey(spec.image)} was not prepared`);
    if (!this.#link.isReady)
      throw new SvcError("STARTS_PAUSED", "The container of the endpoint's image does not answer.");
    const { ledger, ahead, workersDial, socketPath, platformUrl, isolation } = this.#options;
    const { python, packagePaths, env } = this.#facts;
    await ledger.withShare(spec, (share) => {
      const gpu = ledger.hasGpu(share);
      const own = spec.image.pulls === undefined ? spec.env : pullEnv(spec, { platformUrl: platformUrl(), gpu });
      const head = startHead(spec, share, {
        python,
        handler: prepared.handler,
        paths: [...prepared.paths, ...packagePaths],
        env: { ...env, ...own, ...ledger.gpuEnv(spec, share) },
        ahead: ahead?.(),
        socket: workersDial?.(spec) ?? socketPath,
        platformUrl: platformUrl(),
        gpu,
        tempDir: `${TEMP}/${spec.workerId}`,
        isolation,
        hidden: [],
        writable: ["/"],
      });
      this.#link.startWorker(head);
    });
  }

  async stop(workerId: string, graceMs: number): Promise<void> {
    this.#link.stopWorker(workerId, graceMs);
  }

  async list(): Promise<string[] | undefined> {
    return this.#link.isKnown ? [...this.#link.alive] : undefined;
  }

  vouched(): Promise<readonly string[]> {
    return this.#link.vouched();
  }

  async capacity(): Promise<Capacity> {
    return this.#options.ledger.capacity;
  }

  onExit(listener: (exit: WorkerExit) => void): void {
    this.#onExit = listener;
  }

  async retire(endpointId: string, revision: string): Promise<void> {
    this.#link.retire(zygoteKey(endpointId, revision));
  }

  async removeUnused(keep: readonly WorkerImage[], before: number): Promise<void> {
    await this.#layers.removeUnused(keep, before);
  }

  async close({ stopAll }: { stopAll: boolean }): Promise<void> {
    clearTimeout(this.#gone);
    this.#boot.close();
    if (!stopAll) return;
    const late = new Promise<void>((resolve) => setTimeout(resolve, LAUNCHER_SHUTDOWN_MAX_MS).unref());
    await Promise.race([this.#link.shutdown(0), late]);
  }

  get #facts(): ImageFacts {
    if (this.#begun === undefined)
      throw new SvcError("STARTS_PAUSED", "The container of the endpoint's image has not begun.");
    return this.#begun.facts;
  }

  /** A launcher begins: the one before it, if any, ended with its container. */
  async #begins(facts: ImageFacts): Promise<object> {
    clearTimeout(this.#gone);
    if (this.#begun !== undefined) this.#ended();
    const { secret, hash } = newSecret("worker");
    this.#begun = { tokenHash: hash, facts };
    await writeFileAtomic(this.#begunFile, JSON.stringify(this.#begun), 0o600);
    const { socketPath } = this.#options;
    return { socket: socketPath, token: secret, id: "launcher", reconnectMs: RECONNECT_MAX_MS, leavesWithAgent: true };
  }

  #ended(): void {
    this.#link.expectAnother("its container ended");
  }

  #exited(head: ExitedHead): void {
    this.#options.ledger.free(head.worker);
    this.#onExit(workerExit(head));
  }

  #earlier(): Begun | undefined {
    try {
      return JSON.parse(readFileSync(this.#begunFile, "utf8")) as Begun;
    } catch {
      return undefined;
    }
  }

  get #begunFile(): string {
    return path.join(this.#options.dataDir, "launcher.json");
  }
}
