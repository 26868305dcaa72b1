/**
 * GPU groups and their members. A type's value is the driver's product string, so a line of `nvidia-smi`
 * maps to it. `gpuIds` is the sorted comma list of groups; `-<product>` leaves a member of a group out.
 */
import { GPU_COUNT_MAX, GPU_FRACTION_MIN } from "./limits.ts";

interface GpuType {
  /** Member name of the Python enum `GpuType`. */
  readonly member: string;
  /** Product string as `nvidia-smi --query-gpu=name` prints it. */
  readonly product: string;
}

export const GPU_ANY = "ANY";

export const GPU_GROUPS: Record<string, readonly GpuType[]> = {
  AMPERE_16: [
    { member: "NVIDIA_RTX_A4000", product: "NVIDIA RTX A4000" },
    { member: "NVIDIA_RTX_A4500", product: "NVIDIA RTX A4500" },
    { member: "NVIDIA_RTX_4000_ADA_GENERATION", product: "NVIDIA RTX 4000 Ada Generation" },
    { member: "NVIDIA_RTX_2000_ADA_GENERATION", product: "NVIDIA RTX 2000 Ada Generation" },
  ],
  AMPERE_24: [
    { member: "NVIDIA_RTX_A5000", product: "NVIDIA RTX A5000" },
    { member: "NVIDIA_L4", product: "NVIDIA L4" },
    { member: "NVIDIA_GEFORCE_RTX_3090", product: "NVIDIA GeForce RTX 3090" },
  ],
  AMPERE_48: [
    { member: "NVIDIA_A40", product: "NVIDIA A40" },
    { member: "NVIDIA_RTX_A6000", product: "NVIDIA RTX A6000" },
  ],
  AMPERE_80: [
    { member: "NVIDIA_A100_80GB_PCIe", product: "NVIDIA A100 80GB PCIe" },
    { member: "NVIDIA_A100_SXM4_80GB", product: "NVIDIA A100-SXM4-80GB" },
  ],
  ADA_24: [{ member: "NVIDIA_GEFORCE_RTX_4090", product: "NVIDIA GeForce RTX 4090" }],
  ADA_32_PRO: [{ member: "NVIDIA_GEFORCE_RTX_5090", product: "NVIDIA GeForce RTX 5090" }],
  ADA_48_PRO: [
    { member: "NVIDIA_RTX_6000_ADA_GENERATION", product: "NVIDIA RTX 6000 Ada Generation" },
    { member: "NVIDIA_L40", product: "NVIDIA L40" },
    { member: "NVIDIA_L40S", product: "NVIDIA L40S" },
  ],
  ADA_80_PRO: [
    { member: "NVIDIA_H100_80GB_HBM3", product: "NVIDIA H100 80GB HBM3" },
    { member: "NVIDIA_H100_PCIe", product: "NVIDIA H100 PCIe" },
  ],
  HOPPER_141: [{ member: "NVIDIA_H200", product: "NVIDIA H200" }],
  BLACKWELL_96: [
    {
      member: "NVIDIA_RTX_PRO_6000_BLACKWELL_SERVER_EDITION",
      product: "NVIDIA RTX PRO 6000 Blackwell Server Edition",
    },
    {
      member: "NVIDIA_RTX_PRO_6000_BLACKWELL_WORKSTATION_EDITION",
      product: "NVIDIA RTX PRO 6000 Blackwell Workstation Edition",
    },
    {
      member: "NVIDIA_RTX_PRO_6000_BLACKWELL_MAX_Q_WORKSTATION_EDITION",
      product: "NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition",
    },
  ],
  BLACKWELL_180: [{ member: "NVIDIA_B200", product: "NVIDIA B200" }],
};

const groupOfProduct = new Map<string, string>();
const productOfMember = new Map<string, string>();
for (const [group, types] of Object.entries(GPU_GROUPS)) {
  for (const type of types) {
    groupOfProduct.set(type.product, group);
    productOfMember.set(type.member, type.product);
  }
}

export interface CatalogueGpu {
  readonly product: string;
  readonly group: string;
  readonly memoryGb: number;
}

/** Where a group's name does not say it. */
const MEMORY_GB: Readonly<Record<string, number>> = {
  "NVIDIA RTX A4500": 20,
  "NVIDIA RTX 4000 Ada Generation": 20,
};

