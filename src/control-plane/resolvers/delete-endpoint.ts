import { SvcError } from "../../domain/errors.ts";
import { requireReach, requireScope } from "../authenticate.ts";
import type { RequestContext } from "../context.ts";
import { knownEndpoint } from "../known-endpoint.ts";
import { removeEndpoint } from "../remove-endpoint.ts";

/** Throws WORKERS_NOT_ZERO, ENDPOINT_NOT_FOUND. */
export async function deleteEndpoint(_: unknown, { id }: { id: string }, context: RequestContext): Promise<null> {
  requireScope(context, "deploy");
  const outcome = await context.store.transaction(async (store) => {
    const endpoint = await knownEndpoint(store, id);
    requireReach(context, endpoint);
    if (endpoint.workersMin !== 0 || endpoint.workersMax !== 0) {
      throw new SvcError(
        "WORKERS_NOT_ZERO",
        `Endpoint "${endpoint.name}" (${id}) cannot be deleted: workersMin is ${endpoint.workersMin} and workersMax is ` +
          `${endpoint.workersMax}, both must be 0.`,
        {
          help: `First saveEndpoint(input: {id: "${id}", workersMin: 0, workersMax: 0}), or svc undeploy ${endpoint.name}.`,
        },
      );
    }
    return removeEndpoint(store, endpoint, context.clock());
  });
  if (outcome === "deleted") await context.jobs.forget(id);
  return null;
}
