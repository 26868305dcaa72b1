/**
 * Which of several machines takes a worker. Pure. Among those where it may run and fits, in this order:
 *
 *   best GPU by its preference → knows its code (a worker or zygote of the revision) → least loaded → fewest workers of the endpoint →
 *   the platform's own → name
 */
import {
  dominantShare,
  emulatesGpu,
  fitsTogether,
  type Lack,
  type Machine,
  type Need,
  needOn,
  place,
  placeBeside,
  type Share,
  sizeProblems,
  type Used,
  usedBy,
} from "./capacity.ts";
import { gpuMatches, gpuRank } from "./gpu.ts";
import { hostLabels, type InUse } from "./host.ts";

/** A machine among others: the platform's own or a host. */
export interface HostMachine extends Machine {
  /** "": the platform's own. */
  readonly id: string;
  readonly name: string;
  readonly labels: readonly string[];
  /** The platform's volumes are there too. */
  readonly sharedVolumes: boolean;
  /** Why no worker is started there at present, as "it is away"; absent: some may be. */
  readonly closed?: string | undefined;
  /** Images that workers can start from there; absent: whatever is asked for. */
  readonly prepared?: { has(image: string): boolean };
  /** Why an image could not be prepared there. */
  readonly problems?: ReadonlyMap<string, string>;
  /** Keys of zygotes that are there. */
  readonly warm?: { has(zygote: string): boolean };
  /** Workers by endpoint. */
  readonly counts?: ReadonlyMap<string, number>;
  /** Nothing can start there: it stands for machines that can be made. */
  readonly potential?: true;
  /** What those that were made have in place of the GPUs that they should; absent: nothing is wrong. */
  readonly amiss?: string | undefined;
  /** Why it runs nothing but what was prepared there, as "it is kept for another"; absent: whatever is asked for is prepared. */
  readonly kept?: string | undefined;
  /** As a host measured last; absent: it did not, or the machine is the platform's own. */
  readonly inUse?: InUse | undefined;
}

/** What workers can be placed on: one machine, or those in `machines`, among which it is itself if it takes any. */
export interface Fleet extends Machine {
  readonly machines?: readonly HostMachine[];
}

/** The label of the platform's own machine. */
export const PLATFORM_LABEL = "platform";
const NAMES_MAX = 5;

const hostOf = (share: Share) => share.host ?? "";

/** What an endpoint wishes of the machine that a worker of it gets, beside its room. */
export function wishesOf(endpoint: {
  readonly id: string;
  readonly revision: string;
  readonly buildId: string | null;
  readonly imageName: string;
  readonly networkVolumeId: string;
  readonly hosts?: string | undefined;
}): Pick<Need, "label" | "volumes" | "of"> {
  const { id, revision, buildId, imageName, networkVolumeId, hosts } = endpoint;
  const image = imageKey({ endpointId: id, buildId: buildId ?? "", imageName });
  return {
    ...(hosts ? { label: hosts } : {}),
    volumes: networkVolumeId !== "",
    of: { endpointId: id, image, zygote: zygoteKey(id, revision) },
  };
}

/** What is prepared for an endpoint: its build, or without one the image that it runs. */
export function imageKey(image: {
  readonly endpointId: string;
  readonly buildId: string;
  readonly imageName: string;
}): string {
  return `${image.endpointId}:${image.buildId || image.imageName}`;
}

export function zygoteKey(endpointId: string, revision: string): string {
  return `${endpointId}:${revision}`;
}

/** All machines as one: what endpoints' parts are measured by. */
export function wholeOf({ machines: all, ...alone }: Fleet): Machine {
  if (all === undefined) return alone;
  const machines = all.filter(({ potential }) => potential !== true);
  const sum = (of: (machine: Machine) => number) => machines.reduce((all, machine) => all + of(machine), 0);
  return {
    hardware: { vcpus: sum((one) => one.hardware.vcpus), memoryGb: sum((one) => one.hardware.memoryGb) },
    vcpus: sum((one) => one.vcpus),
    memoryGb: sum((one) => one.memoryGb),
    gpus: machines.flatMap((one) => one.gpus),
    emulatesGpu: machines.some((one) => one.emulatesGpu),
  };
}

/** What is used of each machine. */
export type UsedOf = (machine: HostMachine) => Used;

/**
 * The share of a further worker beside `taken` on the best machine, or what is missing for it; `only` this host, if given.
 * Who keeps what is used of each machine gives that: all shares are not added up again for every worker.
 */
