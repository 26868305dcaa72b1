/** Workers in containers of this machine's engine: one container for each endpoint's revision, its launcher inside. */

import { chown } from "node:fs/promises";
import path from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { ArtifactStore } from "../artifacts/artifact-store.ts";
import type { Share } from "../domain/capacity.ts";
import { SvcError } from "../domain/errors.ts";
import { CONTAINERS_SETTLE_MAX_MS } from "../domain/limits.ts";
import { zygoteKey } from "../domain/placement.ts";
import type { RegistryLogin } from "../domain/registry.ts";
import { cacheEnv, type Volume } from "../domain/volume.ts";
import type { ExitedHead, StartHead } from "../domain/worker-protocol.ts";
import type { NetworkFolder } from "../lib/network-folder.ts";
import type { Own } from "../lib/own.ts";
import type { CapacityLedger } from "./capacity.ts";
import { removeContainer } from "./docker/container-life.ts";
import { type ConnectedEngine, connectEngine, requireRuntime } from "./docker/engine.ts";
import { proxiesOf, removeBuilt } from "./docker/image-build.ts";
import { builtNames, type ImageNames, type PreparedImage, prepareImage, presentImage } from "./docker/image-check.ts";
import { ImageShelf } from "./docker/image-facts.ts";
import { LABEL } from "./docker/labels.ts";
import { mountsOf } from "./docker/mounts.ts";
import { type ContainerNetwork, ensureNetwork, removeNetwork } from "./docker/network.ts";
import { platformContainers, platformIdOf, removePlatformContainers } from "./docker/platform-containers.ts";
import { extraHosts, PullContainers } from "./docker/pull-containers.ts";
import { containerUser } from "./docker/user.ts";
import { INSIDE, type WorkerShare } from "./docker/worker-container.ts";
import { inContainer, WorkerGroup } from "./docker/worker-group.ts";
import type { LauncherChannel } from "./launcher-link.ts";
import { LayerFolder } from "./layers.ts";
import { pullEnv } from "./pull-env.ts";
import { limitsOf, startHead, workerExit } from "./start-head.ts";
import { VolumeFolders } from "./volume-folders.ts";
import type {
  Capacity,
  DriverHooks,
  PreparedFiles,
  WorkerDriver,
  WorkerExit,
  WorkerImage,
  WorkerSpec,
} from "./worker-driver.ts";

export interface DockerDriverOptions {
  readonly dataDir: string;
  readonly socketPath: string;
  /** Where workers dial, when that is elsewhere than the launcher: `tls://host:port#fingerprint`. */
  readonly workersDial?: ((spec: WorkerSpec) => string) | undefined;
  /** A ticket with which their links may wait there. */
  readonly ahead?: (() => string | undefined) | undefined;
  /** Where volumes are kept. */
  readonly volumesDisk: NetworkFolder;
  /** Makes the platform's HTTP side reachable on this address of this machine; resolves its base URL for containers. */
  readonly serveCalls: (hostAddress: string | undefined) => Promise<string>;
  readonly pythonPath: string;
  /** PATH and DOCKER_HOST. */
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly images: ImageNames;
  /** A network that is there already; "" makes one. */
  readonly network: string;
  /** Address by name, for containers to look up. */
  readonly hosts: Readonly<Record<string, string>>;
  readonly labels: Readonly<Record<string, string>>;
  /** Runtime of the engine; "" and none: its own. */
  readonly runtime?: string;
  readonly isolation: "none" | "standard" | "strict";
  /** Who pulls the images of an endpoint; undefined: anybody. */
  readonly loginOf?: (endpointId: string) => Promise<RegistryLogin | undefined>;
  readonly artifacts: ArtifactStore;
  readonly ledger: CapacityLedger;
  readonly hooks: DriverHooks;
}

interface Opened extends ConnectedEngine {
  readonly network: ContainerNetwork;
  readonly shelf: ImageShelf;
  readonly user: string;
  /** Whose must be what workers write; undefined: it is right as it is. */
  readonly owner: number | undefined;
  readonly platformUrl: string;
}

