/**
 * Tickets with which a host fetches the layers that it was asked to prepare: `svcl_<host>.<expires>.<mac>`, good for one layer.
 *
 *   host     id of the host
 *   expires  seconds since the epoch
 *   mac      HMAC-SHA256 of the digest, the host and that time, with a key of this purpose alone
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import { SvcError } from "./errors.ts";
import { LAYER_TICKET_S } from "./limits.ts";

const PREFIX = "svcl_";
const TICKET = /^svcl_([\w-]{1,100})\.(\d{1,12})\.([\w-]{43})$/;

export function isLayerTicket(secret: string): boolean {
  return secret.startsWith(PREFIX);
}

/** `now` in milliseconds since the epoch. */
export function signLayer(key: Uint8Array, digest: string, host: string, now: number): string {
  const expires = String(Math.floor(now / 1000) + LAYER_TICKET_S);
  return `${PREFIX}${host}.${expires}.${macOf(key, digest, host, expires).toString("base64url")}`;
}

/** Id of the host that it was given to, by whichever key. Throws WRONG_SIGNATURE, URL_EXPIRED. */
export function checkLayerTicket(keys: readonly Uint8Array[], digest: string, ticket: string, now: number): string {
  const [, host = "", expires = "", mac] = TICKET.exec(ticket) ?? [];
  const given = Buffer.from(mac ?? "", "base64url");
  if (!keys.some((key) => isSame(given, macOf(key, digest, host, expires)))) {
    throw new SvcError("WRONG_SIGNATURE", "This ticket is not for this layer of this platform.");
  }
  if (now >= Number(expires) * 1000) {
    throw new SvcError("URL_EXPIRED", "This ticket has expired.", {
      help: "The platform gives a new one when it asks again.",
    });
  }
  return host;
}

function isSame(given: Buffer, expected: Buffer): boolean {
  return given.length === expected.length && timingSafeEqual(given, expected);
}

function macOf(key: Uint8Array, digest: string, host: string, expires: string): Buffer {
  return createHmac("sha256", key)
    .update(JSON.stringify(["layer v1", digest, host, expires]))
    .digest();
}
