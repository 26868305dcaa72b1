/**
 * The console's HTTP side: `GET /` for browsers, its files, and its sessions.
 *
 *   svc console ─▶ createConsoleLink ─▶ /console/login#CODE ─▶ POST /console/login {code} ─▶ cookie ─▶ GET /
 *                                                              POST /console/logout
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { type KeyChecker, newSecret, type Principal, presentedSecret } from "../domain/api-key.ts";
import { isSameOrigin, sessionCookie, sessionsOf } from "../domain/console-session.ts";
import { errorBody, SvcError } from "../domain/errors.ts";
import { CONSOLE_LOGIN_BODY_MAX_BYTES, CONSOLE_SESSION_MS, CONSOLE_SESSIONS_PER_KEY_MAX } from "../domain/limits.ts";
import { ClientAddress } from "../lib/client-address.ts";
import { timeOrderedUuid } from "../lib/uuid.ts";
import type { Store } from "../store/store.ts";
import { Assets } from "./assets.ts";
import { consolePage, DOCUMENT_HEADERS, loginPage, noSessionPage, notSafePage } from "./html.ts";
import type { ConsoleLinks } from "./links.ts";

interface ConsoleDeps {
  readonly store: Store;
  readonly keys: KeyChecker;
  readonly links: ConsoleLinks;
  /** Whose X-Forwarded-For is believed: addresses and networks. */
  readonly trustedProxies: readonly string[];
  /** Milliseconds since the epoch. */
  readonly clock: () => number;
  /** Told about failures that callers do not get to see. */
  readonly log: { error(message: string, cause: unknown): void };
}

export class Console {
  readonly #deps: ConsoleDeps;
  readonly #address: ClientAddress;
  #assets: Assets | undefined;

  constructor(deps: ConsoleDeps) {
    this.#deps = deps;
    this.#address = new ClientAddress(deps.trustedProxies);
  }

  /** Undefined: the request is not for the console. The promise never rejects. */
  answer(request: IncomingMessage, response: ServerResponse): Promise<void> | undefined {
    const pathname = (request.url ?? "/").split("?", 1)[0]!;
    const isPage = pathname === "/" && request.method === "GET" && wantsPage(request);
    if (!isPage && !pathname.startsWith("/console/")) return undefined;
    return this.#route(request, response, pathname).catch((error) => this.#fail(response, error));
  }

  async #route(request: IncomingMessage, response: ServerResponse, pathname: string): Promise<void> {
    this.#assets ??= new Assets();
    const { method } = request;
    if (pathname === "/") return this.#page(request, response, this.#assets);
    if (pathname === "/console/login" && method === "GET") {
      return send(response, isTold(request) ? loginPage(this.#assets) : notSafePage(this.#assets));
    }
    if (pathname === "/console/login" && method === "POST") return this.#login(request, response);
    if (pathname === "/console/logout" && method === "POST") return this.#logout(request, response);
    const asset = method === "GET" ? this.#assets.find(pathname) : undefined;
    if (asset === undefined) throw new SvcError("NOT_FOUND", `There is nothing at ${method} ${pathname}.`);
    const isZipped = /\bgzip\b/.test(String(request.headers["accept-encoding"] ?? ""));
    response.writeHead(200, {
      "Content-Type": asset.type,
      "Cache-Control": "max-age=31536000, immutable",
      "Cross-Origin-Resource-Policy": "same-origin",
      "X-Content-Type-Options": "nosniff",
      Vary: "Accept-Encoding",
      ...(isZipped && { "Content-Encoding": "gzip" }),
    });
    response.end(isZipped ? asset.zipped : asset.body);
  }

  /** Only a document that the browser itself goes to gets the token: what a script asks for does not. */
  async #page(request: IncomingMessage, response: ServerResponse, assets: Assets): Promise<void> {
    const { "sec-fetch-dest": destination, "sec-fetch-mode": mode } = request.headers;
    if (!isTold(request)) return send(response, notSafePage(assets));
    const isDocument = destination === "document" && mode === "navigate";
    for (const secret of isDocument ? sessionsOf(request) : []) {
      const principal = await this.#deps.keys.check(secret);
      if (principal?.sessionId === undefined) continue;
      const { name = "", scopes, environmentId, endpointId } = principal;
      const bound = environmentId !== null || Boolean(endpointId);
      return send(response, consolePage(assets, { secret, keyName: name, scopes, bound }));
    }
    send(response, noSessionPage(assets));
  }

