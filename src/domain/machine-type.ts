/**
 * CPU machine types: `<family>-<vCPU>-<GB>`, or any size as `<vCPU>-<GB>`. They are real limits for a worker where the
 * kernel offers them. cpu3g has 4 GB for each vCPU, cpu3c and cpu5c have 2.
 */
import { CPU_MAX_GB, CPU_MAX_VCPUS, CPU_MIN_GB, CPU_MIN_VCPUS, CPU_STEP } from "./limits.ts";

export interface MachineType {
  readonly id: string;
  readonly vcpus: number;
  readonly memoryGb: number;
}

export const CPU_FAMILIES: Record<string, { vcpus: readonly number[]; gbPerVcpu: number }> = {
  cpu3g: { vcpus: [1, 2, 4, 8], gbPerVcpu: 4 },
  cpu3c: { vcpus: [1, 2, 4, 8], gbPerVcpu: 2 },
  cpu5c: { vcpus: [1, 2, 4, 8], gbPerVcpu: 2 },
};

export const MACHINE_TYPES: readonly MachineType[] = Object.entries(CPU_FAMILIES).flatMap(
  ([family, { vcpus, gbPerVcpu }]) =>
    vcpus.map((n) => ({ id: `${family}-${n}-${n * gbPerVcpu}`, vcpus: n, memoryGb: n * gbPerVcpu })),
);

/** What an endpoint without `gpu` and `cpu` gets: it fits any machine. */
export const MACHINE_TYPE_DEFAULT = "cpu3c-1-2";

/** The least that a GPU worker has of the host, and all of it where its GPU is emulated. */
export const GPU_MACHINE: Omit<MachineType, "id"> = { vcpus: 1, memoryGb: 4 };

const byId = new Map(MACHINE_TYPES.map((type) => [type.id, type]));

export function machineType(id: string): MachineType | undefined {
  return byId.get(id) ?? ownSize(id);
}

/** How a size of one's own is written. */
export const SIZE_EXAMPLES = 'cpu="16-64" or cpu=(16, 64) for 16 vCPU and 64 GB';

/** The id of a size of one's own; undefined when no worker may have it. */
export function sizeId(vcpus: number, memoryGb: number): string | undefined {
  const fits = (value: number, min: number, max: number) => value >= min && value <= max && value % CPU_STEP === 0;
  const allowed = fits(vcpus, CPU_MIN_VCPUS, CPU_MAX_VCPUS) && fits(memoryGb, CPU_MIN_GB, CPU_MAX_GB);
  return allowed ? `${vcpus}-${memoryGb}` : undefined;
}

/** What `sizeId` allows, as a sentence. */
export const SIZES = `A worker has ${CPU_MIN_VCPUS} to ${CPU_MAX_VCPUS} vCPU and ${CPU_MIN_GB} to ${CPU_MAX_GB} GB, in steps of ${CPU_STEP}.`;

/** Numbers of `<vCPU>-<GB>`, whether a worker may have them or not; undefined when the text is of another form. */
export function readSize(text: string): readonly [vcpus: number, memoryGb: number] | undefined {
  const [, vcpus, memoryGb] = /^(\d{1,9}(?:\.\d{1,9})?)-(\d{1,9}(?:\.\d{1,9})?)$/.exec(text) ?? [];
  return vcpus === undefined ? undefined : [Number(vcpus), Number(memoryGb)];
}

function ownSize(id: string): MachineType | undefined {
  const [vcpus, memoryGb] = readSize(id) ?? [0, 0];
  return sizeId(vcpus, memoryGb) === id ? { id, vcpus, memoryGb } : undefined;
}
