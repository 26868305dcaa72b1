/** What is removed after its endpoints: their rows and jobs when the last worker is gone, empty places, and what failed to go with them. */
import { isMoved } from "../domain/errors.ts";
import { isLiveName, isRemovedName } from "../domain/names.ts";
import { ALL_MINE, type IsMine } from "../domain/own-endpoints.ts";
import type { JobUpkeep } from "../queue/queue.ts";
import type { App, Environment, Store } from "../store/store.ts";

/**
 * Deletes endpoints that a deploy or undeploy removed, with their jobs, once their last worker is gone. Removed
 * environments and apps follow their last endpoint, and so do those of `svc run`, which nobody made by name.
 */
export async function removeDrainedEndpoints(
  store: Store,
  jobs: Pick<JobUpkeep, "forget">,
  isMine: IsMine = ALL_MINE,
): Promise<void> {
  const failures: unknown[] = [];
  for (const { id } of await store.endpoints.listRemoved()) {
    // Who has its jobs sees to it.
    if (!isMine(id)) continue;
    // As long as its row is there, what fails is tried again; the others need not wait for that.
    await removeDrained(store, jobs, id).catch((error: unknown) => isMoved(error) || failures.push(error));
  }
  // This runs with every end of a worker: the writer's lock is taken only when there is something to delete.
  const { environments, apps } = await emptyPlaces(store);
  if (environments.length + apps.length > 0) await store.transaction(removeEmptyPlaces);
  if (failures.length > 0) throw failures[0];
}

async function removeDrained(store: Store, jobs: Pick<JobUpkeep, "forget">, id: string): Promise<void> {
  if ((await store.workers.listByEndpoint(id)).length > 0) return;
  await jobs.forget(id);
  await store.endpoints.delete(id);
}

async function emptyPlaces(store: Store): Promise<{ environments: Environment[]; apps: App[] }> {
  return {
    environments: (await store.environments.listEmpty()).filter(goesWithItsLastEndpoint),
    apps: (await store.apps.listEmpty()).filter(({ name }) => isRemovedName(name)),
  };
}

async function removeEmptyPlaces(store: Store): Promise<void> {
  const { environments } = await emptyPlaces(store);
  const gone = new Set(environments.map(({ id }) => id));
  for (const key of await store.keys.list()) {
    if (key.environmentId !== null && gone.has(key.environmentId)) await store.keys.delete(key.id);
  }
  for (const { id } of environments) await store.environments.delete(id);
  for (const { id } of (await emptyPlaces(store)).apps) await store.apps.delete(id);
}

/** A live environment without a build has had no endpoint yet. */
function goesWithItsLastEndpoint({ name, buildId }: Environment): boolean {
  return isRemovedName(name) || (isLiveName(name) && buildId !== null);
}

/** Keeps something of endpoints beside the store: jobs, logs; series also of environments and machines that joined. */
interface KeptOfEndpoints {
  /** Those that it keeps something of. */
  endpointIds(): Promise<string[]>;
  forget(id: string): Promise<void>;
}

/**
 * Removes what is kept of endpoints, environments and machines that are gone: it goes with them, unless that failed or the platform was killed just then.
 * The first error is thrown when all was tried.
 */
export async function removeLeftBehind(
  store: Pick<Store, "endpoints" | "environments" | "hosts">,
  places: readonly KeptOfEndpoints[],
): Promise<void> {
  // They are asked before the store, so that an endpoint that is made meanwhile is not taken for gone.
  const kept = await Promise.all(places.map((place) => place.endpointIds()));
  const [endpoints, hosts] = await Promise.all([store.endpoints.listBriefly(), store.hosts.list()]);
  const known = new Set([...endpoints, ...hosts].map(({ id }) => id));
  const errors: unknown[] = [];
  for (const [i, place] of places.entries()) {
    for (const id of kept[i]!) {
      if (known.has(id) || (await store.environments.find(id)) !== undefined) continue;
      await place.forget(id).catch((error: unknown) => isMoved(error) || errors.push(error));
    }
  }
  if (errors.length > 0) throw errors[0];
}
