import { CONTAINER_DEFAULT, checkContainer, type TemplateContainer } from "../../domain/container.ts";
import { type EnvValues, isEnvName } from "../../domain/env.ts";
import { SvcError } from "../../domain/errors.ts";
import { SAVED_NAME_MAX_CHARS, TEMPLATES_MAX } from "../../domain/limits.ts";
import { isRemoved } from "../../domain/removal.ts";
import type { Store, Template } from "../../store/store.ts";
import { audit } from "../audit.ts";
import type { RequestContext } from "../context.ts";
import { type EnvEntry, isPrintableName, type TemplateInput } from "../endpoint-input.ts";
import { randomId } from "../ids.ts";
import { own } from "../known.ts";
import { knownRegistryAuth } from "./registry-auths.ts";

export function templates(_args: unknown, context: RequestContext): Promise<Template[]> {
  return context.store.templates.list();
}

/** Those of the account's own: there are no others. */
export function podTemplates(
  { input }: { input?: { readonly isRunpod?: boolean | null; readonly isPublic?: boolean | null } | null },
  context: RequestContext,
): Promise<Template[]> {
  const ofOthers = typeof input?.isRunpod === "boolean" || input?.isPublic === true;
  return ofOthers ? Promise.resolve([]) : context.store.templates.list();
}

/** Null when there is none. */
export async function podTemplate({ id }: { id: string }, { store }: RequestContext): Promise<Template | null> {
  return (await store.templates.find(id)) ?? null;
}

/** Fields of the type Template that are not columns of the record. */
export const templateFields = {
  envNames: ({ env }: Template) => Object.keys(env).sort(),
  env: ({ env }: Template) => hiddenEnv(env),
  portsConfig: () => [],
  isRunpod: () => false,
  ...Object.fromEntries(
    (Object.keys(CONTAINER_DEFAULT) as (keyof TemplateContainer)[]).map((name) => [
      name,
      ({ container }: Template) => container[name],
    ]),
  ),
};

/** Stands for a value that is not shown; who sends it back leaves the value as it is. */
export const HIDDEN_VALUE = "********";

export function hiddenEnv(env: EnvValues): EnvEntry[] {
  const names = Object.keys(env).sort();
  return names.map((key) => ({ key, value: HIDDEN_VALUE }));
}

const IMAGE_NAME = /^[A-Za-z0-9][A-Za-z0-9._/:@-]{0,254}$/;

/** Without id it makes a template (name and imageName are required); with id it changes the given fields and keeps the rest. */
export async function saveTemplate(
  { input }: { input?: TemplateInput | null },
  context: RequestContext,
): Promise<Template> {
  return context.store.transaction((store) => keepTemplate(store, input ?? {}, context));
}

/** As saveTemplate, in a transaction. */
export async function keepTemplate(store: Store, input: TemplateInput, context: RequestContext): Promise<Template> {
  const current = typeof input.id === "string" ? await knownTemplate(store, input.id) : undefined;
  const now = context.clock();
  const template: Template = {
    id: current?.id ?? randomId(context.random),
    name: input.name ?? current?.name ?? "",
    imageName: input.imageName ?? current?.imageName ?? "",
    env: input.env ? readEnv(input.env, current?.env) : (current?.env ?? {}),
    container: withContainer(current?.container ?? CONTAINER_DEFAULT, input),
    createdAt: current?.createdAt ?? now,
    updatedAt: now,
  };
  const missing = [template.name === "" ? "name" : "", template.imageName === "" ? "imageName" : ""].filter(Boolean);
  if (missing.length > 0) throw new SvcError("BAD_INPUT", `A template needs ${missing.join(" and ")}.`);
  if (!isPrintableName(template.name)) {
    throw new SvcError("INVALID_NAME", `A template's name has 1 to ${SAVED_NAME_MAX_CHARS} printable characters.`);
  }
  checkImageName(template.imageName);
  checkContainer(template.name, template.container);
  const { containerRegistryAuthId } = template.container;
  if (containerRegistryAuthId !== "") await knownRegistryAuth(store, containerRegistryAuthId);
  if (current === undefined && (await store.templates.list()).length >= TEMPLATES_MAX) {
    throw new SvcError("CONFLICT", `There are at most ${TEMPLATES_MAX} templates.`);
  }
  await store.templates.save(template);
  await audit(store, context, { action: "template.save", target: `${template.name} (${template.id})` });
  return template;
}

/** dockerArgs and dockerStartCmd say the same: the one that is given last counts. */
function withContainer(container: TemplateContainer, input: TemplateInput): TemplateContainer {
  const given = Object.entries(input).filter(
    ([name, value]) => name in CONTAINER_DEFAULT && value !== null && value !== undefined,
  );
  const changes = Object.fromEntries(given) as Partial<TemplateContainer> & { ports?: string | readonly string[] };
  const other = changes.dockerStartCmd ? { dockerArgs: "" } : changes.dockerArgs ? { dockerStartCmd: [] } : {};
  const ports = changes.ports === undefined ? container.ports : [changes.ports].flat().join(",");
  return { ...container, ...other, ...changes, ports };
}

/** Throws NOT_FOUND. */
export async function knownTemplate(store: Store, id: string): Promise<Template> {
  const template = await store.templates.find(id);
  if (template !== undefined) return template;
  throw new SvcError("NOT_FOUND", `There is no template with the id "${id.slice(0, 80)}".`, {
    help: "`templates` lists them.",
  });
}

/**
 * Throws BAD_INPUT for names that no process can have as a variable; of two values for one name the last counts. A hidden value stands
 * for the one that `current` has.
 */
export function readEnv(entries: readonly EnvEntry[], current: EnvValues = {}): Record<string, string> {
  const wrong = entries.filter(({ key, value }) => !isEnvName(key) || value.includes("\0"));
  if (wrong.length > 0) {
    const names = wrong.map(({ key }) => JSON.stringify(key)).join(", ");
    throw new SvcError("BAD_INPUT", `These cannot be environment variables: ${names}.`, {
      help: "A name has letters, digits and _, no digit first; a value has no zero byte.",
    });
  }
  const kept = ({ key, value }: EnvEntry) => {
    const before = value === HIDDEN_VALUE ? own(current, key) : value;
    if (typeof before === "string") return before;
    throw new SvcError("BAD_INPUT", `${HIDDEN_VALUE} stands for a value that is not shown, and ${key} has none.`);
  };
  return Object.fromEntries(entries.map((entry) => [entry.key, kept(entry)]));
}

/** Throws INVALID_SETTING. */
export function checkImageName(imageName: string): void {
  if (IMAGE_NAME.test(imageName)) return;
  throw new SvcError("INVALID_SETTING", `${JSON.stringify(imageName)} cannot name an image.`, {
    help: "Give it as REGISTRY/NAME:TAG.",
  });
}

/** Throws NOT_FOUND, and CONFLICT while an endpoint names the template. */
export async function deleteTemplate({ id }: { id: string }, context: RequestContext): Promise<boolean> {
  return context.store.transaction(async (store) => {
    const { name } = await knownTemplate(store, id);
    const users = (await store.endpoints.list()).filter(({ templateId }) => templateId === id);
    const names = users.filter((endpoint) => !isRemoved(endpoint)).map((endpoint) => endpoint.name);
    if (names.length > 0) {
      throw new SvcError("CONFLICT", `The template "${name}" is used by ${names.join(", ")}.`, {
        help: "Give them another templateId, or delete them, first.",
      });
    }
    await audit(store, context, { action: "template.delete", target: `${name} (${id})` });
    return store.templates.delete(id);
  });
}
