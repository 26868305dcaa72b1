/**
 * Login by a second device (RFC 8628). `POST /device/code` opens a login, `POST /device/token` is polled for its key,
 * `GET /device?code=…` shows a person what is asked for, `POST /device` takes the decision. The approver proves who
 * they are by an existing key with the scope admin; the machine gets a key of its own.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { allows, KEY_SCOPES, type KeyScope } from "../../domain/api-key.ts";
import { SvcError } from "../../domain/errors.ts";
import {
  DEVICE_BODY_MAX_BYTES,
  DEVICE_GUESS_WINDOW_MS,
  DEVICE_GUESSERS_MAX,
  DEVICE_GUESSES_MAX,
  DEVICE_LIFETIME_MS,
} from "../../domain/limits.ts";
import { type Actor, audit } from "../audit.ts";
import type { SharedDeps } from "../context.ts";
import { methodNotAllowed, sendJson } from "../http.ts";
import { newKey } from "../keys.ts";
import { DeviceGrants, type Grant } from "./grants.ts";
import { approvalPage, CONTENT_SECURITY_POLICY, codePage, donePage } from "./page.ts";

const GRANT_TYPE = "urn:ietf:params:oauth:grant-type:device_code";
const SCOPES_DEFAULT = "deploy invoke";
const MACHINE_MAX_CHARS = 80;

export class DeviceLogin {
  readonly #deps: SharedDeps;
  readonly #grants: DeviceGrants;
  readonly #guesses: Guesses;

  constructor(deps: SharedDeps) {
    this.#deps = deps;
    this.#grants = new DeviceGrants(deps.now, deps.random);
    this.#guesses = new Guesses(DEVICE_GUESSES_MAX, DEVICE_GUESS_WINDOW_MS, deps.now);
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

  #open(request: IncomingMessage, response: ServerResponse, form: URLSearchParams): void {
    const scopes = readScopes(form.get("scope") ?? SCOPES_DEFAULT);
    const address = this.#deps.addresses.of(request);
    const { deviceCode, grant } = this.#grants.open({ machine: machineName(form), scopes, address });
    const page = `${this.#deps.config.publicUrl()}/device`;
    sendJson(response, 200, {
      device_code: deviceCode,
      user_code: grant.userCode,
      verification_uri: page,
      verification_uri_complete: `${page}?code=${grant.userCode}`,
      expires_in: DEVICE_LIFETIME_MS / 1000,
      interval: grant.intervalS,
    });
  }

  #token(response: ServerResponse, form: URLSearchParams): void {
    if (form.get("grant_type") !== GRANT_TYPE) {
      sendJson(response, 400, { error: "unsupported_grant_type", error_description: `Send ${GRANT_TYPE}.` });
      return;
    }
    const outcome = this.#grants.poll(form.get("device_code") ?? "");
    if ("error" in outcome) {
      sendJson(response, 400, outcome);
      return;
    }
    const scope = outcome.grant.scopes.join(" ");
    sendJson(response, 200, { access_token: outcome.secret, token_type: "Bearer", scope });
  }

  async #page(request: IncomingMessage, response: ServerResponse, url: URL): Promise<void> {
    if (request.method === "GET") return this.#show(request, response, url.searchParams.get("code") ?? "");
    if (request.method !== "POST") return methodNotAllowed(response, "/device", "GET, POST");
    await this.#decide(request, response, await readForm(request));
  }

  #show(request: IncomingMessage, response: ServerResponse, code: string): void {
    const grant = code === "" ? undefined : this.#find(request, code);
    if (grant !== undefined) sendPage(response, 200, approvalPage(grant));
    else if (code === "") sendPage(response, 200, codePage());
    else sendPage(response, 404, codePage(UNKNOWN_CODE));
  }

  async #decide(request: IncomingMessage, response: ServerResponse, form: URLSearchParams): Promise<void> {
    const grant = this.#find(request, form.get("code") ?? "");
    if (grant === undefined) return sendPage(response, 404, codePage(UNKNOWN_CODE));
    const principal = await this.#deps.keys.check((form.get("key") ?? "").trim());
    if (principal === undefined || !allows(principal, "admin")) {
      const error = new SvcError(
        principal ? "FORBIDDEN" : "WRONG_KEY",
        `the login of "${grant.machine}" was not approved`,
      );
      this.#deps.refused.note(error, { who: principal, address: this.#deps.addresses.of(request), what: "login" });
      const problem = principal ? "This key lacks the scope admin." : "This key is unknown, revoked or expired.";
      return sendPage(response, 403, approvalPage(grant, problem));
    }
    const approved = form.get("decision") === "approve";
    if (approved)
      await this.#approve(grant, { principal, address: this.#deps.addresses.of(request), clock: this.#deps.clock });
    else grant.state = "DENIED";
    sendPage(response, 200, donePage(grant.machine, approved));
  }

  async #approve(grant: Grant, approver: Actor): Promise<void> {
    const { clock, random, store } = this.#deps;
    const { machine: name, scopes } = grant;
    const { key, secret } = newKey({ name, scopes, createdAt: clock(), expiresAt: null }, random);
    // Before the first wait, so that a second click finds nothing to approve.
    grant.state = "APPROVING";
    try {
      await store.transaction(async (tx) => {
        await tx.keys.insert(key);
        const detail = `for ${grant.address}: ${scopes.join(", ")}`;
        await audit(tx, approver, { action: "login", target: `${name} (${key.id}, ${key.prefix}…)`, detail });
      });
      grant.state = { secret };
    } catch (error) {
      grant.state = "PENDING";
      throw error;
    }
  }

  /**
   * Throws RATE_LIMITED for an address that guesses. A right code is neither counted nor refused: others may share the
   * address, and what it opens still asks for a key.
   */
  #find(request: IncomingMessage, code: string): Grant | undefined {
    const grant = this.#grants.find(code);
    if (grant !== undefined) return grant;
    const address = this.#deps.addresses.of(request);
    this.#guesses.check(address);
    this.#guesses.wrong(address);
    return undefined;
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

/** Counts wrong codes by network address: one that guesses is refused until its window is over. */
class Guesses {
  readonly #max: number;
  readonly #windowMs: number;
  /** Milliseconds of a clock that nobody sets. */
  readonly #now: () => number;
  readonly #wrong = new Map<string, { count: number; until: number }>();

  constructor(max: number, windowMs: number, now: () => number) {
    this.#max = max;
    this.#windowMs = windowMs;
    this.#now = now;
  }

  /** Throws RATE_LIMITED. */
  check(address: string): void {
    const entry = this.#wrong.get(address);
    if (entry === undefined || entry.until <= this.#now() || entry.count < this.#max) return;
    throw new SvcError("RATE_LIMITED", "Too many wrong codes.", { help: "Wait some minutes." });
  }

  wrong(address: string): void {
    const now = this.#now();
    const entry = this.#wrong.get(address);
    if (entry !== undefined && entry.until > now) {
      entry.count++;
      return;
    }
    if (this.#wrong.size >= DEVICE_GUESSERS_MAX) this.#wrong.clear();
    this.#wrong.set(address, { count: 1, until: now + this.#windowMs });
  }
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
