/**
 * Volumes of endpoints that belong to no environment: those of one environment of their own, which any `svc volume` command
 * reaches too. What is said of each besides its name stands in the store.
 */
import { SvcError } from "../../domain/errors.ts";
import { NETWORK_VOLUME_MAX_GB, NETWORK_VOLUMES_MAX } from "../../domain/limits.ts";
import { suggestName } from "../../domain/names.ts";
import { isRemoved } from "../../domain/removal.ts";
import { SHARED_PLACE, volumeNameProblem, volumesOf } from "../../domain/volume.ts";
import type { Endpoint, NetworkVolume, Store } from "../../store/store.ts";
import { audit } from "../audit.ts";
import type { RequestContext } from "../context.ts";
import { revisionOf } from "../revision.ts";
import { createVolume, deleteVolume } from "./volumes.ts";

/** Where volumes are whose place nobody named. */
const HERE = "local";

/** By id. */
export async function networkVolumes(_args: unknown, { store, volumes }: RequestContext): Promise<NetworkVolume[]> {
  const said = new Map((await store.networkVolumes.list()).map((one) => [one.id, one]));
  const names = await volumes.names(SHARED_PLACE);
  return names.map((id) => said.get(id) ?? { id, size: 0, dataCenterId: HERE, createdAt: 0 });
}

/** Throws NOT_FOUND. */
export async function knownNetworkVolume(id: string, context: RequestContext): Promise<NetworkVolume> {
  const found = (await networkVolumes({}, context)).find((one) => one.id === id);
  if (found !== undefined) return found;
  throw new SvcError("NOT_FOUND", `There is no network volume ${JSON.stringify(id.slice(0, 80))}.`, {
    help: "`myself { networkVolumes { id } }` lists them.",
  });
}

interface NetworkVolumeInput {
  readonly name: string;
  readonly size?: number;
  readonly dataCenterId?: string;
}

/** Throws INVALID_NAME, INVALID_SETTING, and CONFLICT when it is there. */
export async function createNetworkVolume(input: NetworkVolumeInput, context: RequestContext): Promise<NetworkVolume> {
  const { name, size = 0, dataCenterId = "" } = input;
  const problem = volumeNameProblem(name);
  if (problem !== undefined) {
    throw new SvcError("INVALID_NAME", problem, { help: `Such as ${JSON.stringify(suggestName(name))}.` });
  }
  checkSize(size);
  if ((await context.volumes.names(SHARED_PLACE)).length >= NETWORK_VOLUMES_MAX) {
    throw new SvcError("CONFLICT", `There are at most ${NETWORK_VOLUMES_MAX} network volumes.`);
  }
  await createVolume({ ...SHARED_PLACE, name }, context);
  const volume = { id: name, size, dataCenterId: dataCenterId.slice(0, 63) || HERE, createdAt: context.clock() };
  await context.store.networkVolumes.save(volume);
  return volume;
}

/** Endpoints that have it get workers with the new size. Throws NOT_FOUND, INVALID_SETTING. */
export async function resizeNetworkVolume(id: string, size: number, context: RequestContext): Promise<NetworkVolume> {
  const volume = { ...(await knownNetworkVolume(id, context)), size };
  checkSize(size);
  await context.store.transaction(async (store) => {
    await store.networkVolumes.save(volume);
    await audit(store, context, { action: "volume.resize", target: id, detail: `${size} GB` });
    for (const endpoint of await withoutEnvironment(store)) {
      const mounts = volumesOf(endpoint.networkVolumeId);
      if (!mounts.some(({ name }) => name === id)) continue;
      const networkVolumeId = await attached(
        store,
        mounts.map(({ name }) => name),
      );
      const revision = revisionOf({ ...endpoint, networkVolumeId }, null, new Map());
      await store.endpoints.update(endpoint.id, { networkVolumeId, revision, updatedAt: context.clock() });
    }
  });
  return volume;
}

/** With all its files. Throws NOT_FOUND, and CONFLICT while an endpoint names it. */
export async function deleteNetworkVolume(id: string, context: RequestContext): Promise<void> {
  await knownNetworkVolume(id, context);
  await deleteVolume({ ...SHARED_PLACE, name: id }, context);
  await context.store.networkVolumes.delete(id);
}

/**
 * The text of these volumes, with the sizes that were said of them. The first is at the usual place, each other one at
 * /volumes/<name> alone.
 */
export async function attached(store: Store, ids: readonly string[]): Promise<string> {
  const said = new Map((await store.networkVolumes.list()).map((one) => [one.id, one]));
  const texts = ids.map((id, index) => {
    const size = said.get(id)?.size ?? 0;
    return `${id}${index === 0 ? "" : `:/volumes/${id}`}${size === 0 ? "" : `:${size}GB`}`;
  });
  return texts.join(",");
}

async function withoutEnvironment(store: Store): Promise<Endpoint[]> {
  return (await store.endpoints.list()).filter((one) => one.environmentId === null && !isRemoved(one));
}

function checkSize(size: number): void {
  if (Number.isInteger(size) && size >= 0 && size <= NETWORK_VOLUME_MAX_GB) return;
  throw new SvcError(
    "INVALID_SETTING",
    `size must be a whole number of GB from 0 to ${NETWORK_VOLUME_MAX_GB}, not ${size}.`,
  );
}
