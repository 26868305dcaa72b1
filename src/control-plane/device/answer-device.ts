/**
 * Login by a second device (RFC 8628). `POST /device/code` opens a login, `POST /device/token` is polled for its key,
 * `GET /device?code=…` shows a person what is asked for, `POST /device` takes the decision. The approver proves who
 * they are by an existing key with the scope admin; the machine gets a key of its own.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { allows, KEY_SCOPES, type KeyScope } from "../../domain/api-key.ts";
import { SvcError } from "../../domain/errors.ts";
import { DEVICE_BODY_MAX_BYTES, DEVICE_LIFETIME_MS, DEVICE_POLL_S } from "../../domain/limits.ts";
import type { WaitingLogin } from "../../store/logins.ts";
import { type Actor, audit } from "../audit.ts";
import type { SharedDeps } from "../context.ts";
import { methodNotAllowed, sendJson } from "../http.ts";
import { newKey } from "../keys.ts";
import { approvalPage, CONTENT_SECURITY_POLICY, codePage, donePage } from "./page.ts";

const GRANT_TYPE = "urn:ietf:params:oauth:grant-type:device_code";
const SCOPES_DEFAULT = "deploy invoke";
const MACHINE_MAX_CHARS = 80;

export class DeviceLogin {
  readonly #deps: SharedDeps;

  constructor(deps: SharedDeps) {
    this.#deps = deps;
  }

  async answer(request: IncomingMessage, response: ServerResponse, url: URL): Promise<void> {
    response.setHeader("cache-control", "no-store");
    if (url.pathname === "/device") return this.#page(request, response, url);
    if (request.method !== "POST") return methodNotAllowed(response, url.pathname, "POST");
    const form = await readForm(request);
    if (url.pathname === "/device/code") return this.#open(request, response, form);
    if (url.pathname === "/device/token") return this.#token(response, form);
    throw new SvcError("NOT_FOUND", `There is nothing at ${url.pathname}.`);
  }

  async #open(request: IncomingMessage, response: ServerResponse, form: URLSearchParams): Promise<void> {
    const scopes = readScopes(form.get("scope") ?? SCOPES_DEFAULT);
    const address = this.#deps.addresses.of(request);
    const { deviceCode, userCode } = await this.#deps.logins.open({ machine: machineName(form), scopes, address });
    const page = `${this.#deps.config.publicUrl()}/device`;
    sendJson(response, 200, {
      device_code: deviceCode,
      user_code: userCode,
      verification_uri: page,
      verification_uri_complete: `${page}?code=${userCode}`,
      expires_in: DEVICE_LIFETIME_MS / 1000,
      interval: DEVICE_POLL_S,
    });
  }

  async #token(response: ServerResponse, form: URLSearchParams): Promise<void> {
    if (form.get("grant_type") !== GRANT_TYPE) {
      sendJson(response, 400, { error: "unsupported_grant_type", error_description: `Send ${GRANT_TYPE}.` });
      return;
    }
    const outcome = await this.#deps.logins.poll(form.get("device_code") ?? "");
    if ("error" in outcome) {
      sendJson(response, 400, outcome);
      return;
    }
    const scope = outcome.scopes.join(" ");
    sendJson(response, 200, { access_token: outcome.secret, token_type: "Bearer", scope });
  }

  async #page(request: IncomingMessage, response: ServerResponse, url: URL): Promise<void> {
    if (request.method === "GET") return this.#show(request, response, url.searchParams.get("code") ?? "");
    if (request.method !== "POST") return methodNotAllowed(response, "/device", "GET, POST");
    await this.#decide(request, response, await readForm(request));
  }

  async #show(request: IncomingMessage, response: ServerResponse, code: string): Promise<void> {
    const login = code === "" ? undefined : await this.#find(request, code);
    if (login !== undefined) sendPage(response, 200, approvalPage(login));
    else if (code === "") sendPage(response, 200, codePage());
    else sendPage(response, 404, codePage(UNKNOWN_CODE));
  }

  async #decide(request: IncomingMessage, response: ServerResponse, form: URLSearchParams): Promise<void> {
    const login = await this.#find(request, form.get("code") ?? "");
    if (login === undefined) return sendPage(response, 404, codePage(UNKNOWN_CODE));
    const principal = await this.#deps.keys.check((form.get("key") ?? "").trim());
    if (principal === undefined || !allows(principal, "admin")) {
      const error = new SvcError(
        principal ? "FORBIDDEN" : "WRONG_KEY",
        `the login of "${login.machine}" was not approved`,
      );
      this.#deps.refused.note(error, { who: principal, address: this.#deps.addresses.of(request), what: "login" });
      const problem = principal ? "This key lacks the scope admin." : "This key is unknown, revoked or expired.";
      return sendPage(response, 403, approvalPage(login, problem));
    }
    const approved = form.get("decision") === "approve";
    const approver = { principal, address: this.#deps.addresses.of(request), clock: this.#deps.clock };
    if (!approved) await this.#deps.logins.deny(login.userCode);
    else if (!(await this.#approve(login, approver))) return sendPage(response, 404, codePage(UNKNOWN_CODE));
    sendPage(response, 200, donePage(login.machine, approved));
  }

  /** Resolves false when somebody else has decided. */
  async #approve({ userCode, machine: name, scopes, address }: WaitingLogin, approver: Actor): Promise<boolean> {
    const { clock, random, store, logins } = this.#deps;
    // So that a second click finds nothing to approve.
    if (!(await logins.claim(userCode))) return false;
    const { key, secret } = newKey({ name, scopes, createdAt: clock(), expiresAt: null }, random);
    try {
      await store.transaction(async (tx) => {
        await tx.keys.insert(key);
        const detail = `for ${address}: ${scopes.join(", ")}`;
        await audit(tx, approver, { action: "login", target: `${name} (${key.id}, ${key.prefix}…)`, detail });
      });
    } catch (error) {
      await logins.settle(userCode, undefined);
      throw error;
    }
    await logins.settle(userCode, secret);
    return true;
  }

  /**
   * Throws RATE_LIMITED for an address that guesses. A right code is neither counted nor refused: others may share the
   * address, and what it opens still asks for a key.
   */
  async #find(request: IncomingMessage, code: string): Promise<WaitingLogin | undefined> {
    const login = await this.#deps.logins.find(code);
    if (login === undefined) await this.#deps.logins.wrongCode(this.#deps.addresses.of(request));
    return login;
  }
}

