/** What is known of starts that did not succeed: of revisions that fail at it, of endpoints that were refused. */
import type { SvcError } from "../domain/errors.ts";
import { BOOT_BACKOFF_MAX_MS, BOOT_BACKOFF_MS, BOOT_FAILURES_MAX, START_RETRY_MS } from "../domain/limits.ts";
import { getOrInsert } from "../lib/get-or-insert.ts";
import type { Endpoint, Worker } from "../store/store.ts";

interface Record {
  failures: number;
  retryAt: number;
  reason: string;
}

/** Endpoints of other environments may have the same revision: what one shows or lacks says nothing of the other. */
export type Revised = Pick<Endpoint, "id" | "revision">;

export const ofWorker = ({ endpointId, revision }: Pick<Worker, "endpointId" | "revision">): Revised => ({
  id: endpointId,
  revision,
});

export const revisedKey = ({ id, revision }: Revised): string => `${id}:${revision}`;

/**
 * How the revisions of an endpoint have fared at starting: a failure delays the next try (1, 2, 4 … s), five in a row
 * make the revision unhealthy, and one success clears the record.
 */
export class BootRecord {
  readonly #records = new Map<string, Record>();
  readonly #now: () => number;

  /** `now` is for durations: no clock that is set moves it. */
  constructor(now: () => number) {
    this.#now = now;
  }

  failed(of: Revised, reason: string): void {
    const record = getOrInsert(this.#records, revisedKey(of), () => ({ failures: 0, retryAt: 0, reason: "" }));
    record.failures += 1;
    record.reason = reason;
    record.retryAt = this.#now() + Math.min(BOOT_BACKOFF_MAX_MS, BOOT_BACKOFF_MS * 2 ** (record.failures - 1));
  }

  /** No revision has failed since its last success. */
  get isClear(): boolean {
    return this.#records.size === 0;
  }

  mayStart(of: Revised): boolean {
    return this.#now() >= (this.#records.get(revisedKey(of))?.retryAt ?? 0);
  }

  isUnhealthy(of: Revised): boolean {
    return (this.#records.get(revisedKey(of))?.failures ?? 0) >= BOOT_FAILURES_MAX;
  }

  /** The revision has started, or was replaced. */
  forget(of: Revised): void {
    this.#records.delete(revisedKey(of));
  }

  /** Why the last try failed; "" when it did not. */
  reason(of: Revised): string {
    return this.#records.get(revisedKey(of))?.reason ?? "";
  }
}

interface Refusal {
  readonly reason: string;
  /** Waiting alone does not help. */
  readonly lasting: boolean;
  readonly retryAt: number;
}

/** Endpoints whose start was refused for another reason than room: why, and when to try again. */
export class RefusedStarts {
  readonly #byEndpoint = new Map<string, Refusal>();
  readonly #now: () => number;

  constructor(now: () => number) {
    this.#now = now;
  }

  note(endpointId: string, error: SvcError): void {
    const lasting = error.code !== "STARTS_PAUSED";
    this.#byEndpoint.set(endpointId, { reason: inWords(error), lasting, retryAt: this.#now() + START_RETRY_MS });
  }

  of(endpointId: string): Pick<Refusal, "reason" | "lasting"> | undefined {
    return this.#byEndpoint.get(endpointId);
  }

  mayTry(endpointId: string): boolean {
    return this.#now() >= (this.#byEndpoint.get(endpointId)?.retryAt ?? 0);
  }

  forget(endpointId: string): void {
    this.#byEndpoint.delete(endpointId);
  }

  /** What they waited for is there. Returns those that may try at once. */
  endPause(): string[] {
    const paused = [...this.#byEndpoint].flatMap(([id, { lasting }]) => (lasting ? [] : [id]));
    for (const id of paused) this.#byEndpoint.delete(id);
    return paused;
  }
}

/** An error's message and what to do about it. */
export function inWords(error: SvcError): string {
  return error.help ? `${error.message} ${error.help}` : error.message;
}
