/**
 * The local server asks for no key, which is right as long as only this machine reaches it. Listening for others it asks every
 * caller for a token: in the address that the terminal shows (`?svc_token=`, kept by a browser as a cookie), or as
 * `Authorization: Bearer TOKEN`. What it was asked with goes no further. A browser keeps cookies by host, whatever the port: their
 * name has the port, so that servers of one host keep theirs apart.
 */
import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { isIPv6 } from "node:net";
import { networkInterfaces } from "node:os";
import { SvcError } from "../domain/errors.ts";
import { LOCAL_TOKEN_BYTES } from "../domain/limits.ts";

const NAME = "svc_token";

export class OpenToken {
  readonly text = randomBytes(LOCAL_TOKEN_BYTES).toString("base64url");

  /** Throws MISSING_KEY. Takes the token out of the request; `res` gets the cookie when a browser brought it in its address. */
  check(req: IncomingMessage, res?: ServerResponse): void {
    const url = takeFromQuery(req);
    const cookie = takeFromCookies(req);
    const header = /^Bearer\s+(\S+)$/i.exec(req.headers.authorization ?? "")?.[1];
    if (![url, cookie, header].some((given) => given !== undefined && same(given, this.text))) {
      throw new SvcError("MISSING_KEY", "This server is open to the network and asks for its token.", {
        help: "Use the address that svc run shows, or send Authorization: Bearer TOKEN with the token in it.",
      });
    }
    if (url !== undefined) {
      res?.setHeader("Set-Cookie", `${cookieName(req)}=${this.text}; HttpOnly; SameSite=Strict; Path=/`);
    }
  }

  /** The addresses under which the server is reached, with the token. */
  addresses(host: string, port: number): string[] {
    return reachable(host).map((one) => `http://${isIPv6(one) ? `[${one}]` : one}:${port}/docs?${NAME}=${this.text}`);
  }
}

function reachable(host: string): string[] {
  if (host !== "0.0.0.0" && host !== "::" && host !== "") return [host];
  const all = Object.values(networkInterfaces()).flatMap((found) => found ?? []);
  const fitting = all.filter(
    ({ family, address }) => (host !== "0.0.0.0" || family === "IPv4") && !address.startsWith("fe80:"),
  );
  return fitting.length === 0 ? ["localhost"] : fitting.map(({ address }) => address);
}

function takeFromQuery(req: IncomingMessage): string | undefined {
  const [path = "/", query] = (req.url ?? "/").split(/\?(.*)/s, 2);
  if (query === undefined) return undefined;
  const parts = query.split("&");
  const rest = parts.filter((part) => !part.startsWith(`${NAME}=`));
  if (rest.length === parts.length) return undefined;
  req.url = rest.length === 0 ? path : `${path}?${rest.join("&")}`;
  return parts.find((part) => part.startsWith(`${NAME}=`))!.slice(NAME.length + 1);
}

function cookieName(req: IncomingMessage): string {
  return `${NAME}_${req.socket.localPort}`;
}

/** Takes those of other ports out too. */
function takeFromCookies(req: IncomingMessage): string | undefined {
  const own = `${cookieName(req)}=`;
  let found: string | undefined;
  const raw = req.rawHeaders;
  for (let i = 0; i < raw.length; i += 2) {
    if (raw[i]!.toLowerCase() !== "cookie") continue;
    const cookies = raw[i + 1]!.split(";").map((one) => one.trim());
    found ??= cookies.find((one) => one.startsWith(own))?.slice(own.length);
    raw[i + 1] = cookies.filter((one) => !one.startsWith(`${NAME}_`)).join("; ");
  }
  return found;
}

function same(given: string, token: string): boolean {
  const digest = (text: string) => createHash("sha256").update(text).digest();
  return timingSafeEqual(digest(given), digest(token));
}
