import { reaches } from "../../domain/api-key.ts";
import { secretNames } from "../../domain/env.ts";
import { isRemovedName } from "../../domain/names.ts";
import { isRemoved } from "../../domain/removal.ts";
import type { App, Environment } from "../../store/store.ts";
import { requireScope, sees } from "../authenticate.ts";
import type { RequestContext } from "../context.ts";

export async function app(_: unknown, { name }: { name: string }, context: RequestContext): Promise<App | null> {
  requireScope(context, "read");
  const found = isRemovedName(name) ? undefined : await context.store.apps.findByName(name);
  return found !== undefined && (await isVisible(found, context)) ? found : null;
}

export async function apps(_: unknown, _args: unknown, context: RequestContext): Promise<App[]> {
  requireScope(context, "read");
  const all = (await context.store.apps.list()).filter((one) => !isRemovedName(one.name));
  const visible = await Promise.all(all.map((one) => isVisible(one, context)));
  return all.filter((_one, i) => visible[i]);
}

/** Fields of the type App. */
export const application = {
  async environments({ id }: App, _args: unknown, { store, principal }: RequestContext): Promise<Environment[]> {
    const all = await store.environments.listByApp(id);
    return all.filter((one) => !isRemovedName(one.name) && sees(principal, one.id));
  },
};

/** Fields of the type Environment. */
export const environment = {
  async endpoints({ id }: Environment, _args: unknown, { store, principal }: RequestContext) {
    const all = await store.endpoints.listByEnvironment(id);
    return all.filter((endpoint) => !isRemoved(endpoint) && reaches(principal, endpoint));
  },
  async builds({ id, buildId }: Environment, { first }: { first: number }, { store }: RequestContext) {
    const builds = (await store.builds.listByEnvironment(id)).slice(0, Math.max(0, first));
    return builds.map((build) => ({
      id: build.id,
      createdAt: build.createdAt,
      live: build.id === buildId,
      endpoints: Object.keys(build.manifest.resources),
    }));
  },
  async secrets({ id }: Environment, _args: unknown, context: RequestContext) {
    requireScope(context, "deploy");
    const all = await context.store.secrets.listByEnvironment(id);
    const { endpointId } = context.principal;
    if (!endpointId) return all;
    // A key of one endpoint sees what that endpoint uses.
    const used = secretNames((await context.store.endpoints.find(endpointId))?.env ?? {});
    return all.filter(({ name }) => used.includes(name));
  },
};

async function isVisible({ id }: App, { principal, loader }: RequestContext): Promise<boolean> {
  if (principal.environmentId === null) return true;
  return (await loader.environment(principal.environmentId))?.appId === id;
}
