/**
 * Who may call the local server. It runs the user's code with the user's key and asks for no key itself, so a page
 * that the user happens to look at must not reach it:
 *
 * - a page whose own name was made to point here (DNS rebinding) sends that name as Host: refused;
 * - a page of another origin sends its Origin, or `Sec-Fetch-Site` where a browser sends no Origin (an image, a form,
 *   a link): refused, unless its origin was asked for.
 *
 * Programs (curl, a test) send neither and are let through.
 */
import type { IncomingHttpHeaders } from "node:http";
import { isIP } from "node:net";
import { originsOf } from "../domain/cors.ts";

export interface Caller {
  readonly method: string | undefined;
  /** As it was sent: path and query. */
  readonly url: string | undefined;
  readonly headers: IncomingHttpHeaders;
}

export interface GuardOptions {
  /** The address that `--host` names. */
  readonly host: string;
  /** Origins of browser pages that may call, as an endpoint's `cors`: "*", a comma list, "" for none. */
  readonly cors?: string;
}

export interface Refusal {
  /** What is wrong, as a sentence. */
  readonly message: string;
  readonly help: string;
}

/** Why a request is refused (status 403); undefined for one that may go on. */
export function refusalOf(caller: Caller, { host, cors = "" }: GuardOptions): Refusal | undefined {
  const given = caller.headers.host ?? "";
  const name = hostName(given);
  if (name === undefined || !isOwnName(name, host)) {
    return {
      message: `This server does not answer to the name ${JSON.stringify(given)}.`,
      help: `Call it as localhost, or start it with --host ${name ?? "NAME"}.`,
    };
  }
  const { origin } = caller.headers;
  if (origin !== undefined) {
    if (isSameOrigin(origin, given) || isAllowed(origin, cors)) return undefined;
    return {
      message: `A page of ${JSON.stringify(origin)} may not call this server.`,
      help: "Declare the endpoint with cors=[…] to let pages of that origin call it.",
    };
  }
  const site = caller.headers["sec-fetch-site"];
  if (site === undefined || site === "same-origin" || site === "none" || cors === "*") return undefined;
  if (isLinkToThePage(caller)) return undefined;
  return {
    message: "A page of another origin may not call this server.",
    help: "Open the address yourself, or declare the endpoint with cors=[…].",
  };
}

/** Name or address of a Host header, without port and brackets, in lower case. */
function hostName(header: string): string | undefined {
  const match = /^(?:\[([0-9a-f:.]+)\]|([a-z0-9._-]+))(?::\d{1,5})?$/i.exec(header);
  return (match?.[1] ?? match?.[2])?.toLowerCase().replace(/\.$/, "");
}

/** A server on all addresses is called by any of them; an address, unlike a name, cannot be made to point elsewhere. */
function isOwnName(name: string, bound: string): boolean {
  if (name === "localhost" || name === "127.0.0.1" || name === "::1" || name === bound.toLowerCase()) return true;
  return (bound === "0.0.0.0" || bound === "::" || bound === "") && isIP(name) !== 0;
}

/** Whatever stands in front (a tunnel, a proxy that speaks TLS) keeps the name and the port that the page was loaded by. */
function isSameOrigin(origin: string, host: string): boolean {
  return (
    origin.toLowerCase() === `http://${host.toLowerCase()}` || origin.toLowerCase() === `https://${host.toLowerCase()}`
  );
}

function isAllowed(origin: string, cors: string): boolean {
  return cors === "*" || originsOf(cors).includes(origin.toLowerCase());
}

/** Following a link to the explorer or the health check runs nothing. */
function isLinkToThePage({ method, url = "", headers }: Caller): boolean {
  const path = url.split("?", 1)[0];
  const page = path === "/" || path === "/docs" || path === "/docs/";
  return (
    page && method === "GET" && headers["sec-fetch-mode"] === "navigate" && headers["sec-fetch-dest"] === "document"
  );
}
