import { requireEnvironment, requireScope } from "../authenticate.ts";
import type { RequestContext } from "../context.ts";
import { knownEnvironment } from "../known-environment.ts";
import { removeEnvironment } from "../remove-environment.ts";

/** Resolves the names of its endpoints: they finish what they run and go. Throws NOT_FOUND. */
export async function deleteEnvironment(
  _: unknown,
  { app, name }: { app: string; name: string },
  context: RequestContext,
): Promise<string[]> {
  requireScope(context, "deploy");
  const { endpoints, deleted } = await context.store.transaction(async (store) => {
    const environment = await knownEnvironment(store, app, name);
    requireEnvironment(context, environment.id);
    return removeEnvironment(store, environment, context.clock());
  });
  for (const id of deleted) await context.jobs.forget(id);
  return endpoints;
}
