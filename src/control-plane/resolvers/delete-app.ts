import { requireScope, requireUnbound } from "../authenticate.ts";
import type { RequestContext } from "../context.ts";
import { knownApp } from "../known-environment.ts";
import { removeApp } from "../remove-environment.ts";

/** Resolves the names of all its endpoints: they finish what they run and go. Throws NOT_FOUND. */
export async function deleteApp(_: unknown, { name }: { name: string }, context: RequestContext): Promise<string[]> {
  requireScope(context, "deploy");
  requireUnbound(context);
  const { endpoints, deleted } = await context.store.transaction(async (store) =>
    removeApp(store, await knownApp(store, name), context.clock()),
  );
  for (const id of deleted) await context.jobs.forget(id);
  return endpoints;
}
