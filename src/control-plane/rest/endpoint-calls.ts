/** What both forms of the REST API do alike. */
import { SvcError } from "../../domain/errors.ts";
import type { Endpoint } from "../../store/store.ts";
import { account } from "../resolvers/account.ts";
import { deleteEndpoint, endpoint } from "../resolvers/endpoints.ts";
import { saveEndpoint } from "../resolvers/save-endpoint.ts";
import type { RestCall } from "./route.ts";

/** Those that the key reaches. */
export function endpointsOfCall({ context }: RestCall): Promise<Endpoint[]> {
  return account.endpoints(undefined, {}, context);
}

/** Throws ENDPOINT_NOT_FOUND, also for one that the key does not reach. */
export async function endpointOfCall({ id, context }: RestCall): Promise<Endpoint> {
  const found = await endpoint({ id }, context);
  if (found !== null) return found;
  throw new SvcError("ENDPOINT_NOT_FOUND", `There is no endpoint with the id ${JSON.stringify(id.slice(0, 80))}.`, {
    help: "List them with `svc undeploy list`.",
  });
}

/** Its workers finish what they run. */
export async function removeEndpointOfCall(call: RestCall): Promise<undefined> {
  const { context } = call;
  const { id, workersMax } = await endpointOfCall(call);
  if (workersMax > 0) await saveEndpoint({ input: { id, workersMin: 0, workersMax: 0 } }, context);
  await deleteEndpoint({ id }, context);
}
