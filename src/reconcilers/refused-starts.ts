/** Endpoints whose start was refused for another reason than room: why, and when to try again. */
import type { SvcError } from "../domain/errors.ts";
import { START_RETRY_MS } from "../domain/limits.ts";

interface Refusal {
  readonly reason: string;
  /** Waiting alone does not help. */
  readonly lasting: boolean;
  readonly retryAt: number;
}

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
