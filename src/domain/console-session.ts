/**
 * How a request of the console's page is told from one of any other page, also of one that an endpoint serves below the
 * same address. The cookie alone opens nothing: browsers send it with whatever a page of this address asks for. A request
 * counts as its session's when it also
 *
 * - carries the page's token, which is made of the cookie and stands only in the document that the browser itself
 *   navigated to, where no other page can read it (src/console/html.ts), and
 * - says `Sec-Fetch-Site: same-origin`, which scripts cannot set.
 */
import { createHmac, timingSafeEqual } from "node:crypto";
import type { IncomingMessage } from "node:http";

const COOKIE = "svc_console";
/** The header with the page's token. */
export const PAGE_TOKEN_HEADER = "x-svc-page";

/** Browsers keep cookies by host, whatever the port: platforms of one host keep theirs apart. */
export function sessionCookie({ socket }: Pick<IncomingMessage, "socket">): string {
  return `${COOKIE}_${socket.localPort}`;
}

/** The sessions that the browser brought: one, unless a page has set a cookie of that name itself. */
export function sessionsOf(request: IncomingMessage): string[] {
  const own = `${sessionCookie(request)}=`;
  const cookies = (request.headers.cookie ?? "").split(";").map((one) => one.trim());
  return cookies.filter((one) => one.startsWith(own)).map((one) => one.slice(own.length));
}

export function pageToken(session: string): string {
  return createHmac("sha256", session).update("page of the console").digest("base64url");
}

/** Whether the browser says that a page of this very address asks. */
export function isSameOrigin({ headers }: Pick<IncomingMessage, "headers">): boolean {
  return headers["sec-fetch-site"] === "same-origin";
}

/** Gives a request of the console's page the session it comes with as its key; leaves every other alone. */
export function admitPage(request: IncomingMessage): void {
  const { headers } = request;
  const token = headers[PAGE_TOKEN_HEADER];
  if (typeof token !== "string" || headers.authorization !== undefined || !isSameOrigin(request)) return;
  const session = sessionsOf(request).find((one) => same(pageToken(one), token));
  if (session !== undefined) headers.authorization = `Bearer ${session}`;
}

/** A header's cookies without sessions of a console, of any port: they are nothing for user code. */
export function withoutSessions(cookies: string): string {
  if (!cookies.includes(COOKIE)) return cookies;
  const kept = cookies.split(";").filter((one) => !setsSession(one));
  return kept.join(";").trim();
}

/** Whether a cookie, also one that is set, has the name of a session. */
export function setsSession(cookie: string): boolean {
  return cookie.trimStart().startsWith(COOKIE);
}

function same(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)];
  return a.length === b.length && timingSafeEqual(a, b);
}
