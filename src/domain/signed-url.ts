/**
 * Signed URLs: `?svc_signature=<expires>.<signer>.<method>.<scope>.<mac>` lets who has the URL make this one call of a
 * load-balanced endpoint, without a key, until it expires.
 *
 *   expires  seconds since the epoch
 *   signer   k-<key id>, or e-<endpoint id> for its workers: what the signer may not, or is no more, the URL may not
 *   scope    "x": this path and this query, byte for byte; p<n>: every path that begins with the first n characters
 *   mac      HMAC-SHA256 of all of it and the endpoint's id, with a key derived for the signer
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import { SvcError } from "./errors.ts";
import { SIGNED_PATH_MAX_CHARS, SIGNED_URL_MAX_S } from "./limits.ts";

export const SIGNATURE = "svc_signature=";
export const SIGNED_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "WEBSOCKET"] as const;

const MAC_CHARS = 43;
const TOKEN = new RegExp(
  `^(\\d{1,12})\\.([ke]-[\\w-]{1,64})\\.([A-Z]{1,12})\\.(x|p\\d{1,5})\\.([\\w-]{${MAC_CHARS}})$`,
);

/** Parts of a path that a server behind may read as another path. */
const AMBIGUOUS = /(^|\/)(\.|%2e){1,2}(\/|$)|\/\/|%2f|%5c|\\|%00/i;

export interface UrlToSign {
  readonly endpointId: string;
  /** As in the token. */
  readonly signer: string;
  readonly method: string;
  /** Below the endpoint's URL, perhaps with a query. */
  readonly target: string;
  /** Every path that begins with the target's. */
  readonly isPrefix: boolean;
  readonly expiresInS: number;
}

/** The target with its signature, and when it expires (milliseconds). Throws BAD_INPUT with every fault. */
export function signTarget(secret: Uint8Array, given: UrlToSign, now: number): { target: string; expiresAt: number } {
  const { endpointId, signer, method, isPrefix } = given;
  const [path, query] = normal(given.target);
  const problems = [...problemsOf(given, path, query)];
  if (problems.length > 0) throw new SvcError("BAD_INPUT", problems.join(" "));
  const expires = String(Math.floor(now / 1000) + given.expiresInS);
  const scope = isPrefix ? `p${path.length}` : "x";
  const signed = isPrefix ? path : `${path}?${query}`;
  const mac = macOf(secret, { endpointId, signer, method, scope, signed, expires }).toString("base64url");
  const token = `${SIGNATURE}${[expires, signer, method, scope, mac].join(".")}`;
  return { target: `${path}?${query === "" ? "" : `${query}&`}${token}`, expiresAt: Number(expires) * 1000 };
}

export interface SignedCall {
  readonly signer: string;
  /** Without the signature. */
  readonly query: string;
}

/** By whichever secret. Throws WRONG_SIGNATURE, URL_EXPIRED. `path` and `query` as they were sent. */
export function checkSigned(
  secrets: readonly Uint8Array[],
  call: { readonly endpointId: string; readonly method: string; readonly path: string; readonly query: string },
  now: number,
): SignedCall {
  const parts = call.query.split("&");
  const tokens = parts.filter((part) => part.startsWith(SIGNATURE));
  const [, expires, signer, method, scope, mac] = TOKEN.exec(tokens[0]?.slice(SIGNATURE.length) ?? "") ?? [];
  if (tokens.length !== 1 || mac === undefined || call.path.length > SIGNED_PATH_MAX_CHARS) {
    throw wrong("its signature cannot be read");
  }
  const query = parts.filter((part) => !part.startsWith(SIGNATURE)).join("&");
  const { endpointId, path } = call;
  const length = scope === "x" ? 0 : Number(scope!.slice(1));
  const signed = scope === "x" ? `${path}?${query}` : path.slice(0, length);
  const whole = { endpointId, signer: signer!, method: method!, scope: scope!, signed, expires: expires! };
  const given = Buffer.from(mac, "base64url");
  const isSame = (expected: Buffer) => given.length === expected.length && timingSafeEqual(given, expected);
  if (!secrets.some((secret) => isSame(macOf(secret, whole)))) {
    throw wrong("path, query, method, endpoint or time differ from what was signed");
  }
  if (scope !== "x" && AMBIGUOUS.test(path)) throw wrong("its path leads out of what was signed");
  if (method !== call.method && !(method === "GET" && call.method === "HEAD")) {
    throw wrong(`it is for ${method}, not for ${call.method}`);
  }
  if (now >= Number(expires) * 1000) {
    throw new SvcError("URL_EXPIRED", `This URL was valid until ${new Date(Number(expires) * 1000).toISOString()}.`, {
      help: "Ask for a new one.",
    });
  }
  return { signer: signer!, query };
}

function wrong(why: string): SvcError {
  return new SvcError("WRONG_SIGNATURE", `This signed URL is not valid: ${why}.`, { help: "Ask for a new one." });
}

function macOf(secret: Uint8Array, parts: Readonly<Record<string, string>>): Buffer {
  const { endpointId, signer, method, scope, signed, expires } = parts;
  const own = createHmac("sha256", secret).update(`url ${signer}`).digest();
  const message = JSON.stringify(["v1", endpointId, method, scope, signed, expires]);
  return createHmac("sha256", own).update(message).digest();
}

/** As a browser sends it. */
function normal(target: string): readonly [path: string, query: string] {
  if (!target.startsWith("/") || target.startsWith("//") || !URL.canParse(target, "http://x")) return ["", ""];
  const { pathname, search, host } = new URL(target, "http://x");
  return host === "x" ? [pathname, search.slice(1)] : ["", ""];
}

function* problemsOf(given: UrlToSign, path: string, query: string): Iterable<string> {
  const { method, isPrefix, expiresInS } = given;
  if (path === "" || AMBIGUOUS.test(path)) yield 'The path is one below the endpoint\'s URL, such as "/files/a.png".';
  if (path.length + query.length > SIGNED_PATH_MAX_CHARS) {
    yield `Path and query have at most ${SIGNED_PATH_MAX_CHARS} characters.`;
  }
  if (query.includes(SIGNATURE)) yield "The query is signed already.";
  if (isPrefix && query !== "") yield "With a prefix every query is allowed: leave it out of the path.";
  if (isPrefix && !path.endsWith("/")) yield `A prefix ends with a slash, as in "${path}/".`;
  if (!(SIGNED_METHODS as readonly string[]).includes(method))
    yield `The method is one of ${SIGNED_METHODS.join(", ")}.`;
  if (!Number.isInteger(expiresInS) || expiresInS < 1 || expiresInS > SIGNED_URL_MAX_S) {
    yield `It expires in a whole number of seconds from 1 to ${SIGNED_URL_MAX_S} (7 days).`;
  }
}