export function placeAmong(
  fleet: Fleet,
  taken: Iterable<Share> | UsedOf,
  need: Need,
  { beyond = false, only }: { readonly beyond?: boolean; readonly only?: string | undefined } = {},
): Share | Lack {
  const usedOf = typeof taken === "function" ? taken : undefined;
  const shares = typeof taken === "function" ? [] : taken;
  if (fleet.machines === undefined) return place(fleet, shares, need, beyond);
  const machines = only === undefined ? fleet.machines : fleet.machines.filter(({ id }) => id === only);
  const byHost = Map.groupBy(shares, hostOf);
  const lacks: { readonly name: string; readonly lack: Lack }[] = [];
  const allowed = machines.filter((machine) => isAllowed(machine, need));
  let best: Candidate | undefined;
  for (const machine of withRealGpus(allowed, need)) {
    const used = usedOf?.(machine) ?? usedBy(machine, byHost.get(machine.id) ?? []);
    const bar = barOf(machine, need);
    const placed = bar === undefined ? placeBeside(machine, used, needOn(machine, need), beyond) : bar;
    if ("lack" in placed) lacks.push({ name: machine.name, lack: placed });
    else {
      const candidate = candidateOf(machine, used, need, placed);
      if (best === undefined || compare(candidate, best) < 0) best = candidate;
    }
  }
  if (best === undefined) return lackOfAll(machines, need, lacks);
  return best.machine.id === "" ? best.share : { ...best.share, host: best.machine.id };
}

/** The fleet as it were with what can be made. */
export function asIfMade<F extends Fleet>(fleet: F): F {
  if (fleet.machines === undefined) return fleet;
  const made = ({ closed: _, potential: __, ...machine }: HostMachine) => machine;
  return { ...fleet, machines: fleet.machines.map((one) => (one.potential ? made(one) : one)) };
}

/** Whether these shares are all there at once on every machine. */
export function allFitTogether(fleet: Fleet, shares: Iterable<Share>): boolean {
  if (fleet.machines === undefined) return fitsTogether(fleet, shares);
  const byHost = Map.groupBy(shares, hostOf);
  return fleet.machines.every((machine) => fitsTogether(machine, byHost.get(machine.id) ?? []));
}

/** Whether all shares on the same machine as this one are there at once with it. */
export function fitsBeside(fleet: Fleet, others: readonly Share[], share: Share): boolean {
  if (fleet.machines === undefined) return fitsTogether(fleet, [...others, share]);
  const id = hostOf(share);
  const machine = fleet.machines.find((one) => one.id === id);
  return machine !== undefined && fitsTogether(machine, [...others.filter((one) => hostOf(one) === id), share]);
}

/** Ids of the machines on which a worker of this need could start if there were room: undefined stands for one that is alone. */
export function openTo(fleet: Fleet, need: Need): readonly (string | undefined)[] {
  if (fleet.machines === undefined) return [undefined];
  const allowed = fleet.machines.filter((machine) => isAllowed(machine, need));
  return withRealGpus(allowed, need).flatMap((machine) => (barOf(machine, need) === undefined ? [machine.id] : []));
}

/** Whether workers that ask for these GPUs run on the CPU: no machine has a real one. */
export function allEmulateGpu(fleet: Fleet, gpuIds: string): boolean {
  if (fleet.machines === undefined) return emulatesGpu(fleet, gpuIds);
  const hasReal = fleet.machines.some((machine) => realGpus(machine, gpuIds));
  return !hasReal && fleet.machines.some((machine) => emulatesGpu(machine, gpuIds));
}

/** Why no worker of this CPU size will ever fit on any machine, however empty; none when one does, or none has joined yet. */
export function sizeProblemsAmong(fleet: Fleet, instanceIds: string): readonly string[] {
  if (fleet.machines === undefined) return sizeProblems(fleet, instanceIds);
  const problems = fleet.machines.map((machine) => sizeProblems(machine, instanceIds));
  const largest = fleet.machines.reduce((a, b, i) => (i === 0 || b.vcpus > a.vcpus ? b : a), fleet.machines[0]!);
  if (largest === undefined || problems.some((some) => some.length === 0)) return [];
  if (fleet.machines.length === 1) return sizeProblems(largest, instanceIds);
  return sizeProblems(largest, instanceIds, `the largest of ${fleet.machines.length} machines, ${largest.name},`);
}

interface Candidate {
  readonly machine: HostMachine;
  readonly share: Share;
  readonly rank: number;
  readonly isWarm: boolean;
  readonly load: number;
  readonly count: number;
}

