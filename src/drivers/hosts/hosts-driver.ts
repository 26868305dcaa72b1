/**
 * A driver over several machines: the platform's own, through its driver, and the hosts that joined, through their agents.
 *
 *   prepare: on all of them, done with the first       start: placeAmong chooses among those that are prepared       stop: where it runs
 *
 * The platform alone decides who gets what of which machine: a host is told the share of each worker.
 */
import { type Lack, type Need, needOf, type Share, usedBy } from "../../domain/capacity.ts";
import { type DriverWishes, needsContainers, podProblems } from "../../domain/driver-offers.ts";
import { SvcError } from "../../domain/errors.ts";
import { gpuProblems } from "../../domain/gpu-offers.ts";
import { HOST_LOOK_MS, HOST_SILENCE_MAX_MS, STANDSTILL_MS } from "../../domain/limits.ts";
import {
  type Fleet,
  type HostMachine,
  imageKey,
  PLATFORM_LABEL,
  placeAmong,
  type UsedOf,
  zygoteKey,
} from "../../domain/placement.ts";
import type { Volume } from "../../domain/volume.ts";
import { Standstill } from "../../lib/standstill.ts";
import type { LauncherChannel } from "../launcher-link.ts";
import type { Capacity, DriverHooks, LocalDriver, WorkerExit, WorkerImage, WorkerSpec } from "../worker-driver.ts";
import { HomelessImages, isMendable } from "./homeless-images.ts";
import { ImagesByHolder } from "./images-by-holder.ts";
import { type HostChannel, type KnownHost, mayRun, type PrepareBody, wishesOfWorker } from "./known-host.ts";
import { PlacedWorkers } from "./placed-workers.ts";
import { type HostEvents, RemoteHost } from "./remote-host.ts";

interface HostsDriverOptions {
  /** Of the platform's own machine. */
  readonly local: LocalDriver;
  /** What that machine has. */
  readonly capacity: Capacity;
  /** Its labels, beside PLATFORM_LABEL. */
  readonly labels: readonly string[];
  /** It runs workers too. */
  readonly runsHere: boolean;
  readonly hooks: DriverHooks;
  /** What this host needs to prepare an image. */
  readonly needed: (image: WorkerImage, host: KnownHost) => Promise<PrepareBody>;
  /** Whether the worker is heard on its own link. */
  readonly isConnected: (workerId: string) => boolean;
  /** Workers of other machines whose own links are open. */
  readonly connected: () => Iterable<string>;
  /** They finish what they have, then go. */
  readonly drain: (workerIds: readonly string[], why: string) => void;
  /** Machines that can be made, each with why none is there yet; absent: none can be. */
  readonly potential?: () => readonly HostMachine[];
}

const AVAILABLE_PAUSE_MS = 50;

export class HostsDriver implements LocalDriver {
  readonly #options: HostsDriverOptions;
  readonly #hosts = new Map<string, RemoteHost>();
  /** By worker: where it is counted. */
  readonly #hostOf = new Map<string, RemoteHost>();
  /** A host that joins prepares them too. */
  readonly #images = new ImagesByHolder();
  /** Of the platform's own machine. */
  readonly #prepared = new Set<string>();
  readonly #problems = new Map<string, string>();
  readonly #warm = new Set<string>();
  readonly #placed = new PlacedWorkers();
  readonly homeless: HomelessImages;
  #openedAt = performance.now();
  #timer: NodeJS.Timeout | undefined;
  #telling: NodeJS.Timeout | undefined;
  #graceOver = false;
  #onExit: (exit: WorkerExit) => void = () => {};

  constructor(options: HostsDriverOptions) {
    this.#options = options;
    this.homeless = new HomelessImages(() => options.potential?.() ?? []);
    options.local.onExit((exit) => {
      this.#placed.delete(exit.workerId);
      this.#onExit(exit);
    });
  }

