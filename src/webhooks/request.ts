/**
 * One POST of a webhook. The address is checked where it is dialled, after the name was resolved: a name may point
 * anywhere, and to somewhere else a moment later. Redirects are answers like any other.
 */
import type { LookupAddress } from "node:dns";
import type { ClientRequest } from "node:http";
import { request as httpsRequest } from "node:https";
import { isIP } from "node:net";
import { WEBHOOK_ANSWER_MAX_BYTES } from "../domain/limits.ts";
import { request as httpRequest } from "../lib/http.ts";
import { isPublicAddress } from "./public-address.ts";
import { receiverLookup } from "./receiver-names.ts";

/** The receiver's address is not one that webhooks may reach. */
export class PrivateAddress extends Error {
  override name = "PrivateAddress";

  constructor(host: string) {
    super(`${host} is a private address; SVC_WEBHOOK_PRIVATE=1 allows those`);
  }
}

export interface WebhookRequest {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  /** Aborts the request, also while it connects. */
  readonly signal: AbortSignal;
  readonly allowPrivate: boolean;
}

/** Resolves the status of the answer. Throws PrivateAddress, or why there was no answer. */
export function postWebhook({ url: text, headers, body, signal, allowPrivate }: WebhookRequest): Promise<number> {
  return new Promise((resolve, reject) => {
    const url = new URL(text);
    const host = url.hostname.replace(/^\[|\]$/g, "");
    // An address in the URL is never looked up.
    if (!allowPrivate && isIP(host) !== 0 && !isPublicAddress(host)) throw new PrivateAddress(host);
    const send = url.protocol === "https:" ? httpsRequest : httpRequest;
    const req: ClientRequest = send(url, {
      method: "POST",
      headers: { ...headers, "content-length": body.length },
      agent: false,
      signal,
      lookup: receiverLookup(signal, allowPrivate ? (_, addresses) => addresses : onlyPublic),
    });
    let status: number | undefined;
    let failure: Error | undefined;
    req.on("response", (res) => {
      status = res.statusCode;
      let bytes = 0;
      res.on("data", (chunk: Buffer) => {
        bytes += chunk.length;
        if (bytes > WEBHOOK_ANSWER_MAX_BYTES) res.destroy();
      });
      res.on("error", () => {}); // The status is all that counts.
    });
    req.on("error", (error) => {
      failure = error;
    });
    req.on("close", () => {
      if (status !== undefined) resolve(status);
      else reject(failure ?? new Error("the connection ended without an answer"));
    });
    req.end(body);
  });
}

function onlyPublic(name: string, addresses: readonly LookupAddress[]): readonly LookupAddress[] {
  const allowed = addresses.filter(({ address }) => isPublicAddress(address));
  if (allowed.length === 0) throw new PrivateAddress(name);
  return allowed;
}
