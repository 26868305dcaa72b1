/** Writes down who did what, in the transaction of the act: neither is there without the other. */
import type { Principal } from "../domain/api-key.ts";
import { AUDIT_TEXT_MAX_CHARS } from "../domain/limits.ts";
import type { Store } from "../store/store.ts";

/** Who acts, from where, and when. */
export interface Actor {
  readonly principal: Principal;
  /** Network address of the caller. */
  readonly address: string;
  /** Milliseconds since the epoch. */
  readonly clock: () => number;
}

export interface Act {
  /** As key.create: what it was done to, and what was done. */
  readonly action: string;
  /** Names and ids; never a value. */
  readonly target: string;
  readonly detail?: string;
}

/** `store` is that of the transaction the act is part of. */
export function audit(store: Pick<Store, "audit">, actor: Actor, { action, target, detail = "" }: Act): Promise<void> {
  const { principal, address } = actor;
  const isKey = principal.kind === "key";
  return store.audit.append({
    at: actor.clock(),
    keyId: isKey ? principal.id || null : null,
    keyName: isKey ? (principal.name ?? "") : `worker ${principal.id}`,
    action,
    target: short(target),
    detail: short(detail),
    address,
  });
}

function short(text: string): string {
  return text.length > AUDIT_TEXT_MAX_CHARS ? `${text.slice(0, AUDIT_TEXT_MAX_CHARS - 1)}…` : text;
}
