/** What the machine has, who holds what of it, and what waits. A key that is bound to a place sees what belongs to that. */
import { boundTo, reaches } from "../../domain/api-key.ts";
import type { Share } from "../../domain/capacity.ts";
import { isLiveName } from "../../domain/names.ts";
import { type Fleet, wholeOf } from "../../domain/placement.ts";
import type { Endpoint } from "../../store/store.ts";
import type { RequestContext } from "../context.ts";
import { placeOf } from "../visible-endpoints.ts";

export async function capacity(_args: unknown, context: RequestContext) {
  const { machine, store, principal, config, workers, loader } = context;
  const isBound = boundTo(principal) !== undefined;
  const [all, rows, found] = await Promise.all([machine.capacity(), store.workers.list(), loader.endpoints()]);
  const endpoints = new Map(found.filter((one) => reaches(principal, one)).map((one) => [one.id, one]));
  const endpointOf = new Map(rows.map((row) => [row.id, endpoints.get(row.endpointId)]));
  // A worker that just starts or has just gone has a share and no row: it counts, and nobody is named.
  const whole = wholeOf(all);
  const seen = [...all.shares].filter(([id]) => !isBound || endpointOf.get(id) !== undefined);
  const sum = (of: (share: Share) => number) => seen.reduce((total, [, share]) => total + of(share), 0);
  const used = isBound ? undefined : await machine.used();
  const { freeBytes, totalBytes } = await machine.disk();
  const named = async (one: Endpoint) => ({ endpointId: one.id, endpoint: one.name, ...(await placeOf(one, loader)) });
  return {
    vcpu: { total: whole.vcpus, promised: sum((share) => share.vcpus), used: used?.vcpus ?? null },
    memoryGb: { total: whole.memoryGb, promised: sum((share) => share.memoryGb), used: used?.memoryGb ?? null },
    gpus: gpusOf(all).map(({ product, index, host, hostName }) => {
      const [workerId] = seen.find(([, share]) => (share.host ?? "") === host && share.gpus.includes(index)) ?? [];
      const endpoint = workerId === undefined ? undefined : endpointOf.get(workerId);
      const measured = used?.gpus.find((gpu) => gpu.index === index && gpu.host === hostName);
      return {
        index,
        name: product,
        memoryGb: gpuMemoryGb(product),
        busy: measured?.busy ?? null,
        usedGb: measured?.memoryGb ?? null,
        endpoint: endpoint?.id ?? null,
        workerId: workerId ?? null,
      };
    }),
    holders: await Promise.all(
      holders(seen, endpointOf).map(async ({ endpoint, ...held }) => ({ ...(await named(endpoint)), ...held })),
    ),
    waiting: await Promise.all(
      (await workers.waitingForRoom()).flatMap(({ endpointId, missing, reason }) => {
        const endpoint = endpoints.get(endpointId);
        if (endpoint === undefined) return [];
        return named(endpoint).then((names) => ({ ...names, wants: missing, lacks: reason }));
      }),
    ),
    workersQuota: config.workerQuota,
    workersPromised: [...endpoints.values()].reduce(
      (promised, { name, workersMax }) => promised + (isLiveName(name) ? 0 : workersMax),
      0,
    ),
    diskFreeBytes: freeBytes,
    diskTotalBytes: totalBytes,
  };
}

/** Of each machine after another, as its driver counts them. */
function gpusOf({ machines, gpus }: Fleet) {
  const of = machines ?? [{ id: "", name: "", gpus }];
  return of.flatMap(({ id, name, gpus: some }) => {
    return some.map(({ product }, index) => ({ product, index, host: id, hostName: id === "" ? undefined : name }));
  });
}

/** As the name says it; 0 when it does not. */
export function gpuMemoryGb(product: string): number {
  return Number(/(\d+) ?GB/.exec(product)?.[1] ?? 0);
}

function holders(seen: readonly [string, Share][], endpointOf: ReadonlyMap<string, Endpoint | undefined>) {
  const byEndpoint = Map.groupBy(seen, ([workerId]) => endpointOf.get(workerId));
  const all = [...byEndpoint].flatMap(([endpoint, held]) => {
    if (endpoint === undefined) return [];
    const sum = (of: (share: Share) => number) => held.reduce((total, [, share]) => total + of(share), 0);
    return {
      endpoint,
      workers: held.length,
      vcpu: sum((share) => share.vcpus),
      memoryGb: sum((share) => share.memoryGb),
      gpus: new Set(held.flatMap(([, { gpus, host }]) => gpus.map((index) => `${host ?? ""}:${index}`))).size,
    };
  });
  return all.sort((a, b) => b.vcpu - a.vcpu || b.memoryGb - a.memoryGb);
}
