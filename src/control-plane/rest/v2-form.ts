/** Endpoints, templates and workers as the second form of the REST API writes them. */
import { z } from "zod";
import { isInitializing } from "../../domain/worker.ts";
import type { Endpoint, Template } from "../../store/store.ts";
import type { RequestContext } from "../context.ts";
import type { EndpointInput, TemplateInput } from "../endpoint-input.ts";
import { flashBootOf, isoTime, volumeIdsOf } from "../resolvers/endpoint-words.ts";
import { endpointUrl } from "../resolvers/endpoints.ts";
import { hiddenEnv } from "../resolvers/templates.ts";
import { cpuOf, cpuSize, gpuIdsOfPools, poolsOf } from "./machine.ts";
import { type Body, entries, flag, number, read, record, text, texts, variables } from "./route.ts";

const endpoint = z.object({
  name: text,
  templateId: text,
  type: z.enum(["QUEUE", "LOAD_BALANCER"]).nullish(),
  image: text,
  args: text,
  registry: text,
  env: record,
  gpu: z.object({ pools: texts, excludedTypes: texts, count: number }).nullish(),
  cpu: z.array(z.object({ id: z.string(), vcpuCount: z.number() })).nullish(),
  workers: z.object({ min: number, max: number, idleTimeout: number }).nullish(),
  scaling: z
    .object({ type: z.enum(["QUEUE_DELAY", "REQUEST_COUNT"]), queueDelay: number, requestCount: number })
    .nullish(),
  flashboot: text,
  timeout: number,
  dataCenterIds: texts,
  networkVolumes: z.array(z.union([z.string(), z.object({ volumeId: z.string() })])).nullish(),
});

/** What saveEndpoint is given; without an id a new endpoint. Throws BAD_INPUT, INVALID_SETTING. */
export function endpointInput(body: Body, id: string | undefined): EndpointInput {
  const given = read(endpoint, body);
  const { name, templateId, image: imageName, env, gpu, cpu, workers, scaling, networkVolumes } = given;
  const [size] = cpu ?? [];
  return {
    id,
    name,
    templateId,
    imageName,
    env: entries(env),
    dockerArgs: given.args,
    containerRegistryAuthId: registryOf(body, given.registry),
    type: given.type === "LOAD_BALANCER" ? "LB" : undefined,
    ...(gpu && { gpuIds: gpuIdsOfPools(gpu.pools, gpu.excludedTypes), gpuCount: gpu.count }),
    ...(size && !gpu && { instanceIds: cpuSize(size.id, size.vcpuCount) }),
    workersMin: workers?.min,
    workersMax: workers?.max,
    idleTimeout: workers?.idleTimeout,
    ...(scaling && { scalerType: scaling.type, scalerValue: scalerValue(scaling) }),
    flashBootType: given.flashboot?.toUpperCase(),
    executionTimeoutMs: given.timeout,
    locations: given.dataCenterIds?.join(","),
    networkVolumeIds: networkVolumes?.map((one) => (typeof one === "string" ? one : one.volumeId)),
    ...(networkVolumes?.length === 0 && { networkVolumeId: "" }),
  };
}

/** null takes it away. */
function registryOf(body: Body, given: string | null | undefined): string | null | undefined {
  return "registry" in body && given === null ? "" : given;
}

/** Whole: a job that may wait less than a second may wait one. */
function scalerValue({
  type,
  queueDelay,
  requestCount,
}: {
  type: string;
  queueDelay?: number | null;
  requestCount?: number | null;
}) {
  const value = type === "QUEUE_DELAY" ? queueDelay : requestCount;
  return typeof value === "number" ? Math.max(1, Math.ceil(value)) : value;
}

