import { isEnvName } from "../../domain/env.ts";
import { SvcError } from "../../domain/errors.ts";
import { SAVED_NAME_MAX_CHARS } from "../../domain/limits.ts";
import { isRemoved } from "../../domain/removal.ts";
import type { Store, Template } from "../../store/store.ts";
import { audit } from "../audit.ts";
import type { RequestContext } from "../context.ts";
import { type EnvEntry, isPrintableName, type TemplateInput } from "../endpoint-input.ts";
import { randomId } from "../ids.ts";

export function templates(_args: unknown, context: RequestContext): Promise<Template[]> {
  return context.store.templates.list();
}

export const templateFields = {
  envNames: ({ env }: Template) => Object.keys(env).sort(),
};

const IMAGE_NAME = /^[A-Za-z0-9][A-Za-z0-9._/:@-]{0,254}$/;

/** Without id it makes a template (name and imageName are required); with id it changes the given fields and keeps the rest. */
export async function saveTemplate({ input }: { input: TemplateInput }, context: RequestContext): Promise<Template> {
  return context.store.transaction((store) => keepTemplate(store, input, context));
}

/** As saveTemplate, in a transaction. */
export async function keepTemplate(store: Store, input: TemplateInput, context: RequestContext): Promise<Template> {
  const current = typeof input.id === "string" ? await knownTemplate(store, input.id) : undefined;
  const now = context.clock();
  const template: Template = {
    id: current?.id ?? randomId(context.random),
    name: input.name ?? current?.name ?? "",
    imageName: input.imageName ?? current?.imageName ?? "",
    env: input.env ? readEnv(input.env) : (current?.env ?? {}),
    createdAt: current?.createdAt ?? now,
    updatedAt: now,
  };
  const missing = [template.name === "" ? "name" : "", template.imageName === "" ? "imageName" : ""].filter(Boolean);
  if (missing.length > 0) throw new SvcError("BAD_INPUT", `A template needs ${missing.join(" and ")}.`);
  if (!isPrintableName(template.name)) {
    throw new SvcError("INVALID_NAME", `A template's name has 1 to ${SAVED_NAME_MAX_CHARS} printable characters.`);
  }
  checkImageName(template.imageName);
  await store.templates.save(template);
  await audit(store, context, { action: "template.save", target: `${template.name} (${template.id})` });
  return template;
}

/** Throws NOT_FOUND. */
async function knownTemplate(store: Store, id: string): Promise<Template> {
  const template = await store.templates.find(id);
  if (template !== undefined) return template;
  throw new SvcError("NOT_FOUND", `There is no template with the id "${id}".`, { help: "`templates` lists them." });
}

/** Throws BAD_INPUT for names that no process can have as a variable; of two values for one name the last counts. */
export function readEnv(entries: readonly EnvEntry[]): Record<string, string> {
  const wrong = entries.filter(({ key, value }) => !isEnvName(key) || value.includes("\0"));
  if (wrong.length > 0) {
    const names = wrong.map(({ key }) => JSON.stringify(key)).join(", ");
    throw new SvcError("BAD_INPUT", `These cannot be environment variables: ${names}.`, {
      help: "A name has letters, digits and _, no digit first; a value has no zero byte.",
    });
  }
  return Object.fromEntries(entries.map(({ key, value }) => [key, value]));
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
