import { DECISIONS_KEPT } from "../domain/limits.ts";
import type { ScalingDecision } from "../domain/worker.ts";
import { getOrInsert } from "../lib/get-or-insert.ts";

/** Where decisions are kept over restarts. */
export interface DecisionHistory {
  /** The newest of an endpoint, oldest first. */
  recentDecisions(endpointId: string, count: number): ScalingDecision[];
  /** `times` above 1: the one before, once more. */
  decided(endpointId: string, decision: ScalingDecision): void;
}

/** The newest decisions of the autoscaler about each endpoint. One that repeats itself is kept once, with a count. */
export class DecisionLog {
  readonly #byEndpoint = new Map<string, ScalingDecision[]>();
  readonly #history: DecisionHistory;

  constructor(history: DecisionHistory) {
    this.#history = history;
  }

  note(endpointId: string, decision: Omit<ScalingDecision, "times">): void {
    const decisions = this.#of(endpointId);
    const last = decisions.at(-1);
    const { start, stop, reason } = decision;
    if (last !== undefined && last.start === start && last.stop === stop && last.reason === reason) {
      const again = { ...decision, times: last.times + 1 };
      decisions[decisions.length - 1] = again;
      this.#history.decided(endpointId, again);
      return;
    }
    const first = { ...decision, times: 1 };
    decisions.push(first);
    if (decisions.length > DECISIONS_KEPT) decisions.shift();
    this.#history.decided(endpointId, first);
  }

  /** Oldest first. */
  of(endpointId: string): readonly ScalingDecision[] {
    return this.#of(endpointId);
  }

  #of(endpointId: string): ScalingDecision[] {
    return getOrInsert(this.#byEndpoint, endpointId, () => this.#history.recentDecisions(endpointId, DECISIONS_KEPT));
  }

  forget(endpointId: string): void {
    this.#byEndpoint.delete(endpointId);
  }
}
