/** saveEndpoint: without id it creates an endpoint, with id it changes the given fields and keeps the rest. */

import { boundTo } from "../../domain/api-key.ts";
import {
  CONTAINER_DEFAULT,
  checkContainer,
  type EndpointContainer,
  endpointContainer,
} from "../../domain/container.ts";
import { checkSettings, defaultSettings, retriesProblem } from "../../domain/endpoint.ts";
import { type EnvValues, environmentProblem } from "../../domain/env.ts";
import { SvcError } from "../../domain/errors.ts";
import { SAVED_NAME_MAX_CHARS } from "../../domain/limits.ts";
import { isValidName } from "../../domain/names.ts";
import { quotaProblem } from "../../domain/quota.ts";
import type { Endpoint, Store, Template } from "../../store/store.ts";
import { audit } from "../audit.ts";
import { requireReach, requireUnbound } from "../authenticate.ts";
import type { RequestContext } from "../context.ts";
import { driverProblemsOf } from "../deploy/target.ts";
import { type EndpointInput, type GivenFields, givenFields, isPrintableName, withGiven } from "../endpoint-input.ts";
import { randomId } from "../ids.ts";
import { knownEndpoint } from "../known.ts";
import { codeOf, revisionOf, secretTimes } from "../revision.ts";
import { attached } from "./network-volumes.ts";
import { knownRegistryAuth } from "./registry-auths.ts";
import { checkImageName, keepTemplate, knownTemplate, readEnv } from "./templates.ts";

export async function saveEndpoint({ input }: { input: EndpointInput }, context: RequestContext): Promise<Endpoint> {
  const given = givenFields(input);
  return context.store.transaction(async (store) => {
    const isNew = given.id === undefined;
    const saved = isNew ? await create(store, given, context) : await change(store, given.id!, given, context);
    // The names of what was given alone: a value may be private.
    const detail = isNew
      ? "made"
      : `gave ${Object.keys(given)
          .filter((field) => field !== "id")
          .join(", ")}`;
    await audit(store, context, { action: "endpoint.save", target: `${saved.name} (${saved.id})`, detail });
    return saved;
  });
}

async function create(store: Store, given: GivenFields, context: RequestContext): Promise<Endpoint> {
  requireUnbound(context);
  const missing: string[] = [];
  if (!given.name) missing.push("name");
  if (!given.templateId && given.template === undefined && !given.imageName) missing.push("templateId");
  if (!given.gpuIds && !given.instanceIds) missing.push("gpuIds (or instanceIds for a CPU endpoint)");
  if (missing.length > 0) {
    throw new SvcError("BAD_INPUT", `A new endpoint needs ${missing.join(", ")}.`, {
      help: "To change an existing endpoint give its id.",
    });
  }
  const { templateId = "", env = {}, container, ...image } = await templateContents(store, given, given.name!, context);
  const volumes = await volumesGiven(store, given, null);
  const settings = { ...withGiven(defaultSettings("queue", given.gpuIds), given), ...image, ...volumes };
  const now = context.clock();
  const endpoint: Endpoint = {
    ...settings,
    id: randomId(context.random),
    name: given.name!,
    kind: "queue",
    environmentId: null,
    buildId: null,
    templateId,
    env,
    ...(container !== undefined && { container }),
    schedule: "",
    revision: revisionOf({ ...settings, kind: "queue", env, container }, null, new Map()),
    reason: "",
    createdAt: now,
    updatedAt: now,
  };
  await check(store, endpoint, context);
  await store.endpoints.insert(endpoint);
  return endpoint;
}

async function change(store: Store, id: string, given: GivenFields, context: RequestContext): Promise<Endpoint> {
  const current = await knownEndpoint(store, id);
  requireReach(context, current);
  if (current.environmentId !== null && given.name !== undefined && given.name !== current.name) {
    throw new SvcError("CONFLICT", `Endpoint "${current.name}" was deployed from code, which gives it its name.`, {
      help: "Rename it in the code and deploy, or leave `name` out.",
    });
  }
  const contents = await templateContents(store, given, current.name, context, current);
  const { imageName, env } = contents;
  if (current.environmentId !== null && (imageName !== undefined || env !== undefined || "container" in contents)) {
    throw new SvcError("CONFLICT", `Endpoint "${current.name}" was deployed from code, which gives it image and env.`, {
      help: "Set `image` and `env` in the code and deploy.",
    });
  }
  const settings = { ...withGiven(current, given), ...(await volumesGiven(store, given, current.environmentId)) };
  const build = current.buildId === null ? undefined : await store.builds.find(current.buildId);
  const changes = {
    ...settings,
    ...contents,
    name: given.name ?? current.name,
    updatedAt: context.clock(),
  };
  const code = build === undefined ? null : codeOf(build.manifest, current.name);
  const revision = revisionOf({ ...current, ...changes }, code, await secretTimes(store, current.environmentId));
  // A replaced worker may well start where the last one could not.
  const reason = revision === current.revision ? current.reason : "";
  const endpoint: Endpoint = { ...current, ...changes, revision, reason };
  await check(store, endpoint, context, current);
  await store.endpoints.update(id, { ...changes, revision, reason });
  return endpoint;
}

