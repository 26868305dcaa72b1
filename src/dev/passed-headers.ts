/** Headers of a local call as the platform gets them: the caller's own, with the key and the source in place of nothing. */
import { HOP_BY_HOP } from "../lib/hop-by-hop.ts";
import type { Outgoing } from "./pass-through.ts";

const REPLACED = new Set(["authorization", "expect", "host", "x-svc-source"]);

/** A body keeps its form: chunked as it came, or of a length that is known. */
function isPassed(name: string): boolean {
  return name === "transfer-encoding" || !(HOP_BY_HOP.has(name) || REPLACED.has(name));
}

/** A flat list for node:http. */
export function passedHeaders(raw: readonly string[], { endpoint, platform, source }: Outgoing): string[] {
  const flat = ["Host", endpoint.host];
  for (let i = 0; i < raw.length; i += 2) {
    if (isPassed(raw[i]!.toLowerCase())) flat.push(raw[i]!, raw[i + 1]!);
  }
  if (platform.apiKey !== undefined) flat.push("Authorization", `Bearer ${platform.apiKey}`);
  if (source !== undefined) flat.push("X-Svc-Source", source);
  return flat;
}
