/** The first form of the REST API: flat bodies, bare lists. */
import { z } from "zod";
import type { NetworkVolume, RegistryAuth } from "../../store/store.ts";
import {
  createNetworkVolume,
  deleteNetworkVolume,
  knownNetworkVolume,
  networkVolumes,
  resizeNetworkVolume,
} from "../resolvers/network-volumes.ts";
import { deleteRegistryAuth, knownRegistryAuth, registryAuths, saveRegistryAuth } from "../resolvers/registry-auths.ts";
import { saveEndpoint } from "../resolvers/save-endpoint.ts";
import { deleteTemplate, knownTemplate, saveTemplate, templates } from "../resolvers/templates.ts";
import { endNetworkVolumeName, endpointOfCall, endpointsOfCall, removeEndpointOfCall } from "./endpoint-calls.ts";
import { entries, flag, nothing, number, type RestCall, type Route, read, record, text, texts } from "./route.ts";
import { endpointForm, endpointInput, templateForm } from "./v1-form.ts";

const template = z.object({
  name: text,
  imageName: text,
  env: record,
  dockerEntrypoint: texts,
  dockerStartCmd: texts,
  dockerArgs: text,
  containerRegistryAuthId: text,
  containerDiskInGb: number,
  volumeInGb: number,
  volumeMountPath: text,
  ports: z.union([z.string(), z.array(z.string())]).nullish(),
  isServerless: flag,
  isPublic: flag,
  readme: text,
  category: text,
});

async function keepTemplate({ id, body, context }: RestCall) {
  const { env, ...given } = read(template, body);
  const input = { ...given, ...(id !== "" && { id }), env: entries(env) };
  return templateForm(await saveTemplate({ input }, context));
}

async function createEndpoint({ body, context, query }: RestCall) {
  const input = await endpointInput(body, undefined, context);
  return endpointForm(await saveEndpoint({ input }, context), { context, query });
}

async function changeEndpoint({ id, body, context, query }: RestCall) {
  const input = await endpointInput(body, id, context);
  return endpointForm(await saveEndpoint({ input }, context), { context, query });
}

const volume = z.object({ name: z.string(), size: number, dataCenterId: text });
const volumeChange = z.object({ name: text, size: number });

async function createVolume({ body, context }: RestCall) {
  const { name, size, dataCenterId } = read(volume, body);
  const input = { name, size: size ?? 0, dataCenterId: dataCenterId ?? "" };
  return volumeForm(await createNetworkVolume(input, context));
}

async function changeVolume({ id, body, context }: RestCall) {
  const { name, size } = read(volumeChange, body);
  endNetworkVolumeName(id, name);
  const known = await knownNetworkVolume(id, context);
  return volumeForm(typeof size === "number" ? await resizeNetworkVolume(id, size, context) : known);
}

export function volumeForm({ id, size, dataCenterId }: NetworkVolume) {
  return { id, name: id, size, dataCenterId };
}

const login = z.object({ name: z.string(), username: z.string(), password: z.string() });

async function createAuth({ body, context }: RestCall) {
  return authForm(await saveRegistryAuth({ input: read(login, body) }, context));
}

function authForm({ id, name }: RegistryAuth) {
  return { id, name };
}

const U = { unbound: true };

export const V1_ROUTES: readonly Route[] = [
  {
    method: "GET",
    path: ["endpoints"],
    answer: async (call) => Promise.all((await endpointsOfCall(call)).map((endpoint) => endpointForm(endpoint, call))),
  },
  { method: "POST", path: ["endpoints"], answer: createEndpoint },
  { method: "GET", path: ["endpoints", ":id"], answer: async (call) => endpointForm(await endpointOfCall(call), call) },
  { method: "PATCH", path: ["endpoints", ":id"], answer: changeEndpoint },
  { method: "POST", path: ["endpoints", ":id", "update"], answer: changeEndpoint },
  { method: "DELETE", path: ["endpoints", ":id"], answer: removeEndpointOfCall },

  {
    method: "GET",
    path: ["templates"],
    ...U,
    answer: async ({ context }) => (await templates({}, context)).map(templateForm),
  },
  { method: "POST", path: ["templates"], ...U, answer: keepTemplate },
  {
    method: "GET",
    path: ["templates", ":id"],
    ...U,
    answer: async ({ id, context }) => templateForm(await knownTemplate(context.store, id)),
  },
  { method: "PATCH", path: ["templates", ":id"], ...U, answer: keepTemplate },
  { method: "POST", path: ["templates", ":id", "update"], ...U, answer: keepTemplate },
  {
    method: "DELETE",
    path: ["templates", ":id"],
    ...U,
    answer: async ({ id, context }) => void (await deleteTemplate({ id }, context)) as undefined,
  },

  {
    method: "GET",
    path: ["networkvolumes"],
    ...U,
    answer: async ({ context }) => (await networkVolumes({}, context)).map(volumeForm),
  },
  { method: "POST", path: ["networkvolumes"], ...U, answer: createVolume },
  {
    method: "GET",
    path: ["networkvolumes", ":id"],
    ...U,
    answer: async ({ id, context }) => volumeForm(await knownNetworkVolume(id, context)),
  },
  { method: "PATCH", path: ["networkvolumes", ":id"], ...U, answer: changeVolume },
  { method: "POST", path: ["networkvolumes", ":id", "update"], ...U, answer: changeVolume },
  {
    method: "DELETE",
    path: ["networkvolumes", ":id"],
    ...U,
    answer: async ({ id, context }) => void (await deleteNetworkVolume(id, context)) as undefined,
  },

  {
    method: "GET",
    path: ["containerregistryauth"],
    ...U,
    answer: async ({ context }) => (await registryAuths({}, context)).map(authForm),
  },
  { method: "POST", path: ["containerregistryauth"], ...U, answer: createAuth },
  {
    method: "GET",
    path: ["containerregistryauth", ":id"],
    ...U,
    answer: async ({ id, context }) => authForm(await knownRegistryAuth(context.store, id)),
  },
  {
    method: "DELETE",
    path: ["containerregistryauth", ":id"],
    ...U,
    answer: async ({ id, context }) => void (await deleteRegistryAuth({ registryAuthId: id }, context)) as undefined,
  },

  // This platform has none.
  { method: "GET", path: ["pods"], answer: nothing },
];
