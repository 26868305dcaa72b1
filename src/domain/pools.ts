/**
 * Pools of hosts that a cluster makes and deletes: what is to be done about what is wanted and what is there. Pure.
 *
 *   coming ──its agent joins──▶ here, nobody's ──held for one──▶ here, held ──idle for long──▶ deleted
 *     ▲                               └──more than are kept warm──▶ deleted       └── never anybody else's
 *     └── made: for those who wait, or to be warm
 *
 * A pool of `trust: shared` holds its hosts for everybody from the start. A host with volumes has them from its making, and is held for
 * their endpoint alone; so is one of an endpoint's own image, which has the size of one worker.
 */
import { hash } from "node:crypto";
import { type Machine, type Need, needOn, placeBeside, type Share, type Used, usedBy } from "./capacity.ts";
import { hostLabels } from "./host.ts";
import {
  HOST_SILENCE_MAX_MS,
  POD_AWAY_MAX_MS,
  POD_BACK_MAX_MS,
  POD_OTHER_GPUS_MAX_MS,
  POD_YIELD_MS,
  PODS_COMING_MAX,
} from "./limits.ts";
import { nodesToAvoid, type OnNode, whyGivenUp } from "./lost-nodes.ts";
import { isGivenRoom, mayGiveRoom, type Unplaced } from "./unplaced.ts";
import type { MountedVolume } from "./volume.ts";

/** Whose workers may meet on one host. */
export const TRUSTS = ["environment", "endpoint", "shared"] as const;
export type Trust = (typeof TRUSTS)[number];

export interface Pool {
  readonly name: string;
  /** What workers have of one of its hosts. */
  readonly vcpus: number;
  readonly memoryGb: number;
  readonly gpus: number;
  /** As the driver prints it; "" without GPUs. */
  readonly gpuProduct: string;
  /** So many hosts are there before anybody needs them. */
  readonly warm: number;
  /** A host without workers stays so long. */
  readonly idleMs: number;
  readonly max: number;
  readonly trust: Trust;
  /** Its hosts can have volumes. */
  readonly volumes: boolean;
}

/** Of a host that everybody's workers may run on. */
export const HELD_FOR_ALL = "*";
/** Before the endpoint of a host with its volumes, */
const WITH_VOLUMES = "volumes:";
/** or of one of its own image. */
const OF_IMAGE = "image:";
const DIGEST_CHARS = 16;

/** coming: it has not joined; away: its agent is not connected; leaving: it gets no worker any more; over: it has ended by itself. */
type PoolHostState = "coming" | "here" | "away" | "leaving" | "over";

export interface PoolHost extends OnNode {
  /** Name of its Pod. */
  readonly pod: string;
  readonly pool: string;
  readonly state: PoolHostState;
  /** Milliseconds without a worker, on its way, or away; 0 while it has workers. */
  readonly forMs: number;
  /** Whose workers alone may run there, as holderOf says it; "": nobody's yet. */
  readonly holder: string;
  readonly shares: readonly Share[];
  /** Images that could not be prepared there, with the reasons. */
  readonly problems: ReadonlyMap<string, string>;
  /** What workers have of it; absent: what its pool says. */
  readonly machine?: Machine | undefined;
  /** It is one of an endpoint's own image. */
  readonly isOwn?: boolean;
  /** It joined with other GPUs than its pool says. */
  readonly hasOtherGpus?: boolean;
  /** The scheduler finds no node for it. */
  readonly unplaced?: Unplaced | undefined;
}

/** Whose workers they are, as far as it says where they may run. */
interface Runs {
  readonly endpointId: string;
  /** null: it belongs to no environment, and shares with no other endpoint. */
  readonly environmentId: string | null;
  readonly volumes: readonly MountedVolume[];
  /** The image of its own that it runs in; absent: it runs in any host. */
  readonly ownImage?: string | undefined;
}

/** Workers that found no room. */
export interface Wish extends Runs {
  /** As placement.ts names images. */
  readonly image: string;
  readonly need: Need;
  readonly missing: number;
}

export type Step =
  | {
      readonly kind: "make";
      readonly pool: Pool;
      readonly count: number;
      readonly having?: Having;
      /** Nodes on which they are not to be put; absent: any will do. */
      readonly avoids?: readonly string[];
    }
  | { readonly kind: "hold"; readonly pod: string; readonly holder: string }
  /** `for`: the Pod without a node that it gives way to. */
  | { readonly kind: "delete"; readonly pod: string; readonly why: string; readonly for?: string | undefined };

