/**
 * Tickets with which a host fetches the layers that it was asked to prepare: `svcl_<expires>.<mac>`, good for one layer.
 *
 *   expires  seconds since the epoch
 *   mac      HMAC-SHA256 of the digest and that time, with a key of this purpose alone
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import { SvcError } from "./errors.ts";
import { LAYER_TICKET_S } from "./limits.ts";

const PREFIX = "svcl_";
const TICKET = /^svcl_(\d{1,12})\.([\w-]{43})$/;

export function isLayerTicket(secret: string): boolean {
  return secret.startsWith(PREFIX);
}

/** `now` in milliseconds since the epoch. */
export function signLayer(key: Uint8Array, digest: string, now: number): string {
  const expires = String(Math.floor(now / 1000) + LAYER_TICKET_S);
  return `${PREFIX}${expires}.${macOf(key, digest, expires).toString("base64url")}`;
}

/** Throws WRONG_SIGNATURE, URL_EXPIRED. */
export function checkLayerTicket(key: Uint8Array, digest: string, ticket: string, now: number): void {
  const [, expires, mac] = TICKET.exec(ticket) ?? [];
  const given = Buffer.from(mac ?? "", "base64url");
  const expected = macOf(key, digest, expires ?? "");
  if (mac === undefined || given.length !== expected.length || !timingSafeEqual(given, expected)) {
    throw new SvcError("WRONG_SIGNATURE", "This ticket is not for this layer of this platform.");
  }
  if (now >= Number(expires) * 1000) {
    throw new SvcError("URL_EXPIRED", "This ticket has expired.", {
      help: "The platform gives a new one when it asks again.",
    });
  }
}

function macOf(key: Uint8Array, digest: string, expires: string): Buffer {
  return createHmac("sha256", key)
    .update(JSON.stringify(["layer v1", digest, expires]))
    .digest();
}
