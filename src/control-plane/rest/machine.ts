/** GPUs and CPU sizes in the words of REST clients. */
import { SvcError } from "../../domain/errors.ts";
import { GPU_ANY, gpuIdsOfProducts } from "../../domain/gpu.ts";
import { CPU_FAMILIES, machineType, sizeId } from "../../domain/machine-type.ts";

/** The machine type of so many vCPUs of a family; a family that is not here by its memory. Throws INVALID_SETTING. */
export function cpuSize(family: string, vcpus: number): string {
  const gb = vcpus * (CPU_FAMILIES[family]?.gbPerVcpu ?? MEMORY_BY_LETTER[family.at(-1) ?? ""] ?? 2);
  const id = `${family}-${vcpus}-${gb}`;
  const size = machineType(id) === undefined ? sizeId(vcpus, gb) : id;
  if (size !== undefined) return size;
  throw new SvcError("INVALID_SETTING", `No worker can have ${vcpus} vCPU of ${family.slice(0, 40)}.`);
}

const MEMORY_BY_LETTER: Readonly<Record<string, number>> = { c: 2, g: 4, m: 8 };

/** vCPUs and family of a CPU endpoint; a size of one's own has no family. */
export function cpuOf(instanceIds: string) {
  const { vcpus = 0, memoryGb = 0 } = machineType(instanceIds) ?? {};
  const [family = ""] = instanceIds.split("-");
  return { id: family in CPU_FAMILIES ? family : instanceIds, vcpuCount: vcpus, memory: memoryGb };
}

/** Products outside the catalogue are passed over. Throws INVALID_SETTING when none is left. */
export function gpuIdsOf(products: readonly string[]): string {
  const ids = gpuIdsOfProducts(products);
  if (ids !== "") return ids;
  const shown = products.slice(0, 5).map((product) => JSON.stringify(product.slice(0, 80)));
  throw new SvcError("INVALID_SETTING", `None of these GPUs is in the catalogue: ${shown.join(", ")}.`, {
    help: "GET /v2/catalog/gpus lists those that are.",
  });
}

/** Groups, without some of their products. */
export function gpuIdsOfPools(
  pools: readonly string[] | null | undefined,
  without: readonly string[] | null | undefined,
) {
  const groups = pools && pools.length > 0 ? pools : [GPU_ANY];
  return [...groups, ...(without ?? []).map((product) => `-${product}`)].join(",");
}

export function poolsOf(gpuIds: string) {
  const parts = gpuIds.split(",").map((part) => part.trim());
  return {
    pools: parts.filter((part) => !part.startsWith("-")),
    excludedTypes: parts.filter((part) => part.startsWith("-")).map((part) => part.slice(1)),
  };
}
