/** Calls by name: /v2/flash/… and flash.<domain>, where three headers say which endpoint is meant. */
import type { IncomingMessage } from "node:http";
import { type Principal, reaches } from "../domain/api-key.ts";
import { SvcError } from "../domain/errors.ts";
import type { CalledEndpoint } from "../store/store.ts";

export interface EndpointName {
  readonly app: string;
  readonly environment: string;
  readonly endpoint: string;
}

const HEADERS = { app: "X-Flash-App", environment: "X-Flash-Environment", endpoint: "X-Flash-Endpoint" };

/**
 * Throws BAD_INPUT when a header is missing, and ENDPOINT_NOT_FOUND, also for one that the principal does not reach: names
 * can be guessed, and a key learns nothing of other places.
 */
export async function namedEndpoint(
  req: IncomingMessage,
  principal: Principal,
  find: (name: EndpointName) => Promise<CalledEndpoint | undefined>,
): Promise<CalledEndpoint> {
  const [app, environment, endpoint] = [HEADERS.app, HEADERS.environment, HEADERS.endpoint].map((header) => {
    const value = req.headers[header.toLowerCase()];
    return typeof value === "string" ? value.trim() : "";
  }) as [string, string, string];
  if (app === "" || environment === "" || endpoint === "") {
    throw new SvcError("BAD_INPUT", `A call by name needs the headers ${Object.values(HEADERS).join(", ")}.`, {
      help: "Or call the endpoint by its id, in place of flash.",
    });
  }
  const found = await find({ app, environment, endpoint });
  if (found !== undefined && reaches(principal, found)) return found;
  const shown = [endpoint, app, environment].map((name) => JSON.stringify(name.slice(0, 80)));
  throw new SvcError(
    "ENDPOINT_NOT_FOUND",
    `There is no endpoint ${shown[0]} in the app ${shown[1]}, environment ${shown[2]}.`,
    {
      help: "`svc status` shows what is deployed; the names are those of svc deploy --app and --env.",
    },
  );
}