/** What hosts that are made have besides, and whom those are held for. */
export interface Having {
  readonly holder: string;
  readonly volumes: readonly MountedVolume[];
  /** The image that they run, and what its workers have of it. */
  readonly own?: { readonly image: string; readonly machine: Machine } | undefined;
}

/** Whom a host of such a pool is held for when this endpoint needs it. */
export function holderOf(trust: Trust, { endpointId, environmentId, volumes, ownImage }: Runs): string {
  if (volumes.length > 0 || ownImage !== undefined) {
    const digest = hash("sha256", JSON.stringify(ownImage === undefined ? volumes : [ownImage, volumes]));
    return `${volumes.length > 0 ? WITH_VOLUMES : OF_IMAGE}${endpointId}:${digest.slice(0, DIGEST_CHARS)}`;
  }
  if (trust === "shared") return HELD_FOR_ALL;
  return trust === "endpoint" || environmentId === null ? `endpoint:${endpointId}` : `environment:${environmentId}`;
}

/** Whom hosts are held for that may run this endpoint's workers, whatever pools they are of. */
export function holdersFor(of: Runs): readonly string[] {
  if (of.volumes.length > 0 || of.ownImage !== undefined) return [holderOf("endpoint", of)];
  return [HELD_FOR_ALL, holderOf("endpoint", of), holderOf("environment", of)];
}

/** Whether a host that is held so has volumes at their paths. */
export function hasVolumes(holder: string): boolean {
  return holder.startsWith(WITH_VOLUMES);
}

/** An empty host of the pool. */
export function machineOf({ vcpus, memoryGb, gpus, gpuProduct }: Pool): Machine {
  const size = { vcpus, memoryGb };
  const each = { product: gpuProduct, emulated: false };
  return { ...size, hardware: size, gpus: Array.from({ length: gpus }, () => each), emulatesGpu: false };
}

/** A host that is as large as one worker of this need. Its memory is whole GB: so an agent offers it. */
function machineFor(pool: Pool, need: Need): Machine {
  const machine = machineOf(pool);
  const { vcpus, memoryGb } = needOn(machine, need);
  const size = { vcpus, memoryGb: Math.ceil(memoryGb) };
  const gpus = need.gpuIds === "" ? 0 : Math.ceil(need.gpuCount);
  return { ...machine, ...size, hardware: size, gpus: machine.gpus.slice(0, gpus) };
}

/** Whether a worker of this need fits on an empty host of the pool. */
export function canTake(pool: Pool, need: Need): boolean {
  const wanted = hostLabels(need.label ?? "");
  if ((need.volumes && !pool.volumes) || (wanted.length > 0 && !wanted.includes(pool.name))) return false;
  const machine = machineOf(pool);
  return !("lack" in placeBeside(machine, usedBy(machine, []), needOn(machine, need)));
}

/** In the order in which they are to be done. */
export function decidePools(pools: readonly Pool[], hosts: readonly PoolHost[], wishes: readonly Wish[]): Step[] {
  const plan = new Plan(pools, hosts);
  for (const wish of wishes) if (pools.some((pool) => canTake(pool, wish.need))) plan.serve(wish);
  plan.warm();
  return [...plan.steps(), ...plan.deletions()];
}

interface Slot {
  /** Undefined: it is made now. */
  readonly host: PoolHost | undefined;
  readonly pool: Pool;
  readonly machine: Machine;
  readonly shares: Share[];
  /** The sum of them. */
  used: Used;
  holder: string;
  /** Of one that is made now. */
  readonly volumes: readonly MountedVolume[];
  readonly own: Having["own"];
  /** Workers were placed there in this plan. */
  isWanted: boolean;
}

class Plan {
  readonly #pools: readonly Pool[];
  readonly #hosts: readonly PoolHost[];
  readonly #slots: Slot[];
  readonly #held: Step[] = [];
  /** Images that could not be prepared somewhere. */
  readonly #broken: ReadonlySet<string>;
  readonly #slotOf: ReadonlyMap<PoolHost | undefined, Slot>;
  /** On their way or to be made. */
  #coming: number;
  /** By pool: those that are there, away, on their way, or to be made. */
  readonly #counts = new Map<string, number>();
  /** By pool: how many wait for a host that its number forbids. */
  readonly #short = new Map<string, number>();

