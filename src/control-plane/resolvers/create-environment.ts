import { SvcError } from "../../domain/errors.ts";
import type { Environment, Store } from "../../store/store.ts";
import { requireScope, requireUnbound } from "../authenticate.ts";
import type { RequestContext } from "../context.ts";
import { makeEnvironment } from "../deploy/apply.ts";
import { nameProblems, refuse } from "../deploy/build-request.ts";

interface EnvironmentName {
  readonly app: string;
  readonly environment: string;
}

/** The app is made when it is missing. Throws INVALID_NAME, CONFLICT when the environment exists. */
export async function createEnvironment(
  _: unknown,
  { app, name }: { app: string; name: string },
  context: RequestContext,
): Promise<Environment> {
  requireScope(context, "deploy");
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
  return makeEnvironment(store, names, await store.apps.findByName(names.app), context);
}

async function findEnvironment(store: Store, appName: string, name: string): Promise<Environment | undefined> {
  const app = await store.apps.findByName(appName);
  const environments = app === undefined ? [] : await store.environments.listByApp(app.id);
  return environments.find((environment) => environment.name === name);
}
