/**
 * Pools of hosts that a cluster makes and deletes, and whom their hosts are held for. What is to be done about them is decided in pool-plan.ts.
 *
 * A pool of `trust: shared` holds its hosts for everybody from the start. A host with volumes has them from its making, and is held for
 * their endpoint alone; so is one of an endpoint's own image, which has the size of one worker.
 */
import { hash } from "node:crypto";
import { type Machine, type Need, needOn, placeBeside, type Share, usedBy } from "./capacity.ts";
import { hostLabels } from "./host.ts";
import type { OnNode } from "./lost-nodes.ts";
import type { Unplaced } from "./unplaced.ts";
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

/**
 * otherwise: its pool has other settings now, of size, nodes, isolation: it takes no further worker. before: by another release: it is used, and
 * the first to go.
 */
export type Made = "otherwise" | "before";

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
  /** What it was made of, where that is not what is made now. */
  readonly made?: Made | undefined;
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
export function machineFor(pool: Pool, need: Need): Machine {
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