  constructor(pools: readonly Pool[], hosts: readonly PoolHost[]) {
    this.#pools = pools;
    this.#hosts = hosts;
    const here = hosts.filter(({ state }) => state === "here");
    this.#broken = new Set(here.flatMap(({ problems }) => [...problems.keys()]));
    this.#slots = hosts.flatMap((host) => {
      const pool = pools.find(({ name }) => name === host.pool);
      if (pool === undefined || !isCounted(host)) return [];
      const { holder, shares, machine = machineOf(pool) } = host;
      return {
        host,
        pool,
        machine,
        shares: [...shares],
        used: usedBy(machine, shares),
        holder,
        volumes: [],
        own: undefined,
        isWanted: false,
      };
    });
    this.#slotOf = new Map(this.#slots.map((slot) => [slot.host, slot]));
    this.#coming = this.#slots.filter(({ host }) => host?.state === "coming").length;
    for (const { pool, state } of hosts) if (state !== "leaving" && state !== "over") this.#count(pool);
  }

  #count(pool: string): void {
    this.#counts.set(pool, (this.#counts.get(pool) ?? 0) + 1);
  }

  serve(wish: Wish): void {
    // Elsewhere it would fail the same: no further host is made for it.
    if (this.#broken.has(wish.image)) return;
    const holders = new Map(
      this.#pools.filter((pool) => canTake(pool, wish.need)).map((pool) => [pool, holderOf(pool.trust, wish)]),
    );
    const [first] = holders.keys();
    for (let n = 0; n < wish.missing; n++) {
      const slot = this.#slotFor(wish, holders) ?? this.#make(first, wish);
      if (slot === undefined || !this.#put(slot, wish)) return;
    }
  }

  /** Hosts that are nobody's yet, up to the number that is to be there. */
  warm(): void {
    for (const pool of this.#pools) {
      const isFree = (slot: Slot) => slot.pool === pool && !slot.isWanted && isUnused(slot);
      if (this.#unplaced.some((host) => host.pool === pool.name && isGivenRoom(host))) continue;
      let free = this.#slots.filter(isFree).length;
      while (free < pool.warm && this.#make(pool) !== undefined) free++;
    }
  }

  steps(): Step[] {
    const made = this.#slots.filter(({ host }) => host === undefined);
    const avoids = nodesToAvoid(this.#hosts);
    const alike = Map.groupBy(made, (slot) => `${slot.pool.name} ${isOwn(slot) ? slot.holder : ""}`);
    const makes = [...alike.values()].map((some) => {
      const { pool, holder, volumes, own } = some[0]!;
      const having = isOwn(some[0]!) ? { having: { holder, volumes, ...(own && { own }) } } : {};
      return { kind: "make" as const, pool, count: some.length, ...having, ...(avoids.length > 0 && { avoids }) };
    });
    return [...this.#held, ...makes];
  }

  deletions(): Step[] {
    const spare = new Map(this.#pools.map((pool) => [pool.name, this.#unused(pool) - pool.warm]));
    const waiting = new Set(this.#unplaced);
    return this.#hosts.flatMap((host) => {
      const why = this.#whyDelete(host, spare);
      if (why !== undefined) return { kind: "delete" as const, pod: host.pod, why };
      if (this.#slotOf.get(host)?.isWanted !== false) return [];
      const other = [...waiting].find((one) => mayGiveRoom(host, one));
      if (other === undefined) return [];
      waiting.delete(other);
      return { kind: "delete" as const, pod: host.pod, why: `${other.pod} has no node`, for: other.pod };
    });
  }

  /** Those that somebody waits for and that have no node. */
  get #unplaced(): PoolHost[] {
    return this.#slots.flatMap(({ host, isWanted }) => (isWanted && host?.unplaced !== undefined ? [host] : []));
  }

  #whyDelete(host: PoolHost, spare: Map<string, number>): string | undefined {
    if (host.state === "over") return "it has ended";
    const short = this.#short.get(host.pool) ?? 0;
    if (host.state === "away") {
      const isInTheWay = short > 0 && host.shares.length === 0 && host.forMs > HOST_SILENCE_MAX_MS;
      if (isInTheWay) this.#short.set(host.pool, short - 1);
      return isInTheWay || host.forMs > POD_AWAY_MAX_MS ? "its agent does not answer" : undefined;
    }
    if (host.state === "leaving") return undefined;
    const slot = this.#slotOf.get(host);
    if (slot === undefined) return host.shares.length === 0 ? "its pool is gone" : undefined;
    if (host.shares.length > 0) return undefined;
    const givenUp = host.state === "coming" ? whyGivenUp(host, this.#hosts) : undefined;
    if (givenUp !== undefined) return givenUp;
    // Whatever is wrong there may be mended by now.
    if (host.hasOtherGpus && host.forMs > POD_OTHER_GPUS_MAX_MS) return "it has not the GPUs of its pool";
    if (slot.isWanted) return undefined;
    if (short > 0 && (host.state === "here" || host.holder !== "") && host.forMs > POD_YIELD_MS) {
      this.#short.set(host.pool, short - 1);
      return "others wait for its place";
    }
    if (host.forMs < slot.pool.idleMs) return undefined;
    if (!isUnused(slot)) return "it was idle";
    const left = spare.get(host.pool) ?? 0;
    if (left <= 0) return undefined;
    spare.set(host.pool, left - 1);
    return host.state === "here" ? "more were idle than are kept warm" : "nobody needs it any more";
  }

  /** Those that are there or on their way, and that nobody has or wants. */
  #unused(pool: Pool): number {
    const isFree = (slot: Slot) => slot.pool === pool && slot.host !== undefined && !slot.isWanted && isUnused(slot);
    return this.#slots.filter(isFree).length;
  }

  /** Held for it already, else nobody's and here, else on its way. `holders`: as whose it is held in those pools that can take it. */
  #slotFor(wish: Wish, holders: ReadonlyMap<Pool, string>): Slot | undefined {
    const isPlain = wish.volumes.length === 0 && wish.ownImage === undefined;
    const mine = (slot: Slot) => slot.holder === holders.get(slot.pool);
    const nobodys = (slot: Slot) => isPlain && slot.holder === "" && holders.has(slot.pool);
    const orders = [
      (slot: Slot) => slot.host?.state === "here" && mine(slot),
      (slot: Slot) => slot.host?.state === "here" && nobodys(slot),
      (slot: Slot) => slot.host?.state !== "here" && (mine(slot) || nobodys(slot)),
    ];
    for (const order of orders) {
      const found = this.#slots.find((slot) => order(slot) && !isFull(slot) && this.#shareOn(slot, wish.need));
      if (found !== undefined) return found;
    }
    return undefined;
  }

  #put(slot: Slot, wish: Wish): boolean {
    const share = this.#shareOn(slot, wish.need);
    if (share === undefined) return false;
    slot.shares.push(share);
    slot.used = usedBy(slot.machine, slot.shares);
    slot.isWanted = true;
    const holder = holderOf(slot.pool.trust, wish);
    if (slot.holder === holder) return true;
    slot.holder = holder;
    // One that is on its way is held when it is here.
    if (slot.host?.state === "here") this.#held.push({ kind: "hold", pod: slot.host.pod, holder });
    return true;
  }

  #shareOn({ machine, used }: Slot, need: Need): Share | undefined {
    const placed = placeBeside(machine, used, needOn(machine, need));
    return "lack" in placed ? undefined : placed;
  }

  #make(pool: Pool | undefined, wish?: Wish): Slot | undefined {
    if (pool === undefined) return undefined;
    if ((this.#counts.get(pool.name) ?? 0) >= pool.max) {
      if (wish !== undefined) this.#short.set(pool.name, (this.#short.get(pool.name) ?? 0) + 1);
      return undefined;
    }
    if (this.#coming >= PODS_COMING_MAX) return undefined;
    this.#coming++;
    this.#count(pool.name);
    const volumes = wish?.volumes ?? [];
    const image = wish?.ownImage;
    const machine = wish === undefined || image === undefined ? machineOf(pool) : machineFor(pool, wish.need);
    const own = image === undefined ? undefined : { image, machine };
    const unheld = pool.trust === "shared" ? HELD_FOR_ALL : "";
    const holder = wish !== undefined && isOwn({ volumes, own }) ? holderOf(pool.trust, wish) : unheld;
    const used = usedBy(machine, []);
    const slot: Slot = { host: undefined, pool, machine, shares: [], used, holder, volumes, own, isWanted: false };
    this.#slots.push(slot);
    return slot;
  }
}

/** It can be filled: it is here, on its way, or away for a moment, as between its joining and its link, and when the platform starts anew. */
function isCounted({ state, forMs }: PoolHost): boolean {
  return state === "here" || state === "coming" || (state === "away" && forMs < POD_BACK_MAX_MS);
}

/** Nobody has used it, or everybody may. */
function isUnused({ holder, shares }: Slot): boolean {
  return holder === "" || (holder === HELD_FOR_ALL && shares.length === 0);
}

/** It is made for one endpoint. */
function isOwn({ volumes, own }: Pick<Slot, "volumes" | "own">): boolean {
  return volumes.length > 0 || own !== undefined;
}

function isFull({ used, machine }: Slot): boolean {
  return used.vcpus >= machine.vcpus || used.memoryGb >= machine.memoryGb;
}
