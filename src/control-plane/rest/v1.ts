/** The first form of the REST API: flat bodies, bare lists. */
import { z } from "zod";
import { saveEndpoint } from "../resolvers/save-endpoint.ts";
import { newVolume, registryRoutes, templateRoutes, volumeRoutes } from "./account-routes.ts";
import { endpointOfCall, endpointsOfCall, removeEndpointOfCall } from "./endpoint-calls.ts";
import {
  type Body,
  entries,
  flag,
  nothing,
  number,
  type RestCall,
  type Route,
  read,
  record,
  text,
  texts,
} from "./route.ts";
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

function templateInput(body: Body) {
  const { env, ...given } = read(template, body);
  return { ...given, env: entries(env) };
}

async function createEndpoint({ body, context, query }: RestCall) {
  const input = await endpointInput(body, undefined, context);
  return endpointForm(await saveEndpoint({ input }, context), { context, query });
}

async function changeEndpoint({ id, body, context, query }: RestCall) {
  const input = await endpointInput(body, id, context);
  return endpointForm(await saveEndpoint({ input }, context), { context, query });
}

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

  ...templateRoutes({ path: "templates", updates: true, show: templateForm }, templateInput),
  ...volumeRoutes(
    {
      path: "networkvolumes",
      updates: true,
      show: ({ id, size, dataCenterId }) => ({ id, name: id, size, dataCenterId }),
    },
    newVolume.extend({ dataCenterId: text }),
  ),
  ...registryRoutes({ path: "containerregistryauth" }),

  // This platform has none.
  { method: "GET", path: ["pods"], answer: nothing },
];