const UNKNOWN_CODE = "There is no login with this code: it is mistyped, used, or older than ten minutes.";

function machineName(form: URLSearchParams): string {
  const name = (form.get("machine") ?? form.get("client_id") ?? "").replace(/\p{C}/gu, "").trim();
  return name.slice(0, MACHINE_MAX_CHARS) || "unnamed machine";
}

function readScopes(text: string): KeyScope[] {
  const scopes = [...new Set(text.split(/\s+/).filter((scope) => scope !== ""))];
  const unknown = scopes.filter((scope) => !(KEY_SCOPES as readonly string[]).includes(scope));
  if (unknown.length > 0 || scopes.length === 0) {
    throw new SvcError("BAD_INPUT", `scope must name some of ${KEY_SCOPES.join(", ")}.`);
  }
  return scopes as KeyScope[];
}

function sendPage(response: ServerResponse, status: number, html: string): void {
  const body = Buffer.from(html);
  response.writeHead(status, {
    "content-type": "text/html; charset=utf-8",
    "content-length": body.length,
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
  });
  response.end(body);
}

/** The fields of a small body: a form, or a JSON object of texts. Throws BAD_INPUT, TOO_LARGE. */
async function readForm(request: IncomingMessage): Promise<URLSearchParams> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    bytes += chunk.length;
    if (bytes > DEVICE_BODY_MAX_BYTES)
      throw new SvcError("TOO_LARGE", `The body has at most ${DEVICE_BODY_MAX_BYTES} bytes.`);
    chunks.push(chunk);
  }
  const text = Buffer.concat(chunks).toString("utf8");
  if (!request.headers["content-type"]?.startsWith("application/json")) return new URLSearchParams(text);
  try {
    const fields = Object.entries(JSON.parse(text) as object).filter(([, value]) => typeof value === "string");
    return new URLSearchParams(fields as [string, string][]);
  } catch {
    throw new SvcError("BAD_INPUT", "The body is not a JSON object.");
  }
}
