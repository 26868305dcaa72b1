/** Credentials that images are pulled with. They are sealed as secrets are, and never shown. */
import { CPU_IMAGE } from "../../domain/endpoint.ts";
import { SvcError } from "../../domain/errors.ts";
import { REGISTRY_AUTHS_MAX, REGISTRY_TEXT_MAX_CHARS, SAVED_NAME_MAX_CHARS } from "../../domain/limits.ts";
import { type RegistryLogin, registryLabel } from "../../domain/registry.ts";
import { isRemoved } from "../../domain/removal.ts";
import type { RegistryAuth, Store } from "../../store/store.ts";
import { audit } from "../audit.ts";
import type { RequestContext } from "../context.ts";
import { isPrintableName } from "../endpoint-input.ts";
import { randomId } from "../ids.ts";

export function registryAuths(_args: unknown, { store }: RequestContext): Promise<RegistryAuth[]> {
  return store.registryAuths.list();
}

/** Throws NOT_FOUND. */
export async function knownRegistryAuth(store: Store, id: string): Promise<RegistryAuth> {
  const auth = await store.registryAuths.find(id);
  if (auth !== undefined) return auth;
  throw new SvcError("NOT_FOUND", `There are no registry credentials with the id ${JSON.stringify(id.slice(0, 80))}.`, {
    help: "`myself { containerRegistryCreds { id name } }` lists them.",
  });
}

type NewRegistryAuth = RegistryLogin & { readonly name: string };

/** Throws INVALID_NAME, BAD_INPUT, CONFLICT when the name is taken, and INVALID_SETTING where no image is pulled with it. */
export async function saveRegistryAuth(
  { input }: { input?: NewRegistryAuth | null },
  context: RequestContext,
): Promise<RegistryAuth> {
  const { name = "" } = input ?? {};
  if (!isPrintableName(name)) {
    throw new SvcError(
      "INVALID_NAME",
      `The name of credentials has 1 to ${SAVED_NAME_MAX_CHARS} printable characters.`,
    );
  }
  refuseUseless(context);
  return context.store.transaction(async (store) => {
    if ((await store.registryAuths.list()).length >= REGISTRY_AUTHS_MAX) {
      throw new SvcError("CONFLICT", `There are at most ${REGISTRY_AUTHS_MAX} registry credentials.`);
    }
    const now = context.clock();
    const id = randomId(context.random);
    const auth = { id, name, sealed: sealed(id, input, context), createdAt: now, updatedAt: now };
    await store.registryAuths.save(auth);
    await audit(store, context, { action: "registry.save", target: named(auth) });
    return auth;
  });
}

/** Throws NOT_FOUND, BAD_INPUT, and INVALID_SETTING where no image is pulled with it. */
export async function updateRegistryAuth(
  { input }: { input?: (RegistryLogin & { readonly id: string }) | null },
  context: RequestContext,
): Promise<RegistryAuth> {
  refuseUseless(context);
  return context.store.transaction(async (store) => {
    const auth = await knownRegistryAuth(store, input?.id ?? "");
    const changed = { ...auth, sealed: sealed(auth.id, input, context), updatedAt: context.clock() };
    await store.registryAuths.save(changed);
    await audit(store, context, { action: "registry.save", target: named(auth), detail: "gave user and password" });
    return changed;
  });
}

/** Throws NOT_FOUND, and CONFLICT while a template or an endpoint names them. */
export async function deleteRegistryAuth(
  { registryAuthId }: { registryAuthId: string },
  context: RequestContext,
): Promise<boolean> {
  return context.store.transaction(async (store) => {
    const { id, name } = await knownRegistryAuth(store, registryAuthId);
    const templates = (await store.templates.list()).filter((one) => one.container.containerRegistryAuthId === id);
    const endpoints = (await store.endpoints.list()).filter(
      (one) => one.container?.registryAuthId === id && !isRemoved(one),
    );
    const users = [
      ...templates.map((one) => `the template ${JSON.stringify(one.name)}`),
      ...endpoints.map((one) => `the endpoint ${JSON.stringify(one.name)}`),
    ];
    if (users.length > 0) {
      throw new SvcError("CONFLICT", `The registry credentials "${name}" are used by ${users.join(", ")}.`, {
        help: "Give those others, or none, first.",
      });
    }
    await audit(store, context, { action: "registry.delete", target: named({ id, name }) });
    return store.registryAuths.delete(id);
  });
}

function refuseUseless({ cannotGive }: RequestContext): void {
  const wishes = { imageName: CPU_IMAGE, networkVolumeId: "", instanceIds: "", registryLogin: true };
  const [problem] = cannotGive(wishes);
  if (problem !== undefined) throw new SvcError("INVALID_SETTING", problem);
}

function named({ id, name }: Pick<RegistryAuth, "id" | "name">): string {
  return `${name} (${id})`;
}

function sealed(id: string, login: RegistryLogin | null | undefined, { seal }: RequestContext): string {
  const { username = "", password = "" } = login ?? {};
  for (const [name, text] of Object.entries({ username, password })) {
    if (text === "" || text.includes("\0"))
      throw new SvcError("BAD_INPUT", `${name} must be a text that is not empty.`);
    if (text.length > REGISTRY_TEXT_MAX_CHARS) {
      throw new SvcError("TOO_LARGE", `${name} has at most ${REGISTRY_TEXT_MAX_CHARS} characters.`);
    }
  }
  return seal.seal(JSON.stringify({ username, password }), registryLabel(id));
}
