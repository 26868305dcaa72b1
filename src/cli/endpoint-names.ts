import { findPlatform } from "./connect.ts";
import type { CliContext } from "./context.ts";

/** Names of the key's endpoints for a shell's Tab, sorted; rejects when there is no platform that answers within `maxMs`. */
export async function endpointNames(context: CliContext, maxMs: number): Promise<string[]> {
  const connection = await findPlatform(context);
  if (connection?.apiKey === undefined) return [];
  return [...new Set(await connection.controlPlane.endpointNames(AbortSignal.timeout(maxMs)))].sort();
}
