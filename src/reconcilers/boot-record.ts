/**
 * How the revisions of an endpoint have fared at starting: a failure delays the next try (1, 2, 4 … s), five in a row
 * make the revision unhealthy, and one success clears the record.
 */
import { BOOT_BACKOFF_MAX_MS, BOOT_BACKOFF_MS, BOOT_FAILURES_MAX } from "../domain/limits.ts";
import { getOrInsert } from "../lib/get-or-insert.ts";

interface Record {
  failures: number;
  retryAt: number;
  reason: string;
  proven: boolean;
}

export class BootRecord {
  readonly #records = new Map<string, Record>();
  readonly #now: () => number;

  /** `now` is for durations: no clock that is set moves it. */
  constructor(now: () => number) {
    this.#now = now;
  }

  failed(revision: string, reason: string): void {
    const record = this.#get(revision);
    record.failures += 1;
    record.reason = reason;
    record.retryAt = this.#now() + Math.min(BOOT_BACKOFF_MAX_MS, BOOT_BACKOFF_MS * 2 ** (record.failures - 1));
  }

  succeeded(revision: string): void {
    Object.assign(this.#get(revision), { failures: 0, retryAt: 0, reason: "", proven: true });
  }

  mayStart(revision: string): boolean {
    return this.#now() >= (this.#records.get(revision)?.retryAt ?? 0);
  }

  retryAt(revision: string): number {
    return this.#records.get(revision)?.retryAt ?? 0;
  }

  isProven(revision: string): boolean {
    return this.#records.get(revision)?.proven ?? false;
  }

  isUnhealthy(revision: string): boolean {
    return (this.#records.get(revision)?.failures ?? 0) >= BOOT_FAILURES_MAX;
  }

  /** The revision was replaced. */
  forget(revision: string): void {
    this.#records.delete(revision);
  }

  /** Why the last try failed; "" when it did not. */
  reason(revision: string): string {
    return this.#records.get(revision)?.reason ?? "";
  }

  #get(revision: string): Record {
    return getOrInsert(this.#records, revision, () => ({ failures: 0, retryAt: 0, reason: "", proven: false }));
  }
}
