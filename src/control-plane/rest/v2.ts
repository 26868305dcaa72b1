/** The second form of the REST API: nested bodies, lists in an object. */
import { SvcError } from "../../domain/errors.ts";
import { catalogueGpus } from "../../domain/gpu.ts";
import { CPU_FAMILIES } from "../../domain/machine-type.ts";
import type { NetworkVolume } from "../../store/store.ts";
import { dataCenters, displayName, isHere } from "../resolvers/catalog.ts";
import { saveEndpoint } from "../resolvers/save-endpoint.ts";
import { newVolume, registryRoutes, templateRoutes, volumeRoutes } from "./account-routes.ts";
import { endpointOfCall, endpointsOfCall, removeEndpointOfCall } from "./endpoint-calls.ts";
import { type RestCall, type Route, text } from "./route.ts";
import { endpointForm, endpointInput, templateForm, templateInput, workersForm } from "./v2-form.ts";

async function keepEndpoint({ id, body, context }: RestCall) {
  const input = endpointInput(body, id === "" ? undefined : id);
  return endpointForm(await saveEndpoint({ input }, context), context);
}

const newVolumeOf = newVolume
  .extend({ dataCenter: text })
  .transform(({ dataCenter, ...given }) => ({ ...given, dataCenterId: dataCenter }));

function volumeForm({ id, size, dataCenterId }: NetworkVolume) {
  return { id, name: id, size, dataCenter: dataCenterId, type: "STANDARD" };
}

async function gpus({ context }: RestCall) {
  return Promise.all(
    catalogueGpus().map(async (gpu) => ({
      id: gpu.product,
      name: displayName(gpu),
      pool: gpu.group,
      manufacturer: "NVIDIA",
      memory: gpu.memoryGb,
      secure: true,
      community: false,
      price: { secure: 0, community: 0, serverless: 0 },
      maxCount: { secure: 1, community: 0 },
      availability: (await isHere(gpu, context)) ? "HIGH" : "NONE",
    })),
  );
}

function cpus() {
  return Object.entries(CPU_FAMILIES).map(([id, { vcpus, gbPerVcpu }]) => ({
    id,
    name: id,
    group: id,
    vcpu: { min: Math.min(...vcpus), max: Math.max(...vcpus) },
    ramGbPerVcpu: gbPerVcpu,
    price: { securePerVcpu: 0, serverlessPerVcpu: 0 },
    availability: "HIGH",
  }));
}

async function datacenters({ context }: RestCall) {
  return (await dataCenters({}, context)).map(({ id, name, gpuAvailability }) => ({
    id,
    name,
    region: "UNKNOWN",
    globalNetwork: false,
    networkVolumeTypes: ["STANDARD"],
    compliance: [],
    gpuAvailability: gpuAvailability.map(({ gpuTypeId, displayName: shown, available }) => ({
      id: gpuTypeId,
      name: shown,
      availability: available ? "HIGH" : "NONE",
    })),
  }));
}

/** One of a list of the catalogue. Throws NOT_FOUND. */
function oneOf<T extends { readonly id: string }>(all: readonly T[], { id }: RestCall): T {
  const found = all.find((one) => one.id === id);
  if (found !== undefined) return found;
  throw new SvcError("NOT_FOUND", `The catalogue has no ${JSON.stringify(id.slice(0, 80))}.`);
}

export const V2_ROUTES: readonly Route[] = [
  {
    method: "GET",
    path: ["serverless"],
    answer: async (call) => {
      const all = await endpointsOfCall(call);
      return { endpoints: all.map((endpoint) => endpointForm(endpoint, call.context)) };
    },
  },
  { method: "POST", path: ["serverless"], answer: keepEndpoint },
  {
    method: "GET",
    path: ["serverless", ":id"],
    answer: async (call) => endpointForm(await endpointOfCall(call), call.context),
  },
  { method: "PATCH", path: ["serverless", ":id"], answer: keepEndpoint },
  { method: "DELETE", path: ["serverless", ":id"], answer: removeEndpointOfCall },
  {
    method: "GET",
    path: ["serverless", ":id", "workers"],
    answer: async (call) => workersForm(await endpointOfCall(call), call.context),
  },

  ...templateRoutes({ path: "templates", listedAs: "templates", show: templateForm }, templateInput),
  ...volumeRoutes({ path: "network-volumes", listedAs: "networkVolumes", show: volumeForm }, newVolumeOf),
  ...registryRoutes({ path: "registries", listedAs: "registries" }),

  { method: "GET", path: ["catalog", "gpus"], answer: async (call) => ({ gpus: await gpus(call) }) },
  { method: "GET", path: ["catalog", "gpus", ":id"], answer: async (call) => oneOf(await gpus(call), call) },
  { method: "GET", path: ["catalog", "cpus"], answer: async () => ({ cpus: cpus() }) },
  { method: "GET", path: ["catalog", "cpus", ":id"], answer: async (call) => oneOf(cpus(), call) },
  {
    method: "GET",
    path: ["catalog", "datacenters"],
    answer: async (call) => ({ dataCenters: await datacenters(call) }),
  },
  {
    method: "GET",
    path: ["catalog", "datacenters", ":id"],
    answer: async (call) => oneOf(await datacenters(call), call),
  },

  // This platform has none of these.
  { method: "GET", path: ["catalog", "templates"], answer: async () => ({ templates: [] }) },
  { method: "GET", path: ["pods"], answer: async () => ({ pods: [] }) },
  { method: "GET", path: ["clusters"], answer: async () => ({ clusters: [] }) },
  { method: "GET", path: ["account", "ssh-keys"], answer: async () => ({ keys: [] }) },
];
