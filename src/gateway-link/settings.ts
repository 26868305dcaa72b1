/** What a gateway is told by its owner when it is let in: settings, and the keys of what it makes and checks itself. */
import type { GatewayContext, GatewaySettings } from "../gateway/context.ts";

export interface SharedSettings
  extends Pick<GatewaySettings, "domain" | "requestTimeoutMs" | "trustedProxies" | "retention"> {
  /** Calls of job routes are counted, at the owner. */
  readonly countsCalls: boolean;
  /** Calls without a key are counted, at the owner. */
  readonly countsOpenCalls: boolean;
  readonly traces: boolean;
  /** In base64; undefined: no URLs are signed. */
  readonly signingKeys: readonly string[] | undefined;
  readonly ownerKeys: readonly string[];
  /** `host:port` where workers of other machines dial; absent: nowhere. */
  readonly workersAt?: string | undefined;
}

/** The keys that such texts hold. */
export function keysIn(texts: readonly string[]): Buffer[] {
  return texts.map((text) => Buffer.from(text, "base64"));
}

export function sharedSettings(context: GatewayContext): SharedSettings {
  const { domain, requestTimeoutMs, trustedProxies, publicCallsMax = 0 } = context.settings;
  const base64 = (key: Uint8Array) => Buffer.from(key).toString("base64");
  return {
    domain,
    requestTimeoutMs,
    ...(trustedProxies !== undefined && { trustedProxies }),
    retention: context.retention,
    countsCalls: context.rates !== undefined,
    countsOpenCalls: publicCallsMax > 0,
    traces: context.traces !== undefined,
    signingKeys: context.signing?.keys.map(base64),
    ownerKeys: (context.ownerKeys ?? []).map(base64),
  };
}
