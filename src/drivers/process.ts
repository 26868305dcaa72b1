/** Workers as processes of this machine, forked by the launcher. */
import { chmod, mkdir } from "node:fs/promises";
import { totalmem } from "node:os";
import path from "node:path";
import type { ArtifactStore } from "../artifacts/artifact-store.ts";
import type { Share } from "../domain/capacity.ts";
import { type DriverWishes, needsContainers, processProblems } from "../domain/driver-offers.ts";
import { SvcError } from "../domain/errors.ts";
import { imageKey, zygoteKey } from "../domain/placement.ts";
import { cacheEnv, type Volume } from "../domain/volume.ts";
import type { ExitedHead, HeldAddress, StartHead } from "../domain/worker-protocol.ts";
import type { NetworkFolder } from "../lib/network-folder.ts";
import { BaseLayers } from "./base-layers.ts";
import type { CapacityLedger } from "./capacity.ts";
import { ConfinedInstaller } from "./confined-installer.ts";
import { Interpreters } from "./interpreter.ts";
import { Launcher } from "./launcher.ts";
import type { LauncherChannel } from "./launcher-link.ts";
import { LayerFolder } from "./layers.ts";
import { pullEnv } from "./pull-env.ts";
import { startHead, workerExit } from "./start-head.ts";
import { cannotBeChecked, missingPackages } from "./system-packages.ts";
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
import { type WorkerUser, WorkerUsers } from "./worker-users.ts";

interface ProcessDriverOptions {
  readonly dataDir: string;
  readonly socketPath: string;
  /** Where workers dial, when that is elsewhere than the launcher: `tls://host:port#fingerprint`. */
  readonly workersDial?: ((spec: WorkerSpec) => string) | undefined;
  /** A ticket with which their links may wait there. */
  readonly ahead?: (() => string | undefined) | undefined;
  /** Base URL under which processes of this machine reach the platform; known once it listens. */
  readonly platformUrl: () => string;
  /** For the launcher to hold; default: none. */
  readonly heldAddresses?: () => readonly HeldAddress[];
  readonly pythonPath: string;
  readonly python: string | undefined;
  /** Environment of pip and uv; the launcher inherits a few of its variables. */
  readonly installerEnv: Readonly<Record<string, string | undefined>>;
  /** Where base packages have builds for the CPU alone, which is all that this machine needs. */
  readonly cpuWheels?: string | undefined;
  readonly isolation: "none" | "standard" | "strict";
  /** Folders of the platform and its users that workers must not see. */
  readonly hidden: readonly string[];
  /** Folders of the machine that every worker may use. */
  readonly writable: readonly string[];
  /** Where volumes are kept. */
  readonly volumesDisk: NetworkFolder;
  /** They are at the paths of endpoints already, for every worker here. */
  readonly volumesMounted?: boolean;
  /** The machine is a Pod, whose packages are those of its image. */
  readonly inPod?: boolean;
  /** First and last number of the users that workers run as when the platform is root. */
  readonly workerUids: readonly [number, number];
  readonly logFd: number;
  /** What zygotes without workers may hold together; default: a quarter of the machine's memory. */
  readonly zygoteMemoryMb: number | undefined;
  readonly artifacts: ArtifactStore;
  readonly ledger: CapacityLedger;
  readonly hooks: DriverHooks;
}

/** The files of a prepared image. */
interface Prepared {
  readonly python: string;
  readonly handler: string;
  readonly paths: readonly string[];
  readonly user: WorkerUser | undefined;
  /** Undefined: it has none, or it could not be had yet. */
  cache: Cache | undefined;
}

interface Cache {
  readonly folder: string;
  readonly groups: readonly number[];
}

/** A worker that starts has the processors for itself until then. */
const CACHE_LOOK_MS = 500;

/** Workers see what their zygote sees, and have what it has in its environment: who has no cache is not a fork of one that has. */
function withoutCache(zygote: string): string {
  return `${zygote}:without-cache`;
}

