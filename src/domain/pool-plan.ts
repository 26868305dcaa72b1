/**
 * What is to be done about pools of hosts, by what is wanted and what is there. Pure.
 *
 *   coming ──its agent joins──▶ here, nobody's ──held for one──▶ here, held ──idle for long──▶ deleted
 *     ▲                               └──more than are kept warm──▶ deleted       └── never anybody else's
 *     └── made: for those who wait, or to be warm; anew, where what it is made of has changed
 */
import { type Machine, type Need, needOn, placeBeside, type Share, type Used, usedBy } from "./capacity.ts";
import {
  HOST_SILENCE_MAX_MS,
  POD_AWAY_MAX_MS,
  POD_BACK_MAX_MS,
  POD_COMING_MAX_MS,
  POD_OTHER_GPUS_MAX_MS,
  POD_YIELD_MS,
  PODS_COMING_MAX,
} from "./limits.ts";
import { nodesToAvoid, whyGivenUp } from "./lost-nodes.ts";
import {
  canTake,
  type Having,
  HELD_FOR_ALL,
  holderOf,
  machineFor,
  machineOf,
  type Pool,
  type PoolHost,
  type Step,
  type Wish,
} from "./pools.ts";
import { isGivenRoom, mayGiveRoom } from "./unplaced.ts";
import type { MountedVolume } from "./volume.ts";

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
      if (pool === undefined || !isCounted(host) || isMadeAnew(host)) return [];
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
    this.#slots.sort((a, b) => Number(isOld(a)) - Number(isOld(b)));
    this.#slotOf = new Map(this.#slots.map((slot) => [slot.host, slot]));
    this.#coming = this.#slots.filter(({ host }) => host?.state === "coming" && host.forMs < POD_COMING_MAX_MS).length;
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
      const isFree = (slot: Slot) => slot.pool === pool && !slot.isWanted && isUnused(slot) && !isOld(slot);
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
    if (isMadeAnew(host) && host.shares.length === 0) return "what its pool is made of has changed";
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
    if (isOld(slot) && isUnused(slot) && this.#isReplaced(slot.pool)) return "it is of the release before";
    if (host.forMs < slot.pool.idleMs) return undefined;
    if (!isUnused(slot)) return "it was idle";
    const left = spare.get(host.pool) ?? 0;
    if (left <= 0) return undefined;
    spare.set(host.pool, left - 1);
    return host.state === "here" ? "more were idle than are kept warm" : "nobody needs it any more";
  }

  /** Whether one of an earlier release may go: those that are to be warm are there, or its pool has no place for them, and then one by one. */
  #isReplaced(pool: Pool): boolean {
    const isNew = (slot: Slot) => slot.host?.state === "here" && !slot.isWanted && isUnused(slot) && !isOld(slot);
    if (this.#slots.filter((slot) => slot.pool === pool && isNew(slot)).length >= pool.warm) return true;
    const count = this.#counts.get(pool.name) ?? 0;
    // The image of those that come may be one that nobody can pull.
    const comes = this.#slots.some((slot) => slot.pool === pool && slot.host?.state === "coming");
    if (count < pool.max || comes) return false;
    this.#counts.set(pool.name, count - 1);
    return true;
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

/** It takes no worker, and another is made in its place. */
function isMadeAnew({ made, state }: PoolHost): boolean {
  return made === "otherwise" || (made === "before" && state === "coming");
}

function isOld({ host }: Slot): boolean {
  return host?.made === "before";
}

function isFull({ used, machine }: Slot): boolean {
  return used.vcpus >= machine.vcpus || used.memoryGb >= machine.memoryGb;
}
