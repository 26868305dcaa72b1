/**
 * What a machine has, what one worker needs of it, and whether it fits beside the others. Pure.
 * A GPU is one worker's alone, unless workers ask for a fraction: then they share it up to the whole.
 */
import { gpuMatches, gpuRank } from "./gpu.ts";
import { CPU_STEP, GPU_HOST_RESERVE_PART } from "./limits.ts";
import { GPU_MACHINE, MACHINE_TYPE_DEFAULT, machineType } from "./machine-type.ts";

export interface Gpu {
  /** Product string as the driver prints it. */
  readonly product: string;
  /** Declared by the configuration: what runs "on" it runs on the CPU. */
  readonly emulated: boolean;
}

export interface Host {
  readonly vcpus: number;
  readonly memoryGb: number;
}

/** Its vCPUs and memory are what is promised, overcommit included. */
export interface Machine extends Host {
  /** Without overcommit. */
  readonly hardware: Host;
  /** In the driver's order, emulated ones last. */
  readonly gpus: readonly Gpu[];
  /** A GPU that the machine lacks is emulated by the CPU, however many are asked for. */
  readonly emulatesGpu: boolean;
}

/** What one worker asks for. */
export interface Need extends Host {
  /** As in gpu.ts; "" for none. */
  readonly gpuIds: string;
  /** Groups and members of GpuType, best first; [] when all are equal. */
  readonly gpuPreference: readonly string[];
  /** A whole number of GPUs, or a fraction of one below 1. */
  readonly gpuCount: number;
  /** Its vCPUs and memory are the GPUs' part of the machine: another machine gives another part. */
  readonly ofGpus?: boolean;
  /** Only machines with one of these labels, a comma list; absent: any. */
  readonly label?: string;
  /** It mounts volumes: only machines that have them. */
  readonly volumes?: boolean;
  /** Whose worker it is: machines that know its code are preferred (placement.ts). */
  readonly of?: { readonly endpointId: string; readonly image: string; readonly zygote: string };
}

/** What one worker has. The launcher keeps it for a platform that comes back after a crash. */
export interface Share extends Host {
  /** Indexes of its GPUs. */
  readonly gpus: readonly number[];
  /** The part of its GPU that is its own; absent: all of each. */
  readonly gpuFraction?: number;
  /** Id of the machine that it is on; absent: the platform's own. */
  readonly host?: string;
}

/** Why a worker does not fit. */
export interface Lack {
  readonly lack: string;
  readonly help?: string;
  /** The same where the machine's name stands before it. */
  readonly short?: string;
}

const LENT_ONCE = "Workers of other endpoints wait for it, but a GPU cannot be lent twice.";

/** Ten times 0.1 is not exactly 1. */
const EPSILON = 1e-6;

export function needOf(
  machine: Machine,
  settings: { readonly instanceIds: string; readonly gpuIds: string; readonly gpuCount: number },
  gpuPreference: readonly string[] = [],
): Need {
  const { instanceIds, gpuIds, gpuCount } = settings;
  const size = machineType(instanceIds);
  const { vcpus, memoryGb } = size ?? hostOfGpus(machine, gpuIds, gpuCount);
  return { vcpus, memoryGb, gpuIds, gpuPreference, gpuCount, ...(size === undefined ? { ofGpus: true } : {}) };
}

/** The same worker's need where it would be on this machine. */
export function needOn(machine: Machine, need: Need): Need {
  return need.ofGpus ? { ...need, ...hostOfGpus(machine, need.gpuIds, need.gpuCount) } : need;
}

/**
 * A GPU worker's part of the host is that of its GPUs, but for a reserve with room for one CPU worker at least. Where
 * each GPU's part reaches GPU_MACHINE, workers on all GPUs at once fit.
 */
function hostOfGpus(machine: Machine, gpuIds: string, gpuCount: number): Host {
  const real = machine.gpus.filter((gpu) => !gpu.emulated);
  if (!real.some(({ product }) => gpuMatches(gpuIds, product))) return GPU_MACHINE;
  const part = (resource: keyof Host) => {
    const whole = Math.min(machine.hardware[resource], machine[resource]);
    const reserve = Math.max(whole * GPU_HOST_RESERVE_PART, machineType(MACHINE_TYPE_DEFAULT)![resource]);
    const own = ((whole - reserve) * Math.min(gpuCount, real.length)) / real.length;
    return Math.max(GPU_MACHINE[resource], Math.floor(own / CPU_STEP) * CPU_STEP);
  };
  return { vcpus: part("vcpus"), memoryGb: part("memoryGb") };
}

/**
 * The share of a further worker beside `taken`, or what is missing for it. A worker `beyond` capacity takes vCPUs and
 * memory that are not there, because others sit and wait for it; never a GPU.
 */
export function place(machine: Machine, taken: Iterable<Share>, need: Need, beyond = false): Share | Lack {
  return placeBeside(machine, usedBy(machine, taken), need, beyond);
}

/** The same beside what is known to be used. */
export function placeBeside(machine: Machine, used: Used, need: Need, beyond = false): Share | Lack {
  const { vcpus, memoryGb } = need;
  const gpus = placeGpus(machine, used.gpus, need);
  if ("lack" in gpus) return beyond ? { help: LENT_ONCE, ...gpus } : gpus;
  if (!beyond && used.vcpus + vcpus > machine.vcpus)
    return full(`${vcpus} vCPU`, machine.vcpus - used.vcpus, machine.vcpus);
  if (!beyond && used.memoryGb + memoryGb > machine.memoryGb) {
    return full(`${memoryGb} GB memory`, machine.memoryGb - used.memoryGb, machine.memoryGb);
  }
  return { vcpus, memoryGb, gpus, ...(need.gpuCount < 1 && gpus.length > 0 ? { gpuFraction: need.gpuCount } : {}) };
}

