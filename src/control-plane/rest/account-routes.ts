/** Templates, network volumes and logins of registries: both forms of the REST API have them, each in its words. */
import { z } from "zod";
import { SvcError } from "../../domain/errors.ts";
import type { NetworkVolume, RegistryAuth, Template } from "../../store/store.ts";
import type { TemplateInput } from "../endpoint-input.ts";
import {
  createNetworkVolume,
  deleteNetworkVolume,
  knownNetworkVolume,
  networkVolumes,
  resizeNetworkVolume,
} from "../resolvers/network-volumes.ts";
import { deleteRegistryAuth, knownRegistryAuth, registryAuths, saveRegistryAuth } from "../resolvers/registry-auths.ts";
import { deleteTemplate, knownTemplate, saveTemplate, templates } from "../resolvers/templates.ts";
import { type NounForm, nounRoutes } from "./noun.ts";
import { type Body, number, type RestCall, read, text } from "./route.ts";

export function templateRoutes(form: NounForm<Template>, inputOf: (body: Body) => TemplateInput) {
  const keep = async ({ id, body, context }: RestCall) =>
    saveTemplate({ input: { ...inputOf(body), ...(id !== "" && { id }) } }, context);
  return nounRoutes(form, {
    all: (context) => templates({}, context),
    one: (id, { store }) => knownTemplate(store, id),
    create: keep,
    change: keep,
    remove: (id, context) => deleteTemplate({ id }, context),
  });
}

/** The body of a new volume, without the field with its data center. */
export const newVolume = z.object({ name: z.string(), size: number });
const volumeChange = z.object({ name: text, size: number });

type NewVolume = z.ZodType<z.output<typeof newVolume> & { readonly dataCenterId?: string | null | undefined }>;

export function volumeRoutes(form: NounForm<NetworkVolume>, schema: NewVolume) {
  return nounRoutes(form, {
    all: (context) => networkVolumes({}, context),
    one: knownNetworkVolume,
    create: async ({ body, context }) => {
      const { name, size, dataCenterId } = read(schema, body);
      return createNetworkVolume({ name, size: size ?? 0, dataCenterId: dataCenterId ?? "" }, context);
    },
    change: changeVolume,
    remove: deleteNetworkVolume,
  });
}

async function changeVolume({ id, body, context }: RestCall): Promise<NetworkVolume> {
  const { name, size } = read(volumeChange, body);
  if (name && name !== id) {
    // Its name is that of its folder.
    throw new SvcError("CONFLICT", `A network volume keeps its name, ${JSON.stringify(id)}.`, {
      help: "Make another one, and copy the files: svc volume get, svc volume put.",
    });
  }
  const known = await knownNetworkVolume(id, context);
  return typeof size === "number" ? resizeNetworkVolume(id, size, context) : known;
}

const login = z.object({ name: z.string(), username: z.string(), password: z.string() });

export function registryRoutes(form: Omit<NounForm<RegistryAuth>, "show">) {
  const show = ({ id, name }: RegistryAuth) => ({ id, name });
  return nounRoutes(
    { ...form, show },
    {
      all: (context) => registryAuths({}, context),
      one: (id, { store }) => knownRegistryAuth(store, id),
      create: async ({ body, context }) => saveRegistryAuth({ input: read(login, body) }, context),
      remove: (registryAuthId, context) => deleteRegistryAuth({ registryAuthId }, context),
    },
  );
}
