/** `X-Svc-Source: <digest>`: the call must run on code of this source layer. `svc run` sends it with every call. */
import type { IncomingMessage } from "node:http";
import { SvcError } from "../domain/errors.ts";
import type { CalledEndpoint } from "../store/store.ts";
import type { GatewayContext } from "./context.ts";

export const SOURCE_HEADER = "x-svc-source";

/** Throws SOURCE_OUTDATED, before anything of the body is read. */
export async function checkSource(
  req: IncomingMessage,
  endpoint: CalledEndpoint,
  gateway: GatewayContext,
): Promise<void> {
  const wanted = req.headers[SOURCE_HEADER];
  if (wanted === undefined) return;
  const runs = endpoint.buildId === null ? undefined : await gateway.sourceOf?.(endpoint.buildId);
  if (runs === wanted) return;
  throw new SvcError(
    "SOURCE_OUTDATED",
    `Endpoint "${endpoint.name}" runs other code than the one that was asked for.`,
    {
      help: "Deploy the code and call again.",
    },
  );
}
