/**
 * Tries that were not allowed, for the audit log. Who tries on and on becomes one entry a minute with a count: a flood fills
 * neither the log nor the memory.
 */
import type { Principal } from "../domain/api-key.ts";
import { REFUSED } from "../domain/audit.ts";
import { SvcError } from "../domain/errors.ts";
import { AUDIT_REFUSED_EVERY_MS, AUDIT_REFUSED_PER_WINDOW_MAX } from "../domain/limits.ts";
import type { Own } from "../lib/own.ts";
import type { Store } from "../store/store.ts";
import { audit } from "./audit.ts";

/** Of a caller whose key nobody knows. */
const UNKNOWN: Principal = { kind: "key", id: "", name: "unknown key", scopes: [], environmentId: null };

interface Tried {
  readonly who: Principal | undefined;
  readonly address: string;
  /** The operation, or the page. */
  readonly what: string;
}

interface RefusedDeps {
  readonly store: Pick<Store, "audit">;
  readonly own: Own;
  readonly clock: () => number;
  /** Milliseconds of a clock that nobody sets. */
  readonly now: () => number;
}

export class RefusedTries {
  readonly #deps: RefusedDeps;
  /** Caller → tries since its entry of this window. */
  readonly #since = new Map<string, number>();
  #windowEnds = Number.NEGATIVE_INFINITY;
  #left = 0;

  constructor(deps: RefusedDeps) {
    this.#deps = deps;
  }

  /** `error` is what the caller hears; what was not refused for want of a right is none of this log's. */
  note(error: unknown, { who, address, what }: Tried): void {
    if (!(error instanceof SvcError) || !["FORBIDDEN", "WRONG_KEY"].includes(error.code)) return;
    const { store, own, clock, now } = this.#deps;
    if (now() >= this.#windowEnds) this.#begin(now());
    const caller = who === undefined ? address : `${who.kind} ${who.id}`;
    const tries = this.#since.get(caller);
    if (tries !== undefined) {
      this.#since.set(caller, tries + 1);
      return;
    }
    if (this.#since.size >= AUDIT_REFUSED_PER_WINDOW_MAX) {
      this.#left++;
      return;
    }
    this.#since.set(caller, 0);
    const actor = { principal: who ?? UNKNOWN, address, clock };
    own("noting a refused try", audit(store, actor, { action: REFUSED, target: what, detail: error.message }));
  }

  /** What was only counted in the window that is over becomes an entry of the platform's. */
  #begin(now: number): void {
    const more = [...this.#since.values()].reduce((sum, tries) => sum + tries, this.#left);
    this.#since.clear();
    this.#left = 0;
    this.#windowEnds = now + AUDIT_REFUSED_EVERY_MS;
    if (more === 0) return;
    const { store, own, clock } = this.#deps;
    const platform = { keyId: null, keyName: "the platform", address: "" };
    const entry = {
      at: clock(),
      ...platform,
      action: REFUSED,
      target: "",
      detail: `${more} more tries in that minute`,
    };
    own("noting refused tries", store.audit.append(entry));
  }
}