export class DockerDriver implements WorkerDriver, PreparedFiles {
  readonly #options: DockerDriverOptions;
  readonly #layers: LayerFolder;
  /** Tells the containers of several platforms on one engine apart. */
  readonly #platformId: string;
  readonly #volumes: VolumeFolders;
  readonly #groups = new Map<string, WorkerGroup>();
  readonly #programs: PullContainers;
  readonly #prepared = new Map<string, PreparedImage>();
  /** Resolves when the containers of an earlier platform are known: their launchers may dial in before. */
  readonly #known = Promise.withResolvers<void>();
  #opened: Opened | undefined;
  #closing = false;
  /** Work that may be making a container at this moment. */
  readonly #making = new Set<Promise<void>>();
  #onExit: (exit: WorkerExit) => void = () => {};

  constructor(options: DockerDriverOptions) {
    this.#options = options;
    this.#layers = new LayerFolder(path.join(options.dataDir, "layers"), options.artifacts);
    this.#volumes = new VolumeFolders(options.volumesDisk, (folder) => this.#giveToWorkers(folder));
    this.#platformId = platformIdOf(options.dataDir);
    const exited = (head: ExitedHead) => this.#exited(head);
    this.#programs = new PullContainers({ ...options, prefix: `svc-${this.#platformId}`, exited, own: this.#own });
  }

  readonly #own: Own = (what, work) => {
    work.catch((error: unknown) => this.#options.hooks.told(`${what} failed`, { error }));
  };

