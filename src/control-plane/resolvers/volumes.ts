import { SvcError } from "../../domain/errors.ts";
import { isRemoved } from "../../domain/removal.ts";
import { CACHE_VOLUME, SHARED_PLACE, type Volume, volumeNameProblem, volumesOf } from "../../domain/volume.ts";
import type { Store } from "../../store/store.ts";
import { audit } from "../audit.ts";
import { requireEnvironment } from "../authenticate.ts";
import type { RequestContext } from "../context.ts";
import { knownEnvironment } from "../known.ts";
import { ensureEnvironment } from "./apps.ts";

/** Those that are there, by name. Throws NOT_FOUND for the environment. */
export async function volumes(place: Omit<Volume, "name">, context: RequestContext) {
  const { id } = await knownEnvironment(context.store, place.app, place.environment);
  requireEnvironment(context, id);
  const names = await context.volumes.names(place);
  return Promise.all(names.map((name) => describe({ ...place, name }, id, context)));
}

/** The environment is made when it is missing: files may be there before the first deploy. */
export async function createVolume(volume: Volume, context: RequestContext) {
  const problem = volumeNameProblem(volume.name);
  if (problem !== undefined) throw new SvcError("INVALID_NAME", problem);
  const { id } = await context.store.transaction(async (store) => {
    const environment = await ensureEnvironment(store, volume, context);
    requireEnvironment(context, environment.id);
    await audit(store, context, { action: "volume.create", target: named(volume) });
    return environment;
  });
  await context.volumes.create(volume);
  return describe(volume, id, context);
}

/** Throws CONFLICT while an endpoint names it, also one that finishes its work. */
export async function deleteVolume({ app, environment, name }: Volume, context: RequestContext): Promise<boolean> {
  const { id } = await knownEnvironment(context.store, app, environment);
  requireEnvironment(context, id);
  const users = await usersOf(context.store, id, { app, environment, name });
  if (users.length > 0) {
    throw new SvcError("CONFLICT", `The volume "${name}" is used by ${users.join(", ")}.`, {
      help: `Take them down first (svc undeploy), or remove its files alone: svc volume rm ${name} / --recursive`,
    });
  }
  // Before its files go, which are in no transaction.
  await audit(context.store, context, { action: "volume.delete", target: named({ app, environment, name }) });
  await context.volumes.delete({ app, environment, name });
  return true;
}

async function describe({ app, environment, name }: Volume, environmentId: string, { store, volumes }: RequestContext) {
  const { sizeBytes = null, limitBytes = null } = volumes.use({ app, environment, name });
  return {
    name,
    cache: name === CACHE_VOLUME,
    sizeBytes,
    limitBytes,
    endpoints: await usersOf(store, environmentId, { app, environment, name }),
  };
}

async function usersOf(
  store: Store,
  environmentId: string,
  { app, environment, name: volume }: Volume,
): Promise<string[]> {
  const isShared = app === SHARED_PLACE.app && environment === SHARED_PLACE.environment;
  const endpoints = isShared
    ? (await store.endpoints.list()).filter((one) => [environmentId, null].includes(one.environmentId))
    : await store.endpoints.listByEnvironment(environmentId);
  // Every worker has the cache, whatever it names.
  const users =
    volume === CACHE_VOLUME
      ? endpoints
      : endpoints.filter(({ networkVolumeId }) => volumesOf(networkVolumeId).some(({ name }) => name === volume));
  return users.map((endpoint) => (isRemoved(endpoint) ? `${endpoint.name} (finishing)` : endpoint.name));
}

function named({ app, environment, name }: Volume): string {
  return `${app}/${environment}/${name}`;
}
