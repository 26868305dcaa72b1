import { reaches } from "../../domain/api-key.ts";
import { secretNames } from "../../domain/env.ts";
import { SvcError } from "../../domain/errors.ts";
import { isRemovedName } from "../../domain/names.ts";
import { isRemoved } from "../../domain/removal.ts";
import type { App, Environment, Store } from "../../store/store.ts";
import { audit } from "../audit.ts";
import { requireEnvironment, requireScope, requireUnbound, sees } from "../authenticate.ts";
import type { RequestContext } from "../context.ts";
import { makeEnvironment } from "../deploy/apply.ts";
import { nameProblems, refuse } from "../deploy/build-request.ts";
import { knownApp, knownEnvironment } from "../known.ts";
import { removeApp, removeEnvironment } from "../removal.ts";

export async function app({ name }: { name: string }, context: RequestContext): Promise<App | null> {
  const found = isRemovedName(name) ? undefined : await context.store.apps.findByName(name);
  return found !== undefined && (await isVisible(found, context)) ? found : null;
}

export async function apps(_args: unknown, context: RequestContext): Promise<App[]> {
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
      message: build.message,
      gitCommit: build.gitCommit,
      keyName: build.keyName,
      verdict: build.verdict.state,
      reason: build.verdict.reason,
      verdictAt: build.verdict.at,
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

interface EnvironmentName {
  readonly app: string;
  readonly environment: string;
}

/** The app is made when it is missing. Throws INVALID_NAME, CONFLICT when the environment exists. */
export async function createEnvironment(
  { app, name }: { app: string; name: string },
  context: RequestContext,
): Promise<Environment> {
  return context.store.transaction(async (store) => {
    if ((await findEnvironment(store, app, name)) !== undefined) {
      throw new SvcError("CONFLICT", `The app "${app}" already has an environment "${name}".`);
    }
    return ensureEnvironment(store, { app, environment: name }, context);
  });
}

/** The environment of these names, made when it is missing. */
export async function ensureEnvironment(
  store: Store,
  names: EnvironmentName,
  context: RequestContext,
): Promise<Environment> {
  refuse([...nameProblems("app", names.app), ...nameProblems("environment", names.environment)]);
  const found = await findEnvironment(store, names.app, names.environment);
  if (found !== undefined) return found;
  requireUnbound(context);
  const made = await makeEnvironment(store, names, await store.apps.findByName(names.app), context);
  await audit(store, context, { action: "environment.create", target: `${names.app}/${names.environment}` });
  return made;
}

async function findEnvironment(store: Store, appName: string, name: string): Promise<Environment | undefined> {
  const app = await store.apps.findByName(appName);
  const environments = app === undefined ? [] : await store.environments.listByApp(app.id);
  return environments.find((environment) => environment.name === name);
}

/** Resolves the names of its endpoints: they finish what they run and go. Throws NOT_FOUND. */
export async function deleteEnvironment(
  { app, name }: { app: string; name: string },
  context: RequestContext,
): Promise<string[]> {
  const { endpoints, deleted } = await context.store.transaction(async (store) => {
    const environment = await knownEnvironment(store, app, name);
    requireEnvironment(context, environment.id);
    const removed = await removeEnvironment(store, environment, context.clock());
    await audit(store, context, { action: "environment.delete", target: `${app}/${name}`, detail: goneWith(removed) });
    return removed;
  });
  for (const id of deleted) await context.jobs.forget(id);
  return endpoints;
}

/** Resolves the names of all its endpoints: they finish what they run and go. Throws NOT_FOUND. */
export async function deleteApp({ name }: { name: string }, context: RequestContext): Promise<string[]> {
  const { endpoints, deleted } = await context.store.transaction(async (store) => {
    const removed = await removeApp(store, await knownApp(store, name), context.clock());
    await audit(store, context, { action: "app.delete", target: name, detail: goneWith(removed) });
    return removed;
  });
  for (const id of deleted) await context.jobs.forget(id);
  return endpoints;
}

function goneWith({ endpoints }: { readonly endpoints: readonly string[] }): string {
  return endpoints.length === 0 ? "" : `with ${endpoints.join(", ")}`;
}
