/** Who asks, and whether it may. A key is never written to a log or an error. */
import { allows, type KeyChecker, type KeyScope, type Principal, presentedSecret } from "../domain/api-key.ts";
import { SvcError } from "../domain/errors.ts";

/** The principal of `?api_key=KEY`, `Authorization: Bearer KEY` or the bare key. Throws MISSING_KEY, WRONG_KEY. */
export async function authenticate(
  keys: KeyChecker,
  query: URLSearchParams,
  authorization: string | undefined,
): Promise<Principal> {
  const secret = query.get("api_key")?.trim() || presentedSecret(authorization);
  if (secret === undefined) {
    throw new SvcError("MISSING_KEY", "No API key was given.", {
      help: "Run `svc login`, or send ?api_key=KEY or the header Authorization: Bearer KEY.",
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

/** A worker may look its peers up; its environment then bounds what it sees. Throws FORBIDDEN. */
export function requireLook(context: { readonly principal: Principal }): void {
  if (context.principal.kind !== "worker") requireScope(context, "read");
}

/** Whether the principal sees what belongs to this environment. */
export function sees(principal: Principal, environmentId: string | null): boolean {
  return principal.environmentId === null || principal.environmentId === environmentId;
}
