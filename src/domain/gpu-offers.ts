/**
 * The GPUs of pools: what a deploy asks for that no Pod of theirs can have, and Pods that turn out to have others than their pool says. Pure.
 *
 *   a Pod joins with other GPUs ──▶ its pool counts with those ──a Pod with its own, or none is left──▶ with its own again
 */
import { type Machine, needOf, needOn, placeBeside, usedBy } from "./capacity.ts";
import type { DriverWishes } from "./driver-offers.ts";
import { GPU_ANY, gpuMatches, productsOf } from "./gpu.ts";
import { hostLabels } from "./host.ts";
import type { HostMachine } from "./placement.ts";
import type { Pool, PoolHost } from "./pools.ts";

type Gpus = Machine["gpus"];
const PRODUCTS_MAX = 5;

/** Why neither a machine that joined nor a Pod of any pool will have them, as a sentence with what to do; none when one does. */
export function gpuProblems(
  machines: readonly HostMachine[],
  { gpuIds = "", gpuCount = 1, hosts = "" }: Pick<DriverWishes, "gpuIds" | "gpuCount" | "hosts">,
): string[] {
  const wanted = hostLabels(hosts);
  const allowed = machines.filter(
    ({ labels }) => wanted.length === 0 || wanted.some((label) => labels.includes(label)),
  );
  // Without any that is another matter, which is told when it is prepared.
  if (gpuIds === "" || allowed.length === 0) return [];
  const lacks = new Map<HostMachine, string>();
  for (const machine of allowed) {
    const need = needOn(machine, needOf(machine, { instanceIds: "", gpuIds, gpuCount }));
    const placed = placeBeside(machine, usedBy(machine, []), need);
    if (!("lack" in placed)) return [];
    lacks.set(machine, placed.short ?? placed.lack);
  }
  const pools = allowed.filter(({ potential }) => potential);
  const names = new Set(pools.flatMap(({ labels }) => labels));
  // Pods are what their pools say.
  const others = allowed.filter(({ potential, labels, gpus }) => {
    return !potential && gpus.length > 0 && !labels.some((label) => names.has(label));
  });
  const has = (machine: HostMachine) => {
    const fitting = machine.gpus.filter(({ product }) => gpuMatches(gpuIds, product)).length;
    const beside = fitting >= gpuCount ? ` (${lacks.get(machine)})` : "";
    return `${machine.name} has ${machine.amiss ?? gpusInWords(machine.gpus)}${beside}`;
  };
  return [
    `gpu= asks for ${gpuCount === 1 ? "a GPU" : `${gpuCount} GPUs`} of ${productWords(gpuIds)}, which nothing here can give: ` +
      `${[...pools, ...others].map(has).join("; ")}. Ask for what is there, add a pool that has it (hosts.pools of the chart, ` +
      "docs/reference/pools.md), or let a machine join that has it (svc worker join).",
  ];
}

/** Pools as their Pods that have joined show them. */
export function poolsAsFound(pools: readonly Pool[], hosts: readonly PoolHost[]): readonly Pool[] {
  return pools.map((pool) => {
    const others = othersOf(pool, hosts);
    const [first] = others[0]?.machine?.gpus ?? [];
    if (others.length === 0) return pool;
    const gpus = others[0]!.machine!.gpus.filter(({ product }) => product === first?.product).length;
    return { ...pool, gpus, gpuProduct: first?.product ?? "" };
  });
}

/** What is wrong with its Pods' GPUs, as "none in its Pod svc-gpu-1, where 1 × NVIDIA L4 should be"; undefined: nothing. */
export function gpusAmiss(pool: Pool, hosts: readonly PoolHost[]): string | undefined {
  const [one] = othersOf(pool, hosts);
  if (one === undefined) return undefined;
  const said = `${pool.gpus} × ${pool.gpuProduct}`;
  return `${gpusInWords(one.machine?.gpus ?? [])} in its Pod ${one.pod}, where the pool says ${said}`;
}

/** What a host of the pool has, where that is less than the pool's GPUs; undefined: it is as the pool says. */
export function otherGpus(pool: Pool, { gpus, emulatesGpu }: Machine): Gpus | undefined {
  const real = gpus.filter(({ emulated }) => !emulated);
  const own = real.filter(({ product }) => product === pool.gpuProduct);
  return emulatesGpu || own.length >= pool.gpus ? undefined : real;
}

/** Those that joined with other GPUs, where none has the pool's own. */
function othersOf({ name }: Pool, hosts: readonly PoolHost[]): readonly PoolHost[] {
  const here = hosts.filter(({ pool, state, isOwn }) => pool === name && state === "here" && !isOwn);
  return here.every(({ hasOtherGpus }) => hasOtherGpus) ? here : [];
}

function gpusInWords(gpus: Gpus): string {
  const byProduct = Map.groupBy(gpus, ({ product }) => product);
  const all = [...byProduct].map(([product, { length }]) => `${length} × ${product}`);
  return all.length === 0 ? "no GPU" : all.join(" and ");
}

function productWords(gpuIds: string): string {
  if (gpuIds.split(",").includes(GPU_ANY)) return "any kind";
  const products = productsOf(gpuIds);
  const more = products.length - PRODUCTS_MAX;
  return products.slice(0, PRODUCTS_MAX).join(" or ") + (more > 0 ? ` or ${more} more` : "");
}