/** Throws INVALID_NAME, INVALID_SETTING, QUOTA_EXCEEDED. */
async function check(store: Store, endpoint: Endpoint, context: RequestContext, before?: Endpoint): Promise<void> {
  if (!isPrintableName(endpoint.name)) {
    throw new SvcError("INVALID_NAME", `An endpoint's name has 1 to ${SAVED_NAME_MAX_CHARS} printable characters.`);
  }
  checkSettings(endpoint.name, endpoint);
  const retries = endpoint.retriesMax === 0 ? undefined : retriesProblem(endpoint.kind, []);
  if (retries !== undefined) throw new SvcError("INVALID_SETTING", `Endpoint "${endpoint.name}": ${retries.message}`);
  const tooLarge = environmentProblem(endpoint.name, endpoint.env, () => 0);
  if (tooLarge !== undefined) throw new SvcError("INVALID_SETTING", tooLarge);
  // One without code has no workers that could miss anything.
  // GPUs that it had may be gone: it can be stopped all the same.
  const gpuIds = endpoint.gpuIds === before?.gpuIds ? "" : endpoint.gpuIds;
  const lacks = endpoint.buildId === null ? [] : driverProblemsOf(endpoint.name, { ...endpoint, gpuIds }, context);
  if (lacks.length > 0) throw new SvcError("INVALID_SETTING", lacks.join(" "));
  const others = (await store.endpoints.listBriefly()).filter(({ id }) => id !== endpoint.id);
  const problem = quotaProblem([...others, endpoint], context.config.workerQuota);
  if (problem !== undefined) throw new SvcError("QUOTA_EXCEEDED", problem);
}

/** What of an endpoint comes from its template or stands in place of it; a field that is not there stays as it is. */
interface TemplateContents {
  readonly templateId?: string;
  readonly imageName?: string;
  readonly env?: EnvValues;
  readonly container?: EndpointContainer | undefined;
}

/** A network volume's id stands for its text, with what was said of its size. */
async function volumesGiven(store: Store, { volumes, networkVolumeId }: GivenFields, environmentId: string | null) {
  const isId = networkVolumeId !== undefined && isValidName(networkVolumeId);
  const ids = volumes ?? (isId && environmentId === null ? [networkVolumeId] : undefined);
  return ids && { networkVolumeId: await attached(store, ids) };
}

/**
 * The template's image and variables are taken over when the input names it: a later change of the template does not touch
 * the endpoint. A templateId that names no template is kept as it is.
 */
async function templateContents(
  store: Store,
  given: GivenFields,
  endpointName: string,
  context: RequestContext,
  current: Pick<Endpoint, "env" | "container"> = { env: {} },
): Promise<TemplateContents> {
  if (given.template !== undefined && given.templateId !== undefined) {
    throw new SvcError("BAD_INPUT", "Give templateId or template, not both.");
  }
  if (given.template !== undefined) requireUnbound(context);
  const template =
    given.template !== undefined
      ? await keepTemplate(store, { name: endpointName, ...given.template }, context)
      : given.templateId !== undefined
        ? await store.templates.find(given.templateId)
        : undefined;
  if (given.imageName !== undefined) checkImageName(given.imageName);
  const templateId = template?.id ?? given.templateId;
  const imageName = given.imageName ?? template?.imageName;
  const own = given.env && readEnv(given.env, { ...template?.env, ...current.env });
  const env = template === undefined ? own : { ...template.env, ...own };
  return {
    ...(templateId !== undefined && { templateId }),
    ...(imageName !== undefined && { imageName }),
    ...(env !== undefined && { env }),
    ...(await containerGiven(store, given, template, current.container, context)),
  };
}

/**
 * Credentials go with the image they were given for: a key that is bound, and names an image or a template, gets none of the
 * platform's, which would be sent to the registry that it names.
 */
async function containerGiven(
  store: Store,
  given: GivenFields,
  template: Template | undefined,
  current: EndpointContainer | undefined,
  context: RequestContext,
): Promise<Pick<TemplateContents, "container">> {
  const { dockerArgs, containerRegistryAuthId, imageName } = given;
  const base = template === undefined ? current : endpointContainer(template.container);
  const isBound = boundTo(context.principal) !== undefined;
  const isTouched = [template, dockerArgs, containerRegistryAuthId, isBound ? imageName : undefined].some(
    (one) => one !== undefined,
  );
  if (!isTouched) return {};
  const program = { ...CONTAINER_DEFAULT, dockerArgs: dockerArgs ?? "" };
  checkContainer(given.name ?? "", program);
  const { entrypoint, command } = (dockerArgs === undefined ? base : endpointContainer(program)) ?? NO_PROGRAM;
  const registryAuthId = isBound ? "" : (containerRegistryAuthId ?? base?.registryAuthId ?? "");
  if (registryAuthId !== "") await knownRegistryAuth(store, registryAuthId);
  const isPlain = entrypoint.length === 0 && command.length === 0 && registryAuthId === "";
  return { container: isPlain ? undefined : { entrypoint, command, registryAuthId } };
}

const NO_PROGRAM = { entrypoint: [], command: [] };

/** The endpoint gets the template's image and variables. Throws NOT_FOUND for either. */
export async function updateEndpointTemplate(
  { input }: { input?: { readonly endpointId: string; readonly templateId: string } | null },
  context: RequestContext,
): Promise<Endpoint> {
  const { endpointId, templateId } = input ?? { endpointId: "", templateId: "" };
  return context.store.transaction(async (store) => {
    const { id } = await knownTemplate(store, templateId);
    const saved = await change(store, endpointId, { templateId: id }, context);
    const target = `${saved.name} (${saved.id})`;
    await audit(store, context, { action: "endpoint.save", target, detail: "gave templateId" });
    return saved;
  });
}
