/** Who calls, and whether they may. The endpoint's existence is told only to those who have a key. */
import type { IncomingMessage } from "node:http";
import {
  allows,
  boundTo,
  isSecret,
  type KeyChecker,
  type KeyScope,
  type Principal,
  presentedSecret,
  reaches,
} from "../domain/api-key.ts";
import { SvcError } from "../domain/errors.ts";
import type { CalledEndpoint } from "../store/store.ts";

const HELP = 'Send the header "Authorization: Bearer <API key>".';

/** The one secret of the request. Throws MISSING_KEY, or BAD_INPUT when there are several: which one counts would be a guess. */
export function secretOf(req: IncomingMessage): string {
  const secret = presentedSecret(req.headers.authorization);
  if (secret === undefined) throw new SvcError("MISSING_KEY", "The request carries no API key.", { help: HELP });
  requireOneAuthorization(req);
  return secret;
}

/** Throws BAD_INPUT. */
export function requireOneAuthorization(req: IncomingMessage): void {
  if (headerCount(req.rawHeaders, "authorization") <= 1) return;
  throw new SvcError("BAD_INPUT", "The request has several Authorization headers.", { help: "Send exactly one." });
}

/** Whether it carries what only a key of the platform can be. Another Authorization may be for the function. */
export function presentsKey(req: IncomingMessage): boolean {
  const { authorization } = req.headers;
  if (authorization === undefined) return false;
  return authorization.startsWith("Bearer svc_") || isSecret(presentedSecret(authorization) ?? "");
}

/** Throws WRONG_KEY. Resolves without waiting when the checker knows the secret. */
export function authenticate(secret: string, keys: KeyChecker): Principal | Promise<Principal> {
  const found = keys.check(secret);
  return found instanceof Promise ? found.then(known) : known(found);
}

function known(principal: Principal | undefined): Principal {
  if (principal !== undefined) return principal;
  throw new SvcError("WRONG_KEY", "The API key is unknown, revoked or expired.", {
    help: "Run `svc login`, or make a new key.",
  });
}

/** Throws FORBIDDEN unless the principal has one of `scopes` and may reach the endpoint. */
export function authorise(principal: Principal, endpoint: CalledEndpoint, scopes: readonly KeyScope[]): void {
  if (!reaches(principal, endpoint)) {
    throw new SvcError("FORBIDDEN", `${boundTo(principal)}; ${endpoint.id} is not part of that.`);
  }
  if (scopes.some((scope) => allows(principal, scope))) return;
  throw new SvcError(
    "FORBIDDEN",
    `This key has the scope ${principal.scopes.join(", ")}; this call needs ${scopes[0]}.`,
  );
}

function headerCount(rawHeaders: readonly string[], name: string): number {
  let count = 0;
  for (let i = 0; i < rawHeaders.length; i += 2) {
    const candidate = rawHeaders[i]!;
    if (candidate.length === name.length && candidate.toLowerCase() === name) count++;
  }
  return count;
}
