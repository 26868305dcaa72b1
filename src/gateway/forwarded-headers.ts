/** Which headers pass between the caller and a function, in both directions. */
import { PAGE_TOKEN_HEADER, setsSession, withoutSessions } from "../domain/console-session.ts";
import { SvcError } from "../domain/errors.ts";
import type { HeaderList, LoadBalancedResponse } from "../domain/request.ts";
import { SIGNATURE } from "../domain/signed-url.ts";
import { validateHeaderName, validateHeaderValue } from "../lib/http.ts";
import { HOP_BY_HOP } from "../lib/proxy.ts";
import { SOURCE_HEADER } from "./check-source.ts";
import { serverTiming } from "./server-timing.ts";

/** Those of the connection, and one that is answered where the body is read. */
const NOT_PASSED: ReadonlySet<string> = new Set([...HOP_BY_HOP, "expect", PAGE_TOKEN_HEADER]);

/** Only the platform says these. */
const OWN = new Set(["x-svc-worker-id"]);

/**
 * What would let a page of an endpoint get hold of a page of the platform that has the same origin: a window of the console, or
 * what is fetched for it. An endpoint with a host of its own is another origin.
 */
const OF_ORIGIN = new Set(["cross-origin-opener-policy", "service-worker-allowed"]);

const FORWARDED_FOR = "x-forwarded-for";

/**
 * Names in lower case. A header that carries the platform's key in any form stays here: user code must never see it. Without a `secret`,
 * of a caller without a key, its Authorization is the function's own affair, but what peers of the platform say is not its to say, and no
 * signature of a URL, as in Referer, is. `chain`: who calls, in place of what the caller says alone (ClientAddress).
 */
export function forwardedHeaders(rawHeaders: readonly string[], secret: string | undefined, chain: string): HeaderList {
  const hidden = secret ?? SIGNATURE;
  const headers: (readonly [string, string])[] = [];
  let named: Set<string> | undefined;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const name = rawHeaders[i]!.toLowerCase();
    let value = rawHeaders[i + 1]!;
    if (name === "cookie") value = withoutSessions(value);
    if (name === "connection") named = listedNames(value, named);
    if (secret === undefined ? name.startsWith("x-svc-") : name === "authorization" || name === SOURCE_HEADER) continue;
    if (NOT_PASSED.has(name) || name === FORWARDED_FOR || value.includes(hidden)) continue;
    if (name === "cookie" && value === "") continue;
    headers.push([name, value]);
  }
  // Those that belong to the caller's connection, as it names them, stay here; it names none of what the platform says.
  const passed = named === undefined ? headers : headers.filter(([name]) => !named.has(name));
  const said = chain.includes(hidden) ? chain.slice(chain.lastIndexOf(",") + 1).trim() : chain;
  if (said !== "") passed.push([FORWARDED_FOR, said]);
  return passed;
}

/**
 * The flat list for writeHead: the function's headers, the worker's id and the timing. Throws BAD_RESPONSE for a
 * status or header that would break the HTTP message. `hosted`: the endpoint was asked for under a host of its own.
 */
export function responseHeaders(response: LoadBalancedResponse, isHead: boolean, hosted: boolean): string[] {
  const { status, body, workerId, timing } = response;
  if (!Number.isInteger(status) || status < 200 || status > 599) {
    throw new SvcError("BAD_RESPONSE", `The function answered with the status ${status}; it must be from 200 to 599.`);
  }
  const flat: string[] = [];
  const whole = Buffer.isBuffer(body) && !isHead;
  let length: string | undefined;
  for (const [name, value] of response.headers) {
    check(name, value);
    const lower = name.toLowerCase();
    if (NOT_PASSED.has(lower) || OWN.has(lower)) continue;
    if (lower === "content-length") {
      if (!whole) length = oneLength(length, value);
      continue;
    }
    if ((OF_ORIGIN.has(lower) && !hosted) || (lower === "set-cookie" && setsSession(value))) continue;
    flat.push(name, value);
  }
  const bodyless = isHead || status === 204 || status === 304;
  if (Buffer.isBuffer(body) && !bodyless) flat.push("Content-Length", String(body.length));
  else if (length !== undefined && status !== 204) flat.push("Content-Length", length);
  flat.push("X-Svc-Worker-Id", workerId, "Server-Timing", serverTiming(timing));
  return flat;
}

/** Several lengths, or one that is no number, would let the function say where the next answer on the connection begins. */
function oneLength(before: string | undefined, value: string): string {
  if (/^\d{1,15}$/.test(value) && (before ?? value) === value) return value;
  throw new SvcError("BAD_RESPONSE", `The function set content-length to ${JSON.stringify(value)}.`, {
    help: "It is a number, and there is one of it.",
  });
}

/** A line break in a value would start a header of the caller's choice. */
function check(name: string, value: string): void {
  try {
    validateHeaderName(name);
    validateHeaderValue(name, value);
  } catch {
    throw new SvcError(
      "BAD_RESPONSE",
      `The function set the header ${JSON.stringify(name)} to something HTTP forbids.`,
      {
        help: "Names are letters, digits and hyphens; values are ISO 8859-1 text without line breaks.",
      },
    );
  }
}

function listedNames(connection: string, known: Set<string> | undefined): Set<string> {
  const names = known ?? new Set<string>();
  for (const name of connection.split(",")) names.add(name.trim().toLowerCase());
  return names;
}