export function endpointForm(one: Endpoint, { config }: Pick<RequestContext, "config">) {
  const url = endpointUrl(one, config);
  const { gpuIds, instanceIds, scalerType, scalerValue: value } = one;
  return {
    id: one.id,
    name: one.name,
    type: one.kind === "queue" ? "QUEUE" : "LOAD_BALANCER",
    requestUrls: requestUrls(one, url),
    templateId: one.templateId,
    image: one.imageName,
    args: one.container?.command.join(" ") ?? "",
    disk: 0,
    env: variables(hiddenEnv(one.env)),
    ports: [],
    registry: one.container?.registryAuthId || null,
    gpu:
      gpuIds === "" ? null : { ...poolsOf(gpuIds), count: one.gpuCount, allowedCudaVersions: [], minCudaVersion: null },
    cpu: instanceIds === "" ? [] : [cpuOf(instanceIds)],
    workers: { min: one.workersMin, max: one.workersMax, idleTimeout: one.idleTimeout },
    scaling:
      scalerType === "QUEUE_DELAY"
        ? { type: scalerType, queueDelay: value }
        : { type: scalerType, requestCount: value },
    dataCenterIds: one.locations === "" ? [] : one.locations.split(","),
    networkVolumes: volumeIdsOf(one),
    timeout: one.executionTimeoutMs,
    flashboot: flashBootOf(one),
    createdAt: isoTime(one),
  };
}

function requestUrls({ kind }: Endpoint, url: string) {
  if (kind !== "queue") return { base: url, health: `${url}/ping` };
  const job = (route: string) => `${url}/${route}/{jobId}`;
  return {
    run: `${url}/run`,
    runSync: `${url}/runsync`,
    status: job("status"),
    stream: job("stream"),
    cancel: job("cancel"),
    retry: job("retry"),
    purgeQueue: `${url}/purge-queue`,
    health: `${url}/health`,
  };
}

/** The workers that are there, and how many do what. */
export async function workersForm(one: Endpoint, { loader, workers }: RequestContext) {
  const rows = await loader.workersOf(one.id);
  const counts = await workers.counts(one.id);
  const { running, idle, initializing, throttled, unhealthy } = counts;
  return {
    workers: rows.map(({ id, state, revision, createdAt, readyAt }) => ({
      id,
      status: isInitializing(state)
        ? "INITIALIZING"
        : state === "FAILED"
          ? "UNHEALTHY"
          : running === 0
            ? "IDLE"
            : "RUNNING",
      isStale: revision !== one.revision,
      version: null,
      gpuCount: one.gpuIds === "" ? 0 : one.gpuCount,
      image: one.imageName,
      uptimeSeconds: null,
      gpuTypeId: null,
      dataCenterId: null,
      startedAt: isoTime({ createdAt: readyAt ?? createdAt }),
    })),
    summary: { running, idle, initializing, throttled, unhealthy, total: rows.length },
    endpointVersion: null,
  };
}

const template = z.object({
  name: text,
  image: text,
  args: text,
  disk: number,
  env: record,
  ports: texts,
  registry: text,
  mounts: z.object({ persistent: z.object({ size: number, path: text }).nullish() }).nullish(),
  serverless: flag,
  public: flag,
  category: text,
  startSsh: flag,
  startJupyter: flag,
});

/** What saveTemplate is given. Throws BAD_INPUT. */
export function templateInput(body: Body): TemplateInput {
  const given = read(template, body);
  const { registry, mounts } = given;
  return {
    name: given.name,
    imageName: given.image,
    env: entries(given.env),
    dockerArgs: given.args,
    containerDiskInGb: given.disk,
    ports: given.ports,
    containerRegistryAuthId: registryOf(body, registry),
    volumeInGb: mounts?.persistent?.size,
    volumeMountPath: mounts?.persistent?.path,
    isServerless: given.serverless,
    isPublic: given.public,
    category: given.category,
    startSsh: given.startSsh,
    startJupyter: given.startJupyter,
  };
}

export function templateForm({ id, name, imageName, env, container }: Template) {
  const { dockerArgs, dockerStartCmd, volumeInGb: size, volumeMountPath: path, ports } = container;
  return {
    id,
    name,
    image: imageName,
    args: dockerArgs === "" ? dockerStartCmd.join(" ") : dockerArgs,
    disk: container.containerDiskInGb,
    env: variables(hiddenEnv(env)),
    ports: ports === "" ? [] : ports.split(","),
    registry: container.containerRegistryAuthId || null,
    mounts: size === 0 && path === "" ? {} : { persistent: { size, path } },
    serverless: container.isServerless,
    public: container.isPublic,
    category: container.category || "NVIDIA",
    startSsh: container.startSsh,
    startJupyter: container.startJupyter,
    allowedCudaVersions: [],
  };
}