function candidateOf(machine: HostMachine, used: Used, need: Need, share: Share): Candidate {
  return {
    machine,
    share,
    rank: Math.max(0, ...share.gpus.map((index) => gpuRank(need.gpuPreference, machine.gpus[index]!.product))),
    isWarm: need.of !== undefined && (machine.warm?.has(need.of.zygote) ?? false),
    load: loadOf(machine, used),
    count: (need.of && machine.counts?.get(need.of.endpointId)) ?? 0,
  };
}

function compare(a: Candidate, b: Candidate): number {
  return (
    a.rank - b.rank ||
    Number(b.isWarm) - Number(a.isWarm) ||
    a.load - b.load ||
    a.count - b.count ||
    Number(b.machine.id === "") - Number(a.machine.id === "") ||
    (a.machine.name < b.machine.name ? -1 : 1)
  );
}

/** The largest of the parts of its vCPUs, memory and GPUs that are taken. */
function loadOf(machine: HostMachine, { vcpus, memoryGb, gpus }: Used): number {
  const part = dominantShare(machine, { vcpus, memoryGb, gpus: [] });
  const taken = gpus.reduce((all, one) => all + one, 0);
  return machine.gpus.length === 0 ? part : Math.max(part, taken / machine.gpus.length);
}

function isAllowed({ labels, id, sharedVolumes }: HostMachine, need: Need): boolean {
  const wanted = hostLabels(need.label ?? "");
  if (wanted.length > 0 && !wanted.some((label) => labels.includes(label))) return false;
  return !need.volumes || id === "" || sharedVolumes;
}

function realGpus({ gpus }: Machine, gpuIds: string): boolean {
  return gpus.some((gpu) => !gpu.emulated && gpuMatches(gpuIds, gpu.product));
}

/** Where any of them has a real GPU that fits, none emulates it: an endpoint is emulated or it is not. */
function withRealGpus(machines: readonly HostMachine[], { gpuIds }: Need): readonly HostMachine[] {
  if (gpuIds === "") return machines;
  const real = machines.filter((machine) => realGpus(machine, gpuIds));
  return real.length > 0 ? real : machines;
}

function barOf({ closed, prepared, problems, kept }: HostMachine, { of }: Need): Lack | undefined {
  if (closed !== undefined) return { lack: closed, short: closed };
  if (of === undefined || prepared === undefined || prepared.has(of.image)) return undefined;
  const problem = problems?.get(of.image);
  if (problem === undefined && kept !== undefined) return { lack: kept, short: kept };
  const short = problem === undefined ? "its code is being prepared there" : `it cannot be prepared there (${problem})`;
  return { lack: short, short };
}

function lackOfAll(
  machines: readonly HostMachine[],
  need: Need,
  lacks: readonly { readonly name: string; readonly lack: Lack }[],
): Lack {
  if (machines.length === 0) {
    const short = "no machine takes workers";
    return { short, lack: "No machine takes workers.", help: "Let one join with svc worker join." };
  }
  if (lacks.length === 0) return lackOfPlaces(need);
  const byReason = Map.groupBy(lacks, ({ lack }) => lack.short ?? lack.lack);
  const short = [...byReason].map(([reason, some]) => `${named(some.map(({ name }) => name))}: ${reason}`).join("; ");
  const helps = new Set(lacks.map(({ lack }) => lack.help));
  const [help] = helps;
  const of = lacks.length === 1 ? "The one machine for it has no room" : `None of ${lacks.length} machines has room`;
  return { short, lack: `${of}: ${short}.`, ...(helps.size === 1 && help !== undefined ? { help } : {}) };
}

/** No machine is one on which it may run. */
function lackOfPlaces({ label, volumes }: Need): Lack {
  const wanted = hostLabels(label ?? "");
  const names = wanted.map((each) => JSON.stringify(each)).join(" or ");
  const wants = wanted.length === 0 ? "" : ` with the label ${names}`;
  const short = `no machine${wants}${volumes ? " that has its volumes" : ""}`;
  const help =
    wanted.length === 0
      ? "Let one join with --shared-volumes, or let the platform's own machine run workers."
      : `Let one join with it (svc worker join … --labels ${wanted[0]}), or change hosts= of the endpoint.`;
  return { short, lack: `There is ${short}.`, help };
}

function named(names: readonly string[]): string {
  const shown = names.slice(0, NAMES_MAX).join(", ");
  return names.length > NAMES_MAX ? `${shown} and ${names.length - NAMES_MAX} more` : shown;
}
