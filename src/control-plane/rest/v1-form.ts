/** Endpoints and templates as the first form of the REST API writes them. */
import { z } from "zod";
import { productsOf } from "../../domain/gpu.ts";
import type { Endpoint, Template } from "../../store/store.ts";
import type { RequestContext } from "../context.ts";
import type { EndpointInput } from "../endpoint-input.ts";
import { ACCOUNT_ID } from "../resolvers/account.ts";
import { flashBootOf, isoTime, templateOf, typeOf, volumeIdsOf } from "../resolvers/endpoint-words.ts";
import { endpointFields } from "../resolvers/endpoints.ts";
import { hiddenEnv } from "../resolvers/templates.ts";
import { cpuSize, gpuIdsOf } from "./machine.ts";
import { type Body, entries, flag, number, type RestCall, read, record, text, texts, variables } from "./route.ts";

const endpoint = z.object({
  name: text,
  templateId: text,
  imageName: text,
  env: record,
  computeType: text,
  gpuIds: text,
  gpuTypeIds: texts,
  gpuCount: number,
  cpuFlavorIds: texts,
  vcpuCount: number,
  instanceIds: z.union([z.string(), z.array(z.string())]).nullish(),
  dataCenterIds: texts,
  networkVolumeId: text,
  networkVolumeIds: z.unknown().optional(),
  scalerType: text,
  scalerValue: number,
  workersMin: number,
  workersMax: number,
  idleTimeout: number,
  executionTimeoutMs: number,
  flashboot: flag,
});
type Given = z.output<typeof endpoint>;

const CPU_FLAVOR_DEFAULT = "cpu3c";
const VCPUS_DEFAULT = 2;

/** What saveEndpoint is given; without an id a new endpoint. Throws BAD_INPUT, INVALID_SETTING. */
export async function endpointInput(
  body: Body,
  id: string | undefined,
  context: RequestContext,
): Promise<EndpointInput> {
  const given = read(endpoint, body);
  const { name, templateId, imageName, gpuCount, scalerValue, workersMin, workersMax, idleTimeout } = given;
  const { executionTimeoutMs, networkVolumeId, networkVolumeIds, env, dataCenterIds } = given;
  return {
    id,
    name: name ?? (id === undefined ? await nameOfTemplate(templateId, context) : undefined),
    templateId,
    imageName,
    env: entries(env),
    ...machineOf(given, id === undefined),
    gpuCount,
    scalerType: given.scalerType?.toUpperCase(),
    scalerValue,
    workersMin,
    workersMax,
    idleTimeout,
    executionTimeoutMs,
    networkVolumeId,
    networkVolumeIds,
    locations: dataCenterIds?.join(","),
    ...(typeof given.flashboot === "boolean" && { svcBootType: given.flashboot ? "SVCBOOT" : "OFF" }),
  };
}

async function nameOfTemplate(id: string | null | undefined, { store }: RequestContext): Promise<string | undefined> {
  return id ? (await store.templates.find(id))?.name : undefined;
}

function machineOf(given: Given, isNew: boolean): Pick<EndpointInput, "gpuIds" | "instanceIds"> {
  const { computeType, gpuIds, gpuTypeIds, cpuFlavorIds, vcpuCount, instanceIds } = given;
  if (instanceIds && instanceIds.length > 0) return { instanceIds };
  const [flavor] = cpuFlavorIds ?? [];
  if (flavor !== undefined || computeType?.toUpperCase() === "CPU") {
    return { instanceIds: cpuSize(flavor ?? CPU_FLAVOR_DEFAULT, vcpuCount ?? VCPUS_DEFAULT) };
  }
  if (gpuIds) return { gpuIds };
  if (gpuTypeIds && gpuTypeIds.length > 0) return { gpuIds: gpuIdsOf(gpuTypeIds) };
  return isNew ? { gpuIds: "ANY" } : {};
}

export async function endpointForm(one: Endpoint, { context, query }: Pick<RestCall, "context" | "query">) {
  const { gpuIds, instanceIds, locations } = one;
  const template = query.get("includeTemplate") === "true" ? await templateOf(one, {}, context) : null;
  const networkVolumeIds = volumeIdsOf(one);
  return {
    id: one.id,
    name: one.name,
    type: typeOf(one),
    userId: ACCOUNT_ID,
    version: 0,
    createdAt: isoTime(one),
    templateId: one.templateId,
    ...(template !== null && { template: templateForm(template) }),
    computeType: gpuIds === "" ? "CPU" : "GPU",
    gpuIds,
    gpuTypeIds: gpuIds === "" ? [] : productsOf(gpuIds),
    gpuCount: one.gpuCount,
    instanceIds: instanceIds === "" ? [] : [instanceIds],
    dataCenterIds: locations === "" ? [] : locations.split(","),
    networkVolumeId: networkVolumeIds[0] ?? "",
    networkVolumeIds,
    scalerType: one.scalerType,
    scalerValue: one.scalerValue,
    workersMin: one.workersMin,
    workersMax: one.workersMax,
    idleTimeout: one.idleTimeout,
    executionTimeoutMs: one.executionTimeoutMs,
    flashboot: one.svcBootType !== "OFF",
    flashBootType: flashBootOf(one),
    allowedCudaVersions: [],
    env: variables(hiddenEnv(one.env)),
    ...(query.get("includeWorkers") === "true" && { workers: await workersForm(one, context) }),
  };
}

async function workersForm(one: Endpoint, context: RequestContext) {
  const workers = await endpointFields.pods(one, {}, context);
  return workers.map(({ id, desiredStatus, state, reason }) => ({
    id,
    desiredStatus,
    state,
    reason,
    endpointId: one.id,
    templateId: one.templateId,
    image: one.imageName,
  }));
}

export function templateForm({ id, name, imageName, env, container }: Template) {
  const { dockerEntrypoint, dockerStartCmd, dockerArgs, ports, containerDiskInGb, volumeInGb, volumeMountPath } =
    container;
  const { isServerless, isPublic, readme, category, containerRegistryAuthId } = container;
  return {
    id,
    name,
    imageName,
    env: variables(hiddenEnv(env)),
    dockerEntrypoint,
    dockerStartCmd: dockerStartCmd.length > 0 || dockerArgs === "" ? dockerStartCmd : [dockerArgs],
    containerRegistryAuthId,
    containerDiskInGb,
    volumeInGb,
    volumeMountPath,
    ports: ports === "" ? [] : ports.split(","),
    isServerless,
    isPublic,
    isRunpod: false,
    readme,
    category,
  };
}
