import type { BuildVerdict } from "../domain/build-verdict.ts";
import { isRemoved } from "../domain/removal.ts";
import type { EndpointHealth } from "../domain/worker.ts";
import type { Build, Store } from "../store/store.ts";

const PENDING = { state: "pending", reason: "" } as const;

interface Means {
  readonly store: Pick<Store, "builds" | "endpoints">;
  readonly health: (endpointId: string) => Promise<EndpointHealth>;
  /** Milliseconds since the epoch. */
  readonly clock: () => number;
}

/**
 * Notes how live builds fare: ready once each endpoint has shown that it starts, failed while one cannot run. A rollback
 * chooses by it.
 */
export async function judgeBuilds(means: Means): Promise<void> {
  for (const build of await means.store.builds.listUnproven()) {
    // Endpoints that are scaled to nothing show nothing: however many there are, none of them is looked at.
    const { state, reason } = build.mayRun ? await verdictOf(build, means) : PENDING;
    if (state === build.verdict.state && reason === build.verdict.reason) continue;
    await means.store.builds.judge(build.id, { state, reason, at: state === "pending" ? null : means.clock() });
  }
}

async function verdictOf(
  { id, environmentId }: Pick<Build, "id" | "environmentId">,
  { store, health }: Means,
): Promise<Pick<BuildVerdict, "state" | "reason">> {
  const all = await store.endpoints.listByEnvironment(environmentId);
  const own = all.filter((endpoint) => endpoint.buildId === id && !isRemoved(endpoint));
  const found = await Promise.all(own.map(async ({ id, name }) => ({ name, ...(await health(id)) })));
  const blocked = found.filter(({ state }) => state === "BLOCKED");
  if (blocked.length > 0) {
    return { state: "failed", reason: blocked.map(({ name, reason }) => `${name}: ${reason}`).join("\n") };
  }
  const isReady = found.some(({ state }) => state === "READY") && found.every(({ state }) => state !== "PREPARING");
  return isReady ? { state: "ready", reason: "" } : PENDING;
}