  /** Call after the socket and the HTTP side listen. Throws ENGINE_UNREACHABLE. */
  async open(): Promise<void> {
    const { env, socketPath, serveCalls } = this.#options;
    await this.#layers.open();
    const connected = await connectEngine(env);
    const { engine, facts } = connected;
    requireRuntime(facts, this.#options.runtime ?? "");
    const { user, owner } = containerUser(facts);
    if (owner !== undefined) {
      for (const file of [path.dirname(socketPath), socketPath]) await chown(file, owner, owner);
    }
    const network = await ensureNetwork(engine, this.#networkName, this.#labels());
    const platformUrl = await serveCalls(network.hostAddress);
    const shelf = new ImageShelf(engine, facts.architecture, this.#labels(), this.#options.runtime);
    this.#opened = { ...connected, network, shelf, user, owner, platformUrl };
    await this.#adoptContainers();
  }

  /** Containers have it all. */
  cannotGive(): readonly string[] {
    return [];
  }

  async makeVolume(volume: Volume): Promise<void> {
    await this.#volumes.ensure(volume);
  }

  async attachLauncher(secret: string, channel: LauncherChannel): Promise<boolean> {
    await this.#known.promise;
    if (!channel.isOpen) return false;
    for (const group of this.#groups.values()) if (group.attach(secret, channel)) return true;
    return false;
  }

  async platformUrl(): Promise<string> {
    await this.#known.promise;
    return this.#engine.platformUrl;
  }

  prepare(image: WorkerImage, report: (line: string) => void): Promise<void> {
    return this.#make(() => this.#prepare(image, report));
  }

  async #prepare(image: WorkerImage, report: (line: string) => void): Promise<void> {
    const { engine, shelf } = this.#engine;
    const { images: names, env } = this.#options;
    const labels = this.#labels();
    const login = async () => this.#options.loginOf?.(image.endpointId);
    const wanted = { engine, shelf, names, image, labels, proxies: proxiesOf(env), report, login };
    if (image.pulls === "image") {
      const imageId = await shelf.idOf(await presentImage(wanted));
      return this.#programs.prepared(image, imageId, await this.#volumes.mounts(image.volumes));
    }
    const facts = await prepareImage(wanted);
    const { pythonPath, socketPath } = this.#options;
    const inside = await mountsOf(image, { layers: this.#layers, volumes: this.#volumes, pythonPath, socketPath });
    const paths = [...inside.paths, ...facts.packagePaths];
    this.#prepared.set(imageKey(image), { facts, ...inside, paths });
  }

  start(spec: WorkerSpec): Promise<void> {
    return this.#make(() => this.#start(spec));
  }

  async #start(spec: WorkerSpec): Promise<void> {
    const folders = () => this.#volumes.ensureAll(spec.image);
    if (spec.image.pulls === "image") return this.#programs.start(spec, { ...this.#engine, folders }, this.#labels());
    const prepared = this.#prepared.get(imageKey(spec.image));
    if (prepared === undefined) throw new Error(`image ${imageKey(spec.image)} was not prepared`);
    await this.#options.ledger.withShare(spec, async (share) => {
      await this.#groupOf(spec, prepared, limitsOf(share)).start(this.#startHead(spec, prepared, share));
    });
  }

  async stop(workerId: string, graceMs: number): Promise<void> {
    if (this.#programs.stop(workerId, graceMs)) return;
    for (const group of this.#groups.values()) if (group.workers.has(workerId)) group.stop(workerId, graceMs);
  }

  async list(): Promise<string[]> {
    return [...[...this.#groups.values()].flatMap((group) => [...group.workers]), ...this.#programs.workers];
  }

  async vouched(): Promise<readonly string[]> {
    return (await Promise.all([...this.#groups.values()].map((group) => group.vouched()))).flat();
  }

  async capacity(): Promise<Capacity> {
    return this.#options.ledger.capacity;
  }

  onExit(listener: (exit: WorkerExit) => void): void {
    this.#onExit = listener;
  }

  async retire(endpointId: string, revision: string): Promise<void> {
    this.#groups.get(zygoteKey(endpointId, revision))?.retire();
  }

  async removeUnused(keep: readonly WorkerImage[], before: number): Promise<void> {
    await this.#layers.removeUnused(keep, before);
    const { engine, shelf } = this.#engine;
    const needed = await builtNames(keep, shelf, this.#options.images);
    await removeBuilt(engine, `${LABEL.platform}=${this.#platformId}`, needed, before);
  }

  async close({ stopAll }: { stopAll: boolean }): Promise<void> {
    this.#closing = true;
    const groups = [...this.#groups.values()];
    if (!stopAll) {
      for (const group of groups) group.letGo();
      this.#programs.letGo();
      return;
    }
    await Promise.all([...groups.map((group) => group.remove()), this.#programs.removeAll()]);
    const late = delay(CONTAINERS_SETTLE_MAX_MS, undefined, { ref: false });
    await Promise.race([Promise.allSettled(this.#making), late]);
    if (this.#opened !== undefined) await removePlatformContainers(this.#opened.engine, this.#platformId);
    if (this.#opened !== undefined && this.#options.network === "") {
      await removeNetwork(this.#opened.engine, this.#networkName);
    }
  }

  async #giveToWorkers(folder: string): Promise<void> {
    const { owner } = this.#engine;
    if (owner !== undefined) await this.#options.volumesDisk.run(() => chown(folder, owner, owner));
  }

  /** Nothing new begins once the driver closes, and what is under way is known then. */
  async #make(work: () => Promise<void>): Promise<void> {
    if (this.#closing) throw new SvcError("SHUTTING_DOWN", "The platform is shutting down.");
    const making = work();
    this.#making.add(making);
    await making.finally(() => this.#making.delete(making));
  }

  get #engine(): Opened {
    if (this.#opened === undefined) throw new Error("the driver is not open");
    return this.#opened;
  }

  get #networkName(): string {
    return this.#options.network || `svc-${this.#platformId}`;
  }

  #labels(): Record<string, string> {
    const { labels, dataDir } = this.#options;
    return { ...labels, [LABEL.platform]: this.#platformId, [LABEL.dataDir]: dataDir };
  }

  /** Those of an earlier platform on this data directory: what runs is taken over, the rest is removed. */
  async #adoptContainers(): Promise<void> {
    const { engine } = this.#engine;
    const found = await platformContainers(engine, this.#platformId);
    const adopted = found.map(({ Id, State, Labels }) => {
      const container = engine.getContainer(Id);
      if (State === "running" && this.#programs.adopt(container, Labels)) return undefined;
      const zygote = zygoteKey(Labels[LABEL.endpointId] ?? "", Labels[LABEL.revision] ?? "");
      const hash = Labels[LABEL.launcher] ?? "";
      if (State !== "running" || hash === "" || this.#groups.has(zygote)) {
        return removeContainer(container);
      }
      const share = { memoryBytes: Number(Labels[LABEL.memoryBytes]), vcpus: Number(Labels[LABEL.vcpus]) };
      return this.#newGroup(zygote, share).adopt(container, hash);
    });
    this.#known.resolve();
    await Promise.all(adopted);
  }

  #groupOf(spec: WorkerSpec, prepared: PreparedImage, share: WorkerShare): WorkerGroup {
    const { image, revision } = spec;
    const zygote = zygoteKey(image.endpointId, revision);
    const there = this.#groups.get(zygote);
    if (there !== undefined) return there;
    const { user, facts, network } = this.#engine;
    const group = this.#newGroup(zygote, share);
    const folders = this.#volumes.ensureAll(image);
    group.launch(folders, {
      name: `svc-${this.#platformId}-${image.endpointName.replace(/[^\w.-]/g, "-")}`,
      imageId: prepared.facts.id,
      python: prepared.facts.python,
      user,
      hostUsers: facts.shiftedUsers,
      mounts: prepared.mounts,
      network: network.name,
      runtime: this.#options.runtime ?? "",
      extraHosts: extraHosts(this.#options.hosts),
      share,
      gpus: spec.gpuIds !== "" && this.#options.ledger.capacity.gpus.some(({ emulated }) => !emulated),
      labels: {
        ...this.#labels(),
        [LABEL.endpointId]: image.endpointId,
        [LABEL.endpointName]: image.endpointName,
        [LABEL.revision]: revision,
        [LABEL.memoryBytes]: String(share.memoryBytes),
        [LABEL.vcpus]: String(share.vcpus),
      },
    });
    return group;
  }

  #newGroup(zygote: string, share: WorkerShare): WorkerGroup {
    const { ledger, hooks, socketPath } = this.#options;
    const group = new WorkerGroup({
      engine: this.#engine.engine,
      zygote,
      share,
      socket: path.posix.join(INSIDE.socketDir, path.basename(socketPath)),
      own: this.#own,
      events: {
        survived: (worker, booked) => ledger.restore(worker, booked as Share),
        started: (head) => hooks.started(inContainer(head)),
        exited: (head) => this.#exited(head),
        bootFailed: hooks.bootFailed,
        log: hooks.log,
        over: (ended) => {
          if (this.#groups.get(zygote) === ended) this.#groups.delete(zygote);
        },
      },
    });
    this.#groups.set(zygote, group);
    return group;
  }

  #startHead(spec: WorkerSpec, prepared: PreparedImage, share: Share): StartHead {
    const { socketPath, workersDial, ahead, isolation, ledger } = this.#options;
    return startHead(spec, share, {
      python: prepared.facts.python,
      handler: prepared.handler,
      paths: prepared.paths,
      // An image may hold weights in a cache of its own.
      env: {
        ...(spec.image.cache && cacheEnv(INSIDE.cache)),
        ...prepared.facts.env,
        ...(spec.image.pulls === undefined
          ? spec.env
          : pullEnv(spec, { platformUrl: this.#engine.platformUrl, gpu: ledger.hasGpu(share) })),
        ...ledger.gpuEnv(spec, share),
      },
      ahead: ahead?.(),
      socket: workersDial?.(spec) ?? path.posix.join(INSIDE.socketDir, path.basename(socketPath)),
      platformUrl: this.#engine.platformUrl,
      gpu: ledger.hasGpu(share),
      tempDir: `${INSIDE.temp}/${spec.workerId}`,
      isolation,
      hidden: [],
      writable: ["/"],
    });
  }

  #exited(head: ExitedHead): void {
    this.#options.ledger.free(head.worker);
    this.#onExit(workerExit(head));
  }
}

function imageKey(image: WorkerImage): string {
  return JSON.stringify([image.endpointId, image.buildId, image.imageName, image.volumes]);
}
