/** Pods of pools as decisions are made about them: what the API server tells of each, with what its agent does. */
import type { Machine, Share } from "../domain/capacity.ts";
import { otherGpus } from "../domain/gpu-offers.ts";
import { POD_BACK_MAX_MS, POD_JOIN_MAX_MS } from "../domain/limits.ts";
import type { OnNode } from "../domain/lost-nodes.ts";
import { type Made, machineOf, type Pool, type PoolHost } from "../domain/pools.ts";
import type { Unplaced } from "../domain/unplaced.ts";
import { getOrInsert } from "../lib/get-or-insert.ts";
import { isBegun, isOver, isRunning, isUnplaced, type Pod } from "./pod.ts";
import { avoidedBy, HOLDER_ANNOTATION, MACHINE_ANNOTATION, POOL_LABEL } from "./pod-spec.ts";

/** A host whose agent joined from a Pod. */
export interface PodHost {
  readonly id: string;
  /** Uid of its Pod. */
  readonly pod: string;
  /** Name of its pool. */
  readonly pool: string;
  readonly holder: string;
  readonly isHere: boolean;
  /** It gets no further workers. */
  readonly isClosed: boolean;
  /** In milliseconds of `performance.now()`: when it came or went, and when it had a worker last. */
  readonly since: number;
  readonly usedAt: number;
  readonly shares: readonly Share[];
  readonly problems: ReadonlyMap<string, string>;
  /** As its agent says it. */
  readonly machine: Machine | undefined;
}

export class SeenPods {
  readonly #pools: readonly Pool[];
  readonly #madeOf: (pod: Pod) => Made | undefined;
  /** By uid: when it was first seen, and first seen to run, in milliseconds of `performance.now()`. */
  readonly #seenSince = new Map<string, number>();
  readonly #runningSince = new Map<string, number>();
  /** By uid: when it was first seen with a node that had not begun it. */
  readonly #unbegunSince = new Map<string, number>();
  /** By uid: since when it is known to have no node, or another gave way to it, and the nodes on which others did. */
  readonly #unplaced = new Map<string, { since: number; readonly yielded: string[] }>();
  /** Uids of those whose agents fell silent before anybody told them to end. */
  readonly #lost = new Set<string>();

  /** `madeOf`: what it was made of, where that is not what is made now. */
  constructor(pools: readonly Pool[], madeOf: (pod: Pod) => Made | undefined) {
    this.#pools = pools;
    this.#madeOf = madeOf;
  }

  /** All others are gone. */
  keepOnly(uids: ReadonlySet<string>): void {
    for (const known of [this.#seenSince, this.#runningSince, this.#unbegunSince, this.#unplaced, this.#lost])
      for (const uid of known.keys()) if (!uids.has(uid)) known.delete(uid);
  }

  /** `host`: its agent, once that has joined; `isDeleting`: its end was asked for. */
  see(pod: Pod, host: PodHost | undefined, isDeleting: boolean, now: number): PoolHost {
    const { name, uid, labels, annotations, deletionTimestamp } = pod.metadata;
    const own = ownMachine(annotations);
    const common = {
      ...{ pod: name, pool: labels[POOL_LABEL] ?? "", machine: own, isOwn: own !== undefined },
      made: this.#madeOf(pod),
      ...this.#onNode(pod, now),
    };
    const isLeaving = deletionTimestamp !== undefined || isDeleting;
    if (host === undefined) {
      if (!this.#seenSince.has(uid)) this.#seenSince.set(uid, now);
      if (isRunning(pod) && !this.#runningSince.has(uid)) this.#runningSince.set(uid, now);
      const isLate = now - (this.#runningSince.get(uid) ?? now) > POD_JOIN_MAX_MS;
      const state = isLeaving ? "leaving" : isOver(pod) || isLate ? "over" : "coming";
      const [holder, unplaced] = [annotations[HOLDER_ANNOTATION] ?? "", this.#isUnplaced(pod, now)];
      const forMs = now - this.#seenSince.get(uid)!;
      return { ...common, state, forMs, holder, shares: [], problems: new Map(), unplaced };
    }
    const { holder, shares, problems } = host;
    const stateOf = () => {
      if (isLeaving) return "leaving";
      if (isOver(pod) || (host.isClosed && shares.length === 0)) return "over";
      if (host.isClosed) return "leaving";
      return host.isHere ? "here" : "away";
    };
    const state = stateOf();
    const forMs = state === "away" ? now - host.since : shares.length > 0 ? 0 : now - Math.max(host.usedAt, host.since);
    if (host.isHere) this.#lost.delete(uid);
    else if (state === "away" && forMs >= POD_BACK_MAX_MS) this.#lost.add(uid);
    const heard = { isHeard: host.isHere, ...(this.#lost.has(uid) && { lostMs: now - host.since }) };
    const pool = this.#pools.find((one) => one.name === common.pool);
    const gpus = pool && host.machine && own === undefined ? otherGpus(pool, host.machine) : undefined;
    const other = gpus && { machine: { ...machineOf(pool!), gpus }, hasOtherGpus: true };
    return { ...common, ...heard, ...other, state, forMs, holder, shares, problems };
  }

  /** One on this node gives way to the Pod with this uid. */
  gaveWay(uid: string, node: string, now: number): void {
    const known = this.#unplaced.get(uid);
    if (known === undefined) return;
    known.since = now;
    known.yielded.push(node);
  }

  #isUnplaced(pod: Pod, now: number): Unplaced | undefined {
    const { uid } = pod.metadata;
    if (!isUnplaced(pod)) {
      this.#unplaced.delete(uid);
      return undefined;
    }
    const { since, yielded } = getOrInsert(this.#unplaced, uid, () => ({ since: now, yielded: [] }));
    return { forMs: now - since, yielded };
  }

  #onNode(pod: Pod, now: number): OnNode {
    const { uid, annotations } = pod.metadata;
    const { nodeName: node } = pod.spec;
    const avoids = avoidedBy(annotations);
    if (node === undefined || isBegun(pod)) {
      this.#unbegunSince.delete(uid);
      return { node, avoids };
    }
    if (!this.#unbegunSince.has(uid)) this.#unbegunSince.set(uid, now);
    return { node, avoids, unbegunMs: now - this.#unbegunSince.get(uid)! };
  }
}

/** Of a Pod that has not the size of its pool: the platform wrote it. */
function ownMachine({ [MACHINE_ANNOTATION]: text }: Readonly<Record<string, string>>): Machine | undefined {
  try {
    return text === undefined ? undefined : (JSON.parse(text) as Machine);
  } catch {
    return undefined; // Somebody wrote over it.
  }
}
