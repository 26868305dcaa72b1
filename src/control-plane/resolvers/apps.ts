import { isRemoved } from "../../domain/removal.ts";
import type { App, Environment } from "../../store/store.ts";
import { requireLook, sees } from "../authenticate.ts";
import type { RequestContext } from "../context.ts";

export async function app(_: unknown, { name }: { name: string }, context: RequestContext): Promise<App | null> {
  requireLook(context);
  const found = await context.store.apps.findByName(name);
  return found !== undefined && (await isVisible(found, context)) ? found : null;
}

export async function apps(_: unknown, _args: unknown, context: RequestContext): Promise<App[]> {
  requireLook(context);
  const all = await context.store.apps.list();
  const visible = await Promise.all(all.map((one) => isVisible(one, context)));
  return all.filter((_one, i) => visible[i]);
}

/** Fields of the type App. */
export const application = {
  async environments({ id }: App, _args: unknown, { store, principal }: RequestContext): Promise<Environment[]> {
    return (await store.environments.listByApp(id)).filter((one) => sees(principal, one.id));
  },
};

/** Fields of the type Environment. */
export const environment = {
  async endpoints({ id }: Environment, _args: unknown, { store }: RequestContext) {
    return (await store.endpoints.listByEnvironment(id)).filter((endpoint) => !isRemoved(endpoint));
  },
};

async function isVisible({ id }: App, { principal, loader }: RequestContext): Promise<boolean> {
  if (principal.environmentId === null) return true;
  return (await loader.environment(principal.environmentId))?.appId === id;
}
