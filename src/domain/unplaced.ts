/**
 * Pods for which the scheduler finds no node, as one whose volume is of one node that is full: idle ones of the same pool give way. Pure.
 *
 *   no node ──▶ an idle one on one node gives way ──still none──▶ one on the next node ──▶ … ──▶ as many as there are nodes, then no more
 */
import { POD_UNPLACED_MAX_MS, POD_YIELD_MS } from "./limits.ts";

export interface Unplaced {
  /** Milliseconds since the scheduler said so, or another gave way to it. */
  readonly forMs: number;
  /** Nodes on which others gave way to it: the platform does not know which it needs. */
  readonly yielded: readonly string[];
}

interface InPool {
  readonly pool: string;
  readonly state: string;
  readonly shares: readonly unknown[];
  readonly node?: string | undefined;
  /** Of an idle one: since its last worker. */
  readonly forMs: number;
  readonly unplaced?: Unplaced | undefined;
}

/** Whether this one is idle, and may have the room that the other needs. */
export function mayGiveRoom({ pool, state, shares, node, forMs }: InPool, { pool: others, unplaced }: InPool): boolean {
  if (unplaced === undefined || node === undefined || pool !== others) return false;
  return (
    state === "here" &&
    shares.length === 0 &&
    forMs > POD_YIELD_MS &&
    unplaced.forMs > POD_YIELD_MS &&
    !unplaced.yielded.includes(node)
  );
}

/** Another gave way to it a moment ago: no new one may be put there first. */
export function isGivenRoom({ unplaced }: InPool): boolean {
  return unplaced !== undefined && unplaced.yielded.length > 0 && unplaced.forMs < POD_UNPLACED_MAX_MS;
}