  /** All that ever joined and was not removed. */
  get hosts(): readonly RemoteHost[] {
    return [...this.#hosts.values()];
  }

  /** What workers can be placed on, as it is now. */
  get fleet(): Fleet {
    return this.#fleetWithout(new Map());
  }

  /** A host that joined once; it may be away. */
  know(row: KnownHost): RemoteHost {
    const known = this.#hosts.get(row.id);
    if (known === undefined) {
      const host = new RemoteHost(row, this.#events(), this.#hostOf);
      this.#hosts.set(row.id, host);
      return host;
    }
    const begins = row.draining && !known.row.draining;
    const holderBefore = known.row.holder;
    known.row = row;
    if (begins) this.#options.drain([...known.shares.keys()], `the machine ${row.name} is being drained`);
    if (row.holder !== holderBefore && known.isHere) this.#prepareAll(known);
    this.#available();
    return known;
  }

  /** Its agent has proved itself. */
  attach(row: KnownHost, channel: HostChannel): void {
    this.know(row).attach(channel);
  }

  /** It is no host any more; its workers' jobs are given to others. */
  remove(id: string): void {
    const host = this.#hosts.get(id);
    if (host === undefined) return;
    this.#hosts.delete(id);
    host.dismiss("this machine was removed from the platform");
    host.countOut(host.shares.keys(), `its machine ${host.row.name} was removed`);
  }

  async open(): Promise<void> {
    if (this.#options.runsHere) await this.#options.local.open();
    const stood = new Standstill(HOST_LOOK_MS + STANDSTILL_MS);
    this.#timer = setInterval(() => {
      if (!stood.happened()) this.#look();
    }, HOST_LOOK_MS).unref();
  }

  /** The machines hang on this platform from now on: they have a moment to come. */
  beginAnew(): void {
    this.#openedAt = performance.now();
    this.#graceOver = false;
  }

  async prepare(image: WorkerImage, report: (line: string) => void): Promise<void> {
    const key = imageKey(image);
    this.#images.add(image);
    const may = mayRun(image);
    const tries = this.hosts
      .filter((host) => host.isHere && may(host.row))
      .map((host) => this.#prepareOn(host, image, (line) => report(`${host.row.name}: ${line}`)));
    if (this.#options.runsHere) tries.unshift(this.#prepareHere(key, image, report));
    if (tries.length === 0 && this.#options.potential !== undefined) return this.homeless.wait(image, report);
    if (tries.length === 0) {
      throw new SvcError("NO_CAPACITY", "No machine takes workers: none that may run it is connected.", {
        help: "Let one join with svc worker join.",
      });
    }
    await Promise.any(tries).catch((error: unknown) => {
      throw error instanceof AggregateError ? (error.errors.find(isMendable) ?? error.errors[0]) : error;
    });
  }

  /** The first choice is asked in this turn. */
  async start(spec: WorkerSpec): Promise<void> {
    const { capacity } = this.#options;
    const need = { ...needOf(capacity, spec, spec.gpuPreference), ...wishesOfWorker(spec) };
    const tried = new Map<string, string>();
    let paused: unknown;
    for (;;) {
      const share = this.#place(need, tried, { beyond: spec.beyondCapacity, only: spec.onHost });
      if ("lack" in share) throw paused ?? new SvcError("NO_CAPACITY", share.lack, { help: share.help });
      try {
        await this.#startOn(spec, share);
        return;
      } catch (error) {
        const isPlace =
          error instanceof SvcError && ["STARTS_PAUSED", "NO_CAPACITY", "VOLUMES_AWAY"].includes(error.code);
        if (!isPlace) throw error;
        // Another machine may do it meanwhile.
        if (paused === undefined || error.code === "STARTS_PAUSED") paused = error;
        tried.set(share.host ?? "", error.message.replace(/\.$/, ""));
      }
    }
  }

  async stop(workerId: string, graceMs: number): Promise<void> {
    const host = this.#hostOf.get(workerId);
    if (host !== undefined) host.stop(workerId, graceMs);
    else if (this.#options.runsHere) await this.#options.local.stop(workerId, graceMs);
  }

  async list(): Promise<string[] | undefined> {
    const { local, runsHere, connected } = this.#options;
    const here = runsHere ? await local.list() : [];
    if (here === undefined) return undefined;
    // After a restart hosts have a moment to come back; workers whose own links are open are there whatever their agents do.
    if (!this.#graceOver && this.hosts.some((host) => !host.isKnown)) return undefined;
    return [...new Set([...here, ...this.hosts.flatMap((host) => [...host.shares.keys()]), ...connected()])];
  }

  async vouched(): Promise<readonly string[]> {
    const { local, runsHere } = this.#options;
    const all = [...this.hosts.map((host) => host.vouched()), ...(runsHere ? [local.vouched()] : [])];
    return (await Promise.all(all)).flat();
  }

  async capacity(): Promise<Capacity> {
    return { ...this.fleet, shares: this.#shares() };
  }

  onExit(listener: (exit: WorkerExit) => void): void {
    this.#onExit = listener;
  }

  async retire(endpointId: string, revision: string): Promise<void> {
    this.#warm.delete(zygoteKey(endpointId, revision));
    for (const host of this.hosts) host.retire(endpointId, revision);
    if (this.#options.runsHere) await this.#options.local.retire(endpointId, revision);
  }

  async removeUnused(keep: readonly WorkerImage[], before: number): Promise<void> {
    const kept = new Set(keep.map(imageKey));
    for (const [key, image] of [...this.#images.all]) {
      if (kept.has(key)) continue;
      this.#images.delete(key);
      this.#prepared.delete(key);
      this.#problems.delete(key);
      this.homeless.forget(image);
      for (const host of this.hosts) host.forget(image);
    }
    // A host that is away, or does not do it, does it another time.
    await Promise.allSettled(this.hosts.map((host) => host.removeUnused(keep, before)));
    await this.#options.local.removeUnused(keep, before);
  }

  attachLauncher(secret: string, channel: LauncherChannel): Promise<boolean> {
    return this.#options.local.attachLauncher(secret, channel);
  }

  platformUrl(): Promise<string> {
    return this.#options.local.platformUrl();
  }

  /** What no machine can give. */
  cannotGive(asked: DriverWishes): readonly string[] {
    const { local, runsHere, potential } = this.#options;
    // One that is not known yet may have them.
    const isKnown = potential !== undefined && this.hosts.every((host) => host.isKnown);
    const gpus = isKnown ? gpuProblems(this.fleet.machines ?? [], asked) : [];
    if (this.hosts.some(({ row }) => row.driver === "docker")) return gpus;
    if (potential !== undefined) return [...podProblems(asked), ...gpus];
    return runsHere ? local.cannotGive(asked) : [];
  }

  makeVolume(volume: Volume): Promise<void> {
    return this.#options.local.makeVolume(volume);
  }

  get missingIsolation(): readonly string[] {
    return this.#options.local.missingIsolation ?? [];
  }

  async close({ stopAll }: { stopAll: boolean }): Promise<void> {
    clearInterval(this.#timer);
    clearTimeout(this.#telling);
    this.homeless.close();
    if (stopAll) for (const host of this.hosts) for (const id of host.shares.keys()) host.stop(id, 0);
    if (this.#options.runsHere) await this.#options.local.close({ stopAll });
  }

  #look(): void {
    const now = performance.now();
    this.homeless.tell();
    for (const host of this.#hosts.values()) {
      host.look(now);
      if (!host.isLost(now)) continue;
      const lost = [...host.shares.keys()].filter((id) => !this.#options.isConnected(id));
      host.countOut(lost, `its machine ${host.row.name} does not answer`, "silence");
    }
    if (this.#graceOver || now - this.#openedAt < HOST_SILENCE_MAX_MS) return;
    this.#graceOver = true;
    this.#available();
  }

  async #prepareHere(key: string, image: WorkerImage, report: (line: string) => void): Promise<void> {
    try {
      await this.#options.local.prepare(image, report);
      this.#prepared.add(key);
      this.#problems.delete(key);
      this.#available();
    } catch (error) {
      this.#prepared.delete(key);
      this.#problems.set(key, (error as Error).message.replace(/\.$/, ""));
      throw error;
    }
  }

  async #prepareOn(host: RemoteHost, image: WorkerImage, report: (line: string) => void): Promise<void> {
    const [lack] = lacksOn(host.row.driver, image);
    const body = async () => {
      if (lack !== undefined) throw new SvcError("INVALID_SETTING", lack);
      return this.#options.needed(image, host.row);
    };
    try {
      await host.prepare(image, body, (line) => {
        report(line);
        this.homeless.report(image, `${host.row.name}: ${line}`);
      });
    } catch (error) {
      if (host.isHere) this.homeless.failed(image, error);
      throw error;
    }
    this.homeless.done(image);
    this.#available();
  }

  /** All that may run there. */
  #prepareAll(host: RemoteHost): void {
    for (const image of this.#images.for(host.row)) this.#prepareOn(host, image, () => {}).catch(() => {}); // It keeps its problems itself.
  }

  async #startOn(spec: WorkerSpec, share: Share): Promise<void> {
    const { workerId, image, revision } = spec;
    const host = this.#hosts.get(share.host ?? "");
    if (host !== undefined && !mayRun(image)(host.row)) throw new SvcError("NO_CAPACITY", "It is held for another.");
    if (host !== undefined) return host.start(spec, share);
    await this.#options.local.start({ ...spec, share });
    this.#warm.add(zygoteKey(image.endpointId, revision));
    this.#placed.add(workerId, image.endpointId);
  }

  #place(need: Need, tried: ReadonlyMap<string, string>, options: Parameters<typeof placeAmong>[3]): Share | Lack {
    const { of, gpuIds } = need;
    // It starts where its code is: others matter for the words alone, and for which GPUs there are.
    const some = this.#fleetWithout(tried, (host) => of === undefined || gpuIds !== "" || host.isPrepared(of.image));
    const share = placeAmong(some, this.#usedOf, need, options);
    return "lack" in share ? placeAmong(this.#fleetWithout(tried), this.#usedOf, need, options) : share;
  }

  #fleetWithout(tried: ReadonlyMap<string, string>, isWanted: (host: RemoteHost) => boolean = () => true): Fleet {
    const { capacity, runsHere } = this.#options;
    const { shares: _, ...machine } = capacity;
    const own: HostMachine = {
      ...machine,
      id: "",
      name: PLATFORM_LABEL,
      labels: [PLATFORM_LABEL, ...this.#options.labels],
      sharedVolumes: true,
      prepared: this.#prepared,
      problems: this.#problems,
      warm: this.#warm,
      counts: this.#placed.counts,
    };
    const joined = this.hosts.filter(isWanted).flatMap((host) => host.view() ?? []);
    const potential = this.#options.potential?.() ?? [];
    const machines = [...(runsHere ? [own] : []), ...joined, ...potential].map((one) => {
      const closed = tried.get(one.id);
      return closed === undefined ? one : { ...one, closed };
    });
    return { ...machine, machines };
  }

  #shares(): Map<string, Share> {
    const all = new Map(this.#options.capacity.shares);
    for (const host of this.#hosts.values()) for (const [id, share] of host.shares) all.set(id, share);
    return all;
  }

  readonly #usedOf: UsedOf = (machine) => {
    const host = this.#hosts.get(machine.id);
    return host?.usedOf(machine) ?? usedBy(machine, this.#options.capacity.shares.values());
  };

  /** Said once for what happens in a moment. */
  #available(): void {
    this.#telling ??= setTimeout(() => {
      this.#telling = undefined;
      this.#options.hooks.available();
    }, AVAILABLE_PAUSE_MS).unref();
  }

  #events(): HostEvents {
    const { hooks, capacity, drain } = this.#options;
    return {
      isElsewhere: (id, host) => capacity.shares.has(id) || (this.#hostOf.get(id) ?? host) !== host,
      exited: (exit) => this.#onExit(exit),
      started: (head) => hooks.started(head),
      bootFailed: (workerId, failure) => hooks.bootFailed(workerId, failure),
      printed: (kind, workerId, stream, text) => hooks[kind](workerId, stream, text),
      available: () => this.#available(),
      came: (host) => {
        this.#prepareAll(host);
        this.#available();
      },
      leaving: (host) => drain([...host.shares.keys()], `the machine ${host.row.name} leaves`),
      told: (line, facts) => hooks.told(line, facts),
    };
  }
}

function lacksOn(driver: string, image: WorkerImage): readonly string[] {
  if (driver === "docker") return [];
  return driver === "pod" ? podProblems(image, image.pulls === "image") : needsContainers(image);
}
