import { SvcError } from "../../domain/errors.ts";
import { signTarget } from "../../domain/signed-url.ts";
import { requireReach } from "../authenticate.ts";
import type { RequestContext } from "../context.ts";
import { knownEndpoint } from "../known.ts";
import { endpointUrl } from "./endpoints.ts";

interface UrlInput {
  readonly endpoint: string;
  readonly path: string;
  readonly method?: string | null;
  readonly expiresInSeconds: number;
  readonly prefix?: boolean | null;
}

/** A URL that makes one call without a key. It ends with the key that asks for it; one of a worker with its endpoint. */
export async function signUrl({ input }: { input: UrlInput }, context: RequestContext) {
  const { principal, store, signingKey, clock, config } = context;
  const endpoint = await knownEndpoint(store, input.endpoint);
  requireReach(context, endpoint);
  if (endpoint.kind === "queue") {
    throw new SvcError("WRONG_ENDPOINT_KIND", `Endpoint "${endpoint.name}" is queue-based: its jobs need a key.`, {
      help: "Signed URLs are for routes of load-balanced endpoints; one of them can hand in the job.",
    });
  }
  const method = (input.method ?? "GET").toUpperCase();
  const { target, expiresAt } = signTarget(
    signingKey,
    {
      endpointId: endpoint.id,
      signer: principal.kind === "worker" ? `e-${principal.ofEndpoint}` : `k-${principal.id}`,
      method,
      target: input.path,
      isPrefix: input.prefix ?? false,
      expiresInS: input.expiresInSeconds,
    },
    clock(),
  );
  const url = endpointUrl(endpoint, config) + target;
  return { url: method === "WEBSOCKET" ? url.replace(/^http/, "ws") : url, expiresAt };
}
