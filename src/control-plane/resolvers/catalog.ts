/** What could be asked for, and whether this platform's machine has it. Prices are 0: one's own machines have none. */

import { type CatalogueGpu, catalogueGpus, GPU_GROUPS } from "../../domain/gpu.ts";
import { GPU_COUNT_MAX } from "../../domain/limits.ts";
import { CPU_FAMILIES } from "../../domain/machine-type.ts";
import { wholeOf } from "../../domain/placement.ts";
import type { RequestContext } from "../context.ts";

const HIGH = "High";

/** Whether a worker could have it here. */
export async function isHere({ product, group }: CatalogueGpu, context: RequestContext): Promise<boolean> {
  const { gpus } = wholeOf(await context.machine.capacity());
  return gpus.some((gpu) => gpu.product === product) || context.emulatesGpu(group);
}

interface GpuTypeFilter {
  readonly id?: string | null;
  readonly ids?: readonly string[] | null;
}

export function gpuTypes({ input }: { input?: GpuTypeFilter | null }, _context: RequestContext): CatalogueGpu[] {
  const wanted = input?.id ? [input.id] : input?.ids;
  return catalogueGpus().filter(({ product }) => !wanted || wanted.includes(product));
}

const NO_PRICES = Object.fromEntries(
  [
    "securePrice",
    "communityPrice",
    "oneMonthPrice",
    "threeMonthPrice",
    "sixMonthPrice",
    "oneWeekPrice",
    "communitySpotPrice",
    "secureSpotPrice",
  ].map((name) => [name, () => 0]),
);

export const gpuTypeFields = {
  id: ({ product }: CatalogueGpu) => product,
  displayName: displayName,
  memoryInGb: ({ memoryGb }: CatalogueGpu) => memoryGb,
  manufacturer: () => "NVIDIA",
  maxGpuCount: () => GPU_COUNT_MAX,
  cudaCores: () => 0,
  secureCloud: () => true,
  communityCloud: () => false,
  ...NO_PRICES,
  lowestPrice: async (gpu: CatalogueGpu, _args: unknown, context: RequestContext) => ({
    minimumBidPrice: 0,
    uninterruptablePrice: 0,
    stockStatus: (await isHere(gpu, context)) ? HIGH : null,
  }),
};

export function displayName({ product }: CatalogueGpu): string {
  return product.replace(/^NVIDIA (GeForce )?/, "");
}

interface CpuFlavor {
  readonly id: string;
  readonly vcpus: readonly number[];
  readonly gbPerVcpu: number;
}

export function cpuFlavors({ input }: { input?: { readonly id?: string | null } | null }): CpuFlavor[] {
  const all = Object.entries(CPU_FAMILIES).map(([id, family]) => ({ id, ...family }));
  return all.filter(({ id }) => !input?.id || input.id === id);
}

export const cpuFlavorFields = {
  groupId: ({ id }: CpuFlavor) => id,
  groupName: ({ id }: CpuFlavor) => id,
  displayName: ({ id }: CpuFlavor) => id,
  minVcpu: ({ vcpus }: CpuFlavor) => Math.min(...vcpus),
  maxVcpu: ({ vcpus }: CpuFlavor) => Math.max(...vcpus),
  ramMultiplier: ({ gbPerVcpu }: CpuFlavor) => gbPerVcpu,
  specifics: () => ({ stockStatus: HIGH, securePrice: 0, slsPrice: 0 }),
};

export function serverlessGpuPools() {
  return Object.entries(GPU_GROUPS).map(([id, types]) => ({ id, gpuTypeIds: types.map(({ product }) => product) }));
}

/** This platform is the only one. */
export async function dataCenters(_args: unknown, context: RequestContext) {
  const describe = async (gpu: CatalogueGpu) => {
    const available = await isHere(gpu, context);
    return {
      gpuTypeId: gpu.product,
      displayName: displayName(gpu),
      available,
      stockStatus: available ? HIGH : null,
    };
  };
  const gpuAvailability = await Promise.all(catalogueGpus().map(describe));
  return [{ id: "local", name: "This platform", location: "", gpuAvailability }];
}