/** Why the GPUs of a share cannot be its own beside `taken`; undefined when they can. */
export function gpuClash(machine: Machine, taken: Iterable<Share>, share: Share): Lack | undefined {
  const used = usedBy(machine, taken);
  for (const index of share.gpus) {
    if (!(index in used.gpus))
      return { lack: `This machine has ${machine.gpus.length} GPUs, and none with the number ${index}.` };
    if (used.gpus[index]! + (share.gpuFraction ?? 1) > 1 + EPSILON) {
      return { lack: `GPU ${index} of this machine is taken: a GPU cannot be lent twice.` };
    }
  }
  return undefined;
}

/** Why no worker of this CPU size will ever fit on the machine, however empty; none when one does. */
export function sizeProblems(machine: Machine, instanceIds: string, name = "this platform's machine"): string[] {
  const size = machineType(instanceIds);
  if (size === undefined || (size.vcpus <= machine.vcpus && size.memoryGb <= machine.memoryGb)) return [];
  return [
    `cpu=${JSON.stringify(instanceIds)} is ${size.vcpus} vCPU and ${size.memoryGb} GB, and ${name} ` +
      `promises ${round(machine.vcpus)} vCPU and ${round(machine.memoryGb)} GB in all. Ask for less, or let the machine ` +
      "promise more (SVC_CPU_OVERCOMMIT, SVC_MEMORY_OVERCOMMIT).",
  ];
}

/** Whether these shares are all there at once: no resource is promised twice. */
export function fitsTogether(machine: Machine, shares: Iterable<Share>): boolean {
  const used = usedBy(machine, shares);
  if (used.vcpus > machine.vcpus || used.memoryGb > machine.memoryGb) return false;
  return used.gpus.every((part) => part <= 1 + EPSILON);
}

/** The sum of shares. */
export interface Used extends Host {
  /** By index: the parts of each GPU that are taken. */
  readonly gpus: readonly number[];
}

export function usedBy(machine: Machine, shares: Iterable<Share>): Used {
  const used = { vcpus: 0, memoryGb: 0, gpus: machine.gpus.map(() => 0) };
  for (const share of shares) {
    used.vcpus += share.vcpus;
    used.memoryGb += share.memoryGb;
    for (const index of share.gpus) if (index in used.gpus) used.gpus[index]! += share.gpuFraction ?? 1;
  }
  return used;
}

/** The largest of its parts of the machine's vCPUs, memory and GPUs, 0..1: what endpoints are compared by. */
export function dominantShare(machine: Machine, share: Share): number {
  const gpus = share.gpus.length * (share.gpuFraction ?? 1);
  return Math.max(
    share.vcpus / machine.vcpus,
    share.memoryGb / machine.memoryGb,
    gpus > 0 ? gpus / machine.gpus.length : 0,
  );
}

/** Whether workers that ask for these GPUs run on the CPU instead, because the configuration says so. */
export function emulatesGpu(machine: Machine, gpuIds: string): boolean {
  if (gpuIds === "") return false;
  const fitting = machine.gpus.filter(({ product }) => gpuMatches(gpuIds, product));
  return fitting.length > 0 ? fitting.every((gpu) => gpu.emulated) : machine.emulatesGpu;
}

/** Where a real GPU fits, no emulated one is used: an endpoint is emulated or it is not. */
function placeGpus(machine: Machine, used: readonly number[], need: Need): number[] | Lack {
  if (need.gpuIds === "") return [];
  const matching = machine.gpus.flatMap((gpu, index) => (gpuMatches(need.gpuIds, gpu.product) ? [index] : []));
  const real = matching.filter((index) => !machine.gpus[index]!.emulated);
  const fitting = real.length > 0 ? real : matching;
  if (fitting.length === 0) {
    if (machine.emulatesGpu) return [];
    return {
      lack: `No GPU available: this machine has none of ${need.gpuIds}.`,
      short: `it has no GPU of ${need.gpuIds}`,
      help: "Until there is one, jobs stay IN_QUEUE and requests time out. Add a machine with such a GPU, or start the platform with --emulate-gpu to try the endpoint on the CPU.",
    };
  }
  const isFraction = need.gpuCount < 1;
  const free = fitting.filter((index) =>
    isFraction ? used[index]! + need.gpuCount <= 1 + EPSILON : used[index]! === 0,
  );
  const rank = (index: number) => gpuRank(need.gpuPreference, machine.gpus[index]!.product);
  if (isFraction) {
    // The fullest one that has room: those that are all free stay so for workers that need a whole one.
    const [best] = free.sort((a, b) => rank(a) - rank(b) || used[b]! - used[a]! || a - b);
    return best === undefined ? full(`${need.gpuCount} of a GPU`, 0, fitting.length) : [best];
  }
  if (free.length < need.gpuCount) return full(`${need.gpuCount} GPU`, free.length, fitting.length);
  const alike = Map.groupBy(free, rank);
  const ranks = [...alike.keys()].sort((a, b) => a - b);
  const together = ranks.map((one) => alike.get(one)!).find((indexes) => indexes.length >= need.gpuCount);
  return (together ?? ranks.flatMap((one) => alike.get(one)!)).slice(0, need.gpuCount);
}

function full(needed: string, free: number, all: number): Lack {
  const short = `a worker needs ${needed}, ${round(Math.max(0, free))} of ${round(all)} is free`;
  return { lack: `The machine is full: ${short}.`, short };
}

function round(amount: number): number {
  return Math.floor(amount * 100) / 100;
}
