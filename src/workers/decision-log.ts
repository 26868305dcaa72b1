import { DECISIONS_KEPT } from "../domain/limits.ts";
import type { ScalingDecision } from "../domain/worker.ts";
import { getOrInsert } from "../lib/get-or-insert.ts";

/** The newest decisions of the autoscaler about each endpoint. One that repeats itself is kept once, with a count. */
export class DecisionLog {
  readonly #byEndpoint = new Map<string, ScalingDecision[]>();
  readonly #told: (endpointId: string, decision: ScalingDecision) => void;

  /** `told` hears of every decision, also of one that repeats itself. */
  constructor(told: (endpointId: string, decision: ScalingDecision) => void = () => {}) {
    this.#told = told;
  }

  note(endpointId: string, decision: Omit<ScalingDecision, "times">): void {
    const decisions = getOrInsert(this.#byEndpoint, endpointId, () => []);
    const last = decisions.at(-1);
    const { start, stop, reason } = decision;
    if (last !== undefined && last.start === start && last.stop === stop && last.reason === reason) {
      decisions[decisions.length - 1] = { ...decision, times: last.times + 1 };
      this.#told(endpointId, decisions.at(-1)!);
      return;
    }
    decisions.push({ ...decision, times: 1 });
    this.#told(endpointId, decisions.at(-1)!);
    if (decisions.length > DECISIONS_KEPT) decisions.shift();
  }

  /** Oldest first. */
  of(endpointId: string): readonly ScalingDecision[] {
    return this.#byEndpoint.get(endpointId) ?? [];
  }

  forget(endpointId: string): void {
    this.#byEndpoint.delete(endpointId);
  }
}