export function catalogueGpus(): CatalogueGpu[] {
  return Object.entries(GPU_GROUPS).flatMap(([group, types]) =>
    types.map(({ product }) => ({
      product,
      group,
      memoryGb: MEMORY_GB[product] ?? Number(/_(\d+)/.exec(group)![1]),
    })),
  );
}

/** `gpuIds` that allow these products and no other; "" when none of them is in the catalogue. */
export function gpuIdsOfProducts(products: readonly string[]): string {
  const members = Object.values(GPU_GROUPS).flatMap((types) =>
    types.filter(({ product }) => products.includes(product)),
  );
  return gpuIds(members.map(({ member }) => member));
}

/** The catalogue's products that `gpuIds` allows. */
export function productsOf(ids: string): string[] {
  return catalogueGpus().flatMap(({ product }) => (gpuMatches(ids, product) ? [product] : []));
}

export function gpuGroupNames(): string[] {
  return [GPU_ANY, ...Object.keys(GPU_GROUPS)];
}

export function gpuTypeMembers(): string[] {
  return [...productOfMember.keys()];
}

/**
 * `gpuIds` of a selection. Each selector is a group name ("ADA_24") or a member of GpuType ("NVIDIA_L4").
 * `[NVIDIA_L4, ADA_24]` → `ADA_24,AMPERE_24,-NVIDIA GeForce RTX 3090,-NVIDIA RTX A5000`.
 * Throws RangeError with the selector as message when it is unknown.
 */
export function gpuIds(selectors: readonly string[]): string {
  const wholeGroups = new Set<string>();
  const products = new Set<string>();
  for (const selector of selectors) {
    if (selector === GPU_ANY || selector in GPU_GROUPS) wholeGroups.add(selector);
    else if (productOfMember.has(selector)) products.add(productOfMember.get(selector)!);
    else throw new RangeError(selector);
  }
  const groups = new Set(wholeGroups);
  const left: string[] = [];
  for (const product of products) groups.add(groupOfProduct.get(product)!);
  for (const group of groups) {
    if (wholeGroups.has(group)) continue;
    for (const type of GPU_GROUPS[group]!) if (!products.has(type.product)) left.push(`-${type.product}`);
  }
  return [...[...groups].sort(), ...left.sort()].join(",");
}

/** Whether a GPU with this product string is allowed by `gpuIds`. */
export function gpuMatches(ids: string, product: string): boolean {
  const parts = ids.split(",").map((part) => part.trim());
  if (parts.includes(`-${product}`)) return false;
  const group = groupOfProduct.get(product);
  return parts.includes(GPU_ANY) || (group !== undefined && parts.includes(group));
}

/** How much a product is preferred: the place in `preference` (groups and members of GpuType) that fits it first, 0 best. */
export function gpuRank(preference: readonly string[], product: string): number {
  const group = groupOfProduct.get(product);
  const rank = preference.findIndex(
    (selector) => selector === GPU_ANY || selector === group || productOfMember.get(selector) === product,
  );
  return rank === -1 ? preference.length : rank;
}

/** The product string of a member of GpuType or of a product string; undefined outside the catalogue. */
export function gpuProduct(text: string): string | undefined {
  return groupOfProduct.has(text) ? text : productOfMember.get(text);
}

/** What is wrong with a number of GPUs for one worker: whole, or a fraction of one that workers share; else undefined. */
export function gpuCountProblem(count: number): string | undefined {
  const isFraction = count >= GPU_FRACTION_MIN && count < 1;
  if (isFraction || (Number.isInteger(count) && count >= 1 && count <= GPU_COUNT_MAX)) return undefined;
  return `a whole number from 1 to ${GPU_COUNT_MAX}, or a fraction of one GPU from ${GPU_FRACTION_MIN} to below 1`;
}

/** The first part of `ids` that names no group and no product, for validation; undefined when all are known. */
export function unknownGpuId(ids: string): string | undefined {
  return ids
    .split(",")
    .map((part) => part.trim())
    .find((part) =>
      part.startsWith("-") ? !groupOfProduct.has(part.slice(1)) : part !== GPU_ANY && !(part in GPU_GROUPS),
    );
}