  async #login(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (!isSameOrigin(request)) throw new SvcError("FORBIDDEN", "Only the page of a link hands in its code.");
    const { store, links, clock } = this.#deps;
    const keyId = links.take(await readCode(request));
    const key = keyId === undefined ? undefined : await store.keys.find(keyId);
    const now = clock();
    if (key === undefined || (key.expiresAt !== null && key.expiresAt <= now)) {
      throw new SvcError("WRONG_KEY", "This link does not work: it was used, or it is older than two minutes.", {
        help: "Type svc console again. If you did not use it yourself, somebody else has: revoke the key (svc key revoke).",
      });
    }
    const { secret, hash } = newSecret("session");
    const expiresAt = now + CONSOLE_SESSION_MS;
    const session = { id: timeOrderedUuid(), hash, keyId: key.id, createdAt: now, expiresAt };
    const address = this.#address.of(request);
    await store.transaction(async (tx) => {
      await tx.consoleSessions.insert(session, CONSOLE_SESSIONS_PER_KEY_MAX);
      const act = { action: "console.login", target: key.name, detail: "" };
      await tx.audit.append({ at: now, keyId: key.id, keyName: key.name, ...act, address });
    });
    response.setHeader("Set-Cookie", cookie(request, secret, CONSOLE_SESSION_MS / 1000));
    response.writeHead(204, { "Cache-Control": "no-store" }).end();
  }

  async #logout(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const secret = presentedSecret(request.headers.authorization);
    const principal: Principal | undefined = secret === undefined ? undefined : await this.#deps.keys.check(secret);
    if (principal?.sessionId !== undefined) {
      await this.#deps.store.consoleSessions.delete({ id: principal.sessionId, keyId: principal.id });
      response.setHeader("Set-Cookie", cookie(request, "", 0));
    }
    response.writeHead(204, { "Cache-Control": "no-store" }).end();
  }

  #fail(response: ServerResponse, error: unknown): void {
    if (!(error instanceof SvcError)) this.#deps.log.error("A request to the console failed.", error);
    if (response.headersSent) return void response.destroy();
    const body = errorBody(error);
    response.writeHead(body.status, { "Content-Type": "application/json", "Cache-Control": "no-store" });
    response.end(JSON.stringify(body));
  }
}

/** Whether the browser says where its requests come from and what for. */
function isTold({ headers }: IncomingMessage): boolean {
  return headers["sec-fetch-dest"] !== undefined;
}

/** Of those who name what they take; `* / *` is a program. */
function wantsPage({ headers }: IncomingMessage): boolean {
  return /\btext\/html\b/.test(headers.accept ?? "");
}

function send(response: ServerResponse, html: string): void {
  const body = Buffer.from(html);
  response.writeHead(200, { ...DOCUMENT_HEADERS, "Content-Length": body.length });
  response.end(body);
}

function cookie(request: IncomingMessage, value: string, maxAgeS: number): string {
  const secure = request.headers.origin?.startsWith("https:") ? "; Secure" : "";
  return `${sessionCookie(request)}=${value}; HttpOnly; SameSite=Strict; Path=/; Max-Age=${maxAgeS}${secure}`;
}

/** Throws TOO_LARGE, BAD_INPUT. */
async function readCode(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > CONSOLE_LOGIN_BODY_MAX_BYTES) throw new SvcError("TOO_LARGE", "The body is too large for a code.");
    chunks.push(chunk);
  }
  try {
    const { code } = JSON.parse(Buffer.concat(chunks).toString()) as { code?: unknown };
    if (typeof code === "string") return code;
  } catch {}
  throw new SvcError("BAD_INPUT", 'The body must be {"code": "…"}.');
}
