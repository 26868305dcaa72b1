/** Headers of a local call as the platform gets them: the caller's own, with the key and the source in place of nothing. */
import type { Outgoing } from "./pass-through.ts";

const LEFT_OUT = new Set([
  "authorization",
  "connection",
  "expect",
  "host",
  "keep-alive",
  "proxy-authorization",
  "proxy-connection",
  "te",
  "trailer",
  "upgrade",
  "x-svc-source",
]);

/** A flat list for node:http. */
export function passedHeaders(raw: readonly string[], { url, platform, source }: Outgoing): string[] {
  const flat = ["Host", new URL(url).host];
  for (let i = 0; i < raw.length; i += 2) {
    if (!LEFT_OUT.has(raw[i]!.toLowerCase())) flat.push(raw[i]!, raw[i + 1]!);
  }
  if (platform.apiKey !== undefined) flat.push("Authorization", `Bearer ${platform.apiKey}`);
  if (source !== undefined) flat.push("X-Svc-Source", source);
  return flat;
}
