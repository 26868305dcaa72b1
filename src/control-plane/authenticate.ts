/** Who asks, and whether it may. A key is never written to a log or an error. */
import {
  allows,
  boundTo,
  type KeyChecker,
  type KeyScope,
  type Principal,
  presentedSecret,
  reaches,
} from "../domain/api-key.ts";
import { SvcError } from "../domain/errors.ts";

/**
 * The principal of `Authorization: Bearer KEY` or the bare key, and where there is a `query`, of its `api_key`: only /graphql
 * takes that, because proxies write addresses down. Throws MISSING_KEY, WRONG_KEY.
 */
export async function authenticate(
  keys: KeyChecker,
  authorization: string | undefined,
  query?: URLSearchParams,
): Promise<Principal> {
  const secret = query?.get("api_key")?.trim() || presentedSecret(authorization);
  if (secret === undefined) {
    throw new SvcError("MISSING_KEY", "No API key was given.", {
      help: "Run `svc login`, or send the header Authorization: Bearer KEY.",
    });
  }
  const principal = await keys.check(secret);
  if (principal === undefined) {
    throw new SvcError("WRONG_KEY", "The API key is not valid: it is unknown, revoked or expired.", {
      help: "Run `svc login`, or set PLATFORM_API_KEY.",
    });
  }
  return principal;
}

/** Throws FORBIDDEN. */
export function requireScope({ principal }: { readonly principal: Principal }, scope: KeyScope): void {
  if (allows(principal, scope)) return;
  throw new SvcError("FORBIDDEN", `This needs a key with the scope "${scope}".`, {
    help: `The given key has: ${principal.scopes.join(", ") || "none"}.`,
  });
}

/** Whether the principal sees what belongs to this environment. */
export function sees(principal: Principal, environmentId: string | null): boolean {
  return principal.environmentId === null || principal.environmentId === environmentId;
}

/** Throws FORBIDDEN for a principal that is bound to another endpoint or environment. */
export function requireReach(
  { principal }: { readonly principal: Principal },
  endpoint: { readonly id: string; readonly environmentId: string | null },
): void {
  if (!reaches(principal, endpoint))
    throw new SvcError("FORBIDDEN", `${boundTo(principal)}; ${endpoint.id} is not part of that.`);
}

/** As requireReach for a whole environment; undefined: one that is still to be made. */
export function requireEnvironment(
  { principal }: { readonly principal: Principal },
  environmentId: string | undefined,
): void {
  const bound = principal.environmentId !== null;
  if (!principal.endpointId && (!bound || principal.environmentId === environmentId)) return;
  throw new SvcError("FORBIDDEN", `${boundTo(principal)}, and this is about the whole of another place.`);
}

/** Throws FORBIDDEN for a key that is bound to an environment or endpoint. */
export function requireUnbound({ principal }: { readonly principal: Principal }): void {
  if (principal.environmentId === null && !principal.endpointId) return;
  throw new SvcError("FORBIDDEN", `${boundTo(principal)}; this is about the whole platform.`);
}