export class ProcessDriver implements WorkerDriver, PreparedFiles {
  readonly #options: ProcessDriverOptions;
  readonly #layers: LayerFolder;
  readonly #baseLayers: BaseLayers;
  readonly #interpreters: Interpreters;
  readonly #launcher: Launcher;
  /** Undefined where workers run as the platform does. */
  readonly #users: WorkerUsers | undefined;
  readonly #volumes: VolumeFolders;
  readonly #prepared = new Map<string, Prepared>();
  /** Workers whose START waits for the disk of their volumes, and whether they were stopped meanwhile. */
  readonly #pending = new Map<string, boolean>();
  #onExit: (exit: WorkerExit) => void = () => {};

  constructor(options: ProcessDriverOptions) {
    this.#options = options;
    const { dataDir, artifacts, hooks, isolation, workerUids } = options;
    if (process.getuid?.() === 0 && isolation !== "none") {
      this.#users = new WorkerUsers(this.#tempRoot, options.volumesDisk, workerUids);
    }
    this.#volumes = new VolumeFolders(
      options.volumesDisk,
      async (folder) => void (await this.#users?.shareVolume(folder)),
    );
    this.#layers = new LayerFolder(path.join(dataDir, "layers"), artifacts);
    this.#interpreters = new Interpreters(options.python);
    const { pythonPath, hidden, socketPath, logFd, zygoteMemoryMb, installerEnv: env } = options;
    const room = new ConfinedInstaller({ pythonPath, hidden, uid: this.#users?.installer });
    const confined = isolation === "none" ? undefined : room;
    this.#baseLayers = new BaseLayers(path.join(dataDir, "base"), env, confined, options.cpuWheels);
    const zygoteMemoryBytes = zygoteMemoryMb === undefined ? totalmem() / 4 : zygoteMemoryMb * 1024 ** 2;
    this.#launcher = new Launcher(
      { env, stateDir: dataDir, pythonPath, socketPath, logFd, zygoteMemoryBytes, tempRoot: this.#tempRoot },
      {
        survived: (worker, share) => options.ledger.restore(worker, share as Share),
        started: hooks.started,
        exited: (head) => this.#exited(head),
        bootFailed: hooks.bootFailed,
        log: hooks.log,
        available: () => {
          this.#launcher.link.hold(options.heldAddresses?.() ?? []);
          hooks.available?.();
        },
        told: hooks.told,
      },
    );
  }

  /** Call before anything large is loaded, and after the socket listens. */
  async open(): Promise<void> {
    await this.#layers.open();
    if (this.#options.workersDial === undefined) this.#users?.lendSocket(this.#options.socketPath);
    await this.#launcher.start(async () => (await this.#interpreters.default()).base);
    const { isUp, isolation } = this.#launcher.link;
    if (this.#options.isolation === "strict" && isUp && !isolation.strict) {
      await this.#launcher.shutdown();
      throw new SvcError(
        "ISOLATION_MISSING",
        `This machine lacks ${isolation.missing.join(", ")}: strict cannot be kept.`,
        {
          help: "Mend that (docs/reference/isolation.md), or set SVC_ISOLATION=standard and accept less.",
        },
      );
    }
  }

  /** What this machine lacks of what the tier promises, in words. */
  get missingIsolation(): readonly string[] {
    return this.#options.isolation === "none" ? [] : this.#launcher.link.isolation.missing;
  }

  async makeVolume(volume: Volume): Promise<void> {
    await this.#volumes.ensure(volume);
  }

  /** What workers here cannot have, each a sentence with what to do. */
  cannotGive(wishes: DriverWishes): readonly string[] {
    const lack = this.#launcher.link.isolation.missing.find((one) => one.startsWith("namespaces"));
    const { isolation, dataDir, pythonPath, socketPath } = this.#options;
    const off = isolation === "none";
    const problems = processProblems(
      wishes,
      off ? "SVC_ISOLATION=none gives workers no paths of their own" : lack ? `this machine lacks ${lack}` : "",
      [dataDir, pythonPath, path.dirname(socketPath)],
    );
    const missing = missingPackages(wishes.systemDependencies ?? [], this.#options.inPod);
    return missing === undefined ? problems : [...problems, missing];
  }

  attachLauncher(secret: string, channel: LauncherChannel): Promise<boolean> {
    return this.#launcher.attach(secret, channel);
  }

  async platformUrl(): Promise<string> {
    return this.#options.platformUrl();
  }

  async prepare(image: WorkerImage, report: (line: string) => void): Promise<void> {
    const [lack] = needsContainers(image);
    if (lack !== undefined) throw new SvcError("INVALID_SETTING", lack);
    if (image.volumes.length > 0) await this.#mountsOf(image);
    // Its machine may have lost what it had when the endpoint was deployed.
    const missing = missingPackages(image.systemDependencies, this.#options.inPod);
    if (missing !== undefined) throw new SvcError("INVALID_SETTING", missing);
    const unknown = cannotBeChecked(image.systemDependencies);
    if (unknown !== undefined) report(unknown);
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
    const cache = await this.#cacheOf(image).catch((error) => this.#goesWithout(image, error));
    await mkdir(this.#tempDir(image), { recursive: true, mode: 0o700 });
    const user = await this.#users?.userOf(image.endpointId);
    // The folder above lets no other user of this machine in.
    if (user !== undefined) for (const folder of [source, ...paths]) await chmod(folder, 0o755);
    this.#prepared.set(imageKey(image), {
      python: interpreter.base,
      handler,
      paths,
      user,
      cache,
    });
  }

  async start(spec: WorkerSpec): Promise<void> {
    const { image } = spec;
    const prepared = this.#prepared.get(imageKey(image));
    if (prepared === undefined) throw new Error(`image ${imageKey(image)} was not prepared`);
    const { problem, link } = this.#launcher;
    if (problem !== undefined) throw new SvcError("STARTS_PAUSED", problem);
    const tempDir = path.join(this.#tempDir(image), spec.workerId); // The worker makes it.
    // Without one, START leaves in this turn.
    const volumes = image.volumes.length > 0 ? await this.#volumesOf(spec) : undefined;
    const cache = this.#cacheNow(image, prepared);
    const { ledger, socketPath, workersDial, ahead, platformUrl, isolation, hidden, writable } = this.#options;
    await ledger.withShare(spec, (share) => {
      const head = startHead(spec, share, {
        python: prepared.python,
        handler: prepared.handler,
        paths: prepared.paths,
        env: { ...(cache && cacheEnv(cache.folder)), ...this.#ownEnv(spec, share), ...ledger.gpuEnv(spec, share) },
        socket: workersDial?.(spec) ?? socketPath,
        ahead: ahead?.(),
        platformUrl: platformUrl(),
        gpu: ledger.hasGpu(share),
        tempDir,
        isolation,
        hidden,
        writable: [...writable, ...(volumes?.writable ?? []), ...(cache ? [cache.folder] : [])],
        ...prepared.user,
        volumes: volumes?.mounts,
        groups: [...(volumes?.groups ?? []), ...(cache?.groups ?? [])],
      });
      link.startWorker(image.cache !== undefined && !cache ? { ...head, zygote: withoutCache(head.zygote) } : head);
    });
  }

  #ownEnv(spec: WorkerSpec, share: Share): WorkerSpec["env"] {
    const { platformUrl, ledger } = this.#options;
    if (spec.image.pulls === undefined) return spec.env;
    return pullEnv(spec, { platformUrl: platformUrl(), gpu: ledger.hasGpu(share) });
  }

  async stop(workerId: string, graceMs: number): Promise<void> {
    if (this.#pending.has(workerId)) this.#pending.set(workerId, true);
    else this.#launcher.link.stopWorker(workerId, graceMs);
  }

  async list(): Promise<string[] | undefined> {
    const { isKnown, alive } = this.#launcher.link;
    return isKnown ? [...alive, ...this.#pending.keys()] : undefined;
  }

  vouched(): Promise<readonly string[]> {
    return this.#launcher.link.vouched();
  }

  async capacity(): Promise<Capacity> {
    return this.#options.ledger.capacity;
  }

  onExit(listener: (exit: WorkerExit) => void): void {
    this.#onExit = listener;
  }

  async retire(endpointId: string, revision: string): Promise<void> {
    const zygote = zygoteKey(endpointId, revision);
    for (const one of [zygote, withoutCache(zygote)]) this.#launcher.link.retire(one);
  }

  async removeUnused(keep: readonly WorkerImage[], before: number): Promise<void> {
    const baseLayers: string[] = [];
    for (const { baseDependencies, pythonVersion } of keep) {
      if (baseDependencies.length === 0) continue;
      const interpreter = await this.#interpreters.find(pythonVersion).catch(() => undefined);
      if (interpreter === undefined) return; // Nobody can say which are its own.
      baseLayers.push(this.#baseLayers.path(baseDependencies, interpreter));
    }
    await this.#layers.removeUnused(keep, before);
    await this.#baseLayers.removeUnused(baseLayers, before);
  }

  async close({ stopAll }: { stopAll: boolean }): Promise<void> {
    if (stopAll) await this.#launcher.shutdown();
    else this.#launcher.letGo();
  }

  /** Throws CONFLICT when the worker is stopped meanwhile. */
  async #volumesOf({ workerId, image }: WorkerSpec) {
    this.#pending.set(workerId, false);
    try {
      const volumes = await this.#mountsOf(image);
      if (this.#pending.get(workerId) === true)
        throw new SvcError("CONFLICT", "The worker was stopped before it began.");
      return volumes;
    } finally {
      this.#pending.delete(workerId);
    }
  }

  async #mountsOf({ imageName, volumes: wanted }: WorkerImage) {
    if (this.#options.volumesMounted) return this.#mountedAlready(wanted);
    // Its platform may have lost what it had when the endpoint was deployed.
    const names = wanted.map(({ name }) => name).join(",");
    const problem = this.cannotGive({ imageName, networkVolumeId: names })[0];
    if (problem !== undefined) throw new SvcError("INVALID_SETTING", problem);
    const mounts: NonNullable<StartHead["volumes"]>[number][] = [];
    const groups: number[] = [];
    for (const volume of wanted) {
      const from = await this.#volumes.ensure(volume);
      mounts.push(...volume.paths.map((to) => ({ from, to, readOnly: volume.readOnly })));
      if (this.#users !== undefined) groups.push(await this.#users.shareVolume(from));
    }
    return { mounts, groups, writable: [] };
  }

  /** Whoever made the place of these workers has put them there. Throws INVALID_SETTING. */
  async #mountedAlready(volumes: WorkerImage["volumes"]) {
    for (const { name, paths } of volumes) {
      const isThere = await Promise.all(paths.map((one) => this.#volumes.isThere(one)));
      if (isThere.includes(false))
        throw new SvcError("INVALID_SETTING", `The volume "${name}" is not mounted where its workers run.`);
    }
    const writable = volumes.filter(({ readOnly }) => !readOnly).flatMap(({ paths }) => paths);
    return { mounts: undefined, groups: [], writable };
  }

  /** A worker can do without while the disk is away. Whether it is still there, or again, is looked up for the next one. */
  #cacheNow(image: WorkerImage, prepared: Prepared): Cache | undefined {
    if (image.cache === undefined || this.#options.volumesDisk.problem) return undefined;
    const { cache } = prepared;
    const look = async () => {
      if (cache === undefined || !(await this.#volumes.isThere(cache.folder)))
        prepared.cache = await this.#cacheOf(image);
    };
    // What fails was told when that was prepared, or the disk is away.
    setTimeout(() => look().catch(() => {}), CACHE_LOOK_MS).unref();
    return cache;
  }

  async #cacheOf({ cache }: WorkerImage): Promise<Cache | undefined> {
    if (cache === undefined) return undefined;
    const folder = await this.#volumes.ensure(cache);
    return { folder, groups: this.#users === undefined ? [] : [await this.#users.shareVolume(folder)] };
  }

  #goesWithout({ cache }: WorkerImage, error: unknown): undefined {
    const isSaid = error instanceof SvcError && error.code === "VOLUMES_AWAY";
    const { app, environment } = cache ?? {};
    if (!isSaid) this.#options.hooks.told("Workers have no cache that stays.", { app, environment, error });
  }

  #exited(head: ExitedHead): void {
    this.#options.ledger.free(head.worker);
    this.#onExit(workerExit(head));
  }

  /** All temporary directories of the endpoint's workers. */
  #tempDir(image: WorkerImage): string {
    return path.join(this.#tempRoot, image.endpointId);
  }

  get #tempRoot(): string {
    return path.join(this.#options.dataDir, "tmp");
  }
}
