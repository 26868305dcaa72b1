/**
 * CPU machine types: `<family>-<vCPU>-<GB>`. They are real limits for a worker where the kernel offers them.
 * cpu3g has 4 GB for each vCPU, cpu3c and cpu5c have 2.
 */

export interface MachineType {
  readonly id: string;
  readonly vcpus: number;
  readonly memoryGb: number;
}

const FAMILIES: Record<string, { vcpus: readonly number[]; gbPerVcpu: number }> = {
  cpu3g: { vcpus: [1, 2, 4, 8], gbPerVcpu: 4 },
  cpu3c: { vcpus: [1, 2, 4, 8], gbPerVcpu: 2 },
  cpu5c: { vcpus: [1, 2, 4, 8], gbPerVcpu: 2 },
};

export const MACHINE_TYPES: readonly MachineType[] = Object.entries(FAMILIES).flatMap(
  ([family, { vcpus, gbPerVcpu }]) =>
    vcpus.map((n) => ({ id: `${family}-${n}-${n * gbPerVcpu}`, vcpus: n, memoryGb: n * gbPerVcpu })),
);

/** What an endpoint without `gpu` and `cpu` gets: it fits any machine. */
export const MACHINE_TYPE_DEFAULT = "cpu3c-1-2";

/** The least that a GPU worker has of the host, and all of it where its GPU is emulated. */
export const GPU_MACHINE: Omit<MachineType, "id"> = { vcpus: 1, memoryGb: 4 };

const byId = new Map(MACHINE_TYPES.map((type) => [type.id, type]));

export function machineType(id: string): MachineType | undefined {
  return byId.get(id);
}
