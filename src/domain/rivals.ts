/**
 * What platforms with workers on the same machines tell each other: who holds what there, and who waits for room. So an endpoint that waits
 * is weighed against those of all platforms, by the rules of fair-share.ts.
 */
import { z } from "zod";
import type { Contender, HeldWorker } from "./fair-share.ts";
import { RIVAL_IMAGES_MAX, RIVAL_WORKERS_MAX, RIVALS_MAX } from "./host-limits.ts";
import { type Fleet, placeAmong } from "./placement.ts";

/** A contender as another platform has it: what its workers have of machines is known there. */
export interface Rival extends Omit<Contender, "workers"> {
  readonly workers: readonly Omit<HeldWorker, "share">[];
}

/** Of one platform, or of several. */
export interface RoomSide {
  readonly contenders: readonly Rival[];
  /** Workers that finish what they have, then go. */
  readonly leaving: readonly string[];
}

/** As whoever lends the machines tells it. */
export interface Rivals extends RoomSide {
  /** Images that no worker starts from there at present, by machine: of those that were asked about, and that others wait with. */
  readonly lacking: Readonly<Record<string, readonly string[]>>;
}

export interface RivalsAsked {
  /** As placement.ts names them: what it waits with itself. */
  readonly images: readonly string[];
  /** It has looked before and waits still: nobody may start into room without its turn. */
  readonly waits: boolean;
}

/** A worker whose room another platform's endpoint waits for. */
export interface RoomTake {
  readonly workerId: string;
  readonly endpointId: string;
  /** It is taken because it has nothing to do. */
  readonly idle: boolean;
  readonly why: string;
}

export const NO_RIVALS: Rivals = { contenders: [], leaving: [], lacking: {} };

/** As much as one platform tells: those that wait first, then those with the most workers. The others' are counted, and stay. */
export function bounded({ contenders, leaving }: RoomSide): RoomSide {
  const all = contenders.toSorted(
    (a, b) => Number(b.wanted > 0) - Number(a.wanted > 0) || b.workers.length - a.workers.length,
  );
  let left = RIVAL_WORKERS_MAX;
  const told: Rival[] = [];
  for (const one of all.slice(0, RIVALS_MAX)) {
    left -= one.workers.length;
    if (left >= 0) told.push(one);
  }
  return { contenders: told, leaving: leaving.slice(0, RIVAL_WORKERS_MAX) };
}

/** As those that have no machines themselves are told it: who could not start anywhere, however empty, keeps no room from others. */
export function toldOf(fleet: Fleet, sides: readonly RoomSide[], images: readonly string[]): Rivals {
  const contenders = sides
    .flatMap((side) => side.contenders)
    .map((one) => (one.wanted > 0 && "lack" in placeAmong(fleet, [], one.need) ? { ...one, wanted: 0 } : one));
  const asked = new Set(images);
  for (const { wanted, need } of contenders) if (wanted > 0 && need.of !== undefined) asked.add(need.of.image);
  const some = [...asked].slice(0, RIVAL_IMAGES_MAX);
  const lacking: Record<string, readonly string[]> = {};
  for (const { id, prepared, kept } of fleet.machines ?? []) {
    // Of those that are kept it is told what they have.
    if (prepared === undefined || kept !== undefined) continue;
    const lacks = some.filter((image) => !prepared.has(image));
    if (lacks.length > 0) lacking[id] = lacks;
  }
  return { contenders, leaving: sides.flatMap(({ leaving }) => leaving), lacking };
}

/** The machines with what is known of their images. */
export function withLacking<F extends Fleet>(fleet: F, lacking: Rivals["lacking"]): F {
  const machines = fleet.machines?.map((machine) => {
    const lacks = lacking[machine.id];
    if (lacks === undefined || machine.prepared !== undefined) return machine;
    return { ...machine, prepared: { has: (image: string) => !lacks.includes(image) } };
  });
  return machines === undefined ? fleet : { ...fleet, machines };
}

const id = z.string().min(1).max(100);
const amount = z.number().nonnegative().max(1e9);
const count = z.int().nonnegative().max(100_000);
const ms = z.number().nonnegative();
const text = z.string().max(2_000);
const image = z.string().max(700);

const need = z.object({
  ...{ vcpus: amount, memoryGb: amount, gpuIds: text, gpuPreference: z.array(z.string().max(200)).max(200) },
  ...{ gpuCount: amount, ofGpus: z.boolean().optional(), label: text.optional(), volumes: z.boolean().optional() },
  of: z.object({ endpointId: id, image, zygote: z.string().max(400) }).optional(),
});
const rival = z.object({
  ...{ id, need, workersMin: count, wanted: count, urgent: z.boolean(), waitingMs: ms },
  workers: z.array(z.object({ id, idleMs: ms, upMs: ms, stale: z.boolean() })).max(RIVAL_WORKERS_MAX),
});
const side = z.object({
  contenders: z.array(rival).max(RIVALS_MAX),
  leaving: z.array(id).max(RIVAL_WORKERS_MAX),
});
const rivals = z.object({
  contenders: z.array(rival).max(100 * RIVALS_MAX),
  leaving: z.array(id).max(100 * RIVAL_WORKERS_MAX),
  lacking: z.record(id.or(z.literal("")), z.array(image).max(RIVAL_IMAGES_MAX)),
});
const asked = z.object({ images: z.array(image).max(RIVAL_IMAGES_MAX), waits: z.boolean() });
const take = z.object({ workerId: id, endpointId: id, idle: z.boolean(), why: z.string().max(1_000) });

export const roomSide = (value: unknown): RoomSide => side.parse(value) as RoomSide;
export const rivalsTold = (value: unknown): Rivals => rivals.parse(value) as Rivals;
export const rivalsAsked = (value: unknown): RivalsAsked => asked.parse(value);
export const roomTake = (value: unknown): RoomTake => take.parse(value);
