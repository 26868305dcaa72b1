import { type Principal, reaches } from "../../domain/api-key.ts";
import { SvcError } from "../../domain/errors.ts";
import { LIVE_PREFIX } from "../../domain/names.ts";
import { isRemoved } from "../../domain/removal.ts";
import type { Endpoint } from "../../store/store.ts";
import { requireScope } from "../authenticate.ts";
import type { RequestContext } from "../context.ts";

/**
 * The endpoint that code of one environment means by a name; in a live environment the prefix may be left out. This is
 * all that a worker's token may ask. Throws FORBIDDEN, BAD_INPUT.
 */
export async function peer(_: unknown, { name }: { name: string }, context: RequestContext): Promise<Endpoint | null> {
  const { principal, store } = context;
  if (principal.kind !== "worker") requireScope(context, "read");
  const environmentId = ownEnvironment(principal);
  const all = (await store.endpoints.listByEnvironment(environmentId)).filter((one) => !isRemoved(one));
  const found = all.find((one) => one.name === name) ?? (await liveEndpoint(name, environmentId, all, context));
  return found !== undefined && reaches(principal, found) ? found : null;
}

function ownEnvironment({ environmentId }: Principal): string {
  if (environmentId !== null) return environmentId;
  throw new SvcError("BAD_INPUT", "A peer is looked up in the caller's own environment, and this key has none.", {
    help: "Ask app(name) { environments { name endpoints { name url } } } instead.",
  });
}

async function liveEndpoint(
  name: string,
  environmentId: string,
  all: readonly Endpoint[],
  { loader }: RequestContext,
): Promise<Endpoint | undefined> {
  const environment = await loader.environment(environmentId);
  if (!environment?.name.startsWith(LIVE_PREFIX)) return undefined;
  return all.find((one) => one.name === `${LIVE_PREFIX}${name}`);
}
