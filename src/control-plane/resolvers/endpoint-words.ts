/** Fields of the type Endpoint in the words of others (compatible.graphql); what has no meaning here has a neutral value. */
import { boundTo } from "../../domain/api-key.ts";
import { volumesOf } from "../../domain/volume.ts";
import type { Endpoint, NetworkVolume, Template } from "../../store/store.ts";
import type { RequestContext } from "../context.ts";
import { ACCOUNT_ID } from "./account.ts";
import { networkVolumes } from "./network-volumes.ts";
import { hiddenEnv } from "./templates.ts";

export const endpointWords = {
  aiKey: () => "",
  type: typeOf,
  userId: () => ACCOUNT_ID,
  version: () => 0,
  workersStandby: ({ workersMin }: Endpoint) => workersMin,
  workersPFBTarget: () => 0,
  env: ({ env }: Endpoint) => hiddenEnv(env),
  createdAt: isoTime,
  networkVolumeId: (one: Endpoint) => (one.environmentId === null ? (volumeIdsOf(one)[0] ?? "") : one.networkVolumeId),
  async networkVolume(one: Endpoint, args: unknown, context: RequestContext): Promise<NetworkVolume | null> {
    const [id] = volumeIdsOf(one);
    const all = id === undefined || one.environmentId !== null ? [] : await networkVolumes(args, context);
    return all.find((volume) => volume.id === id) ?? null;
  },
  networkVolumeIds: (one: Endpoint) =>
    volumeIdsOf(one).map((networkVolumeId) => ({ networkVolumeId, dataCenterId: null })),
  allowedCudaVersions: () => "",
  minCudaVersion: () => null,
  flashBootType: flashBootOf,
  computeType: ({ gpuIds }: Endpoint) => (gpuIds === "" ? "CPU" : "GPU"),
  modelReferences: () => [],
  flashEnvironmentId: ({ environmentId }: Endpoint) => environmentId,
  activeBuildid: ({ buildId }: Endpoint) => buildId,
  idePodId: () => null,
  instanceIds: ({ instanceIds }: Endpoint) => (instanceIds === "" ? [] : [instanceIds]),
  template: templateOf,
};

export function typeOf({ kind }: Endpoint): "QB" | "LB" {
  return kind === "queue" ? "QB" : "LB";
}

export function flashBootOf({ svcBootType }: Endpoint): "FLASHBOOT" | "OFF" {
  return svcBootType === "OFF" ? "OFF" : "FLASHBOOT";
}

export function isoTime({ createdAt }: { readonly createdAt: number }): string {
  return new Date(createdAt).toISOString();
}

export function volumeIdsOf({ networkVolumeId }: Endpoint): string[] {
  return volumesOf(networkVolumeId).map(({ name }) => name);
}

/** Null when it names none that is there, and for a key that is bound. */
export async function templateOf(
  { templateId }: Endpoint,
  _args: unknown,
  { store, principal }: RequestContext,
): Promise<Template | null> {
  const isVisible = templateId !== "" && boundTo(principal) === undefined;
  return isVisible ? ((await store.templates.find(templateId)) ?? null) : null;
}
