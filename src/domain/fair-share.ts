/**
 * Who may start workers where no machine has room, and whose workers make room. Pure; the rules in words stand in
 * docs/reference/scaling.md. A worker fits when one machine takes it; parts are measured by all machines together.
 *
 *   order of those who wait:  below workersMin → work waits for it → holds the smallest share → waits longest
 *   room is made from:        workers of its own earlier revision → idle ones → busy ones, which finish their work first
 */
import { dominantShare, type Machine, type Need, type Share } from "./capacity.ts";
import { FAIR_IDLE_MS, FAIR_LAST_IDLE_MS, FAIR_TURN_MS } from "./limits.ts";
import { type Fleet, fitsBeside, openTo, placeAmong, wholeOf } from "./placement.ts";

export interface HeldWorker {
  readonly id: string;
  readonly share: Share;
  /** How long it has had nothing to do; 0 while it works or boots. */
  readonly idleMs: number;
  /** Since it became ready; 0 while it boots. */
  readonly upMs: number;
  /** Runs an earlier revision of its endpoint. */
  readonly stale: boolean;
}

/** An endpoint that holds workers or waits for room. */
export interface Contender {
  readonly id: string;
  readonly need: Need;
  readonly workersMin: number;
  /** Workers it wants beyond those it has. */
  readonly wanted: number;
  /** Work waits for them, or workersMin or a new revision asks for them: others may have to make room. */
  readonly urgent: boolean;
  readonly waitingMs: number;
  /** Without those that drain already. */
  readonly workers: readonly HeldWorker[];
}

export type Move =
  /** `host`: the machine whose room it is to have; absent: the platform's own. */
  | { readonly kind: "start"; readonly endpointId: string; readonly host?: string | undefined }
  /** Idle: it can go at once. Otherwise it takes no more work and goes when it has finished what it has. */
  | { readonly kind: "take"; readonly endpointId: string; readonly workerId: string; readonly forEndpoint: string };

const EPSILON = 1e-6;

/** `leaving` are the shares of workers that drain: their room is not there yet, but will be. */
export function shareRoom(fleet: Fleet, contenders: readonly Contender[], leaving: readonly Share[]): Move[] {
  const plan = new Plan(fleet, contenders, leaving);
  for (let next = plan.next(); next !== undefined; next = plan.next()) plan.serve(next);
  return plan.moves;
}

/** Whether the endpoint's turn comes sooner or later: what others are guaranteed leaves room for one worker more. */
export function canBeServed(fleet: Fleet, contenders: readonly Contender[], endpointId: string): boolean {
  const later = contenders.map((one) => ({
    ...one,
    wanted: one.id === endpointId ? 1 : 0,
    urgent: one.id === endpointId,
    waitingMs: Number.POSITIVE_INFINITY,
    workers: one.workers.map((worker) => ({ ...worker, upMs: Number.POSITIVE_INFINITY })),
  }));
  return shareRoom(fleet, later, []).length > 0;
}

class Plan {
  readonly moves: Move[] = [];
  readonly #fleet: Fleet;
  readonly #sides: readonly Side[];
  /** What is taken now, with what starts. */
  readonly #now: Share[];
  /** Room kept for those whose turn comes soon: nobody may start into it meanwhile. */
  readonly #kept: { readonly share: Share; readonly without: ReadonlySet<Share> }[] = [];

  constructor(fleet: Fleet, contenders: readonly Contender[], leaving: readonly Share[]) {
    this.#fleet = fleet;
    const whole = wholeOf(fleet);
    this.#sides = contenders.map((contender) => new Side(fleet, whole, contender));
    this.#now = [...this.#sides.flatMap((side) => side.workers.map((worker) => worker.share)), ...leaving];
  }

  /** The one whose turn it is; undefined when nobody waits who could be served. */
  next(): Side | undefined {
    const waiting = this.#sides.filter((side) => side.wanted > 0 && !side.stuck);
    return waiting.sort(
      (a, b) =>
        Number(b.isBelowMin) - Number(a.isBelowMin) ||
        Number(b.it.urgent) - Number(a.it.urgent) ||
        (Math.abs(a.held - b.held) > EPSILON ? a.held - b.held : b.it.waitingMs - a.it.waitingMs) ||
        (a.it.id < b.it.id ? -1 : 1),
    )[0];
  }

  /** One worker for `side`: now, when others have left, or not at all. */
  serve(side: Side): void {
    const { need } = side.it;
    const now = placeAmong(this.#fleet, this.#now, need);
    if (!("lack" in now) && this.#leavesRoom(now)) {
      this.moves.push({ kind: "start", endpointId: side.it.id, ...(now.host && { host: now.host }) });
      this.#now.push(now);
      side.give(now);
      return;
    }
    const victims = this.#victims(side, FAIR_TURN_MS);
    if (victims === undefined) {
      side.stuck = true;
      if (side.isOverdue) this.#keep(side);
      return;
    }
    for (const { from, worker } of victims) {
      from.take(worker);
      this.moves.push({ kind: "take", endpointId: from.it.id, workerId: worker.id, forEndpoint: side.it.id });
    }
    side.give(placeAmong(this.#fleet, this.#future(), need) as Share);
  }

  /** All that will be taken when those that leave are gone. */
  #future(): Share[] {
    return this.#sides.flatMap((side) => side.shares);
  }

  /** A start must not take what others are to have when workers have left, nor what is kept for the next turn. */
  #leavesRoom(share: Share): boolean {
    const future = this.#future();
    if (!fitsBeside(this.#fleet, future, share)) return false;
    return this.#kept.every((kept) => {
      if (kept.share.host !== share.host) return true;
      const rest = future.filter((one) => !kept.without.has(one));
      return fitsBeside(this.#fleet, [...rest, share], kept.share);
    });
  }

  /** Its turn has come, but those that would make room started only a moment ago. */
  #keep(side: Side): void {
    const victims = this.#victims(side, 0);
    if (victims === undefined) return;
    const without = new Set(victims.map(({ worker }) => worker.share));
    const rest = this.#future().filter((share) => !without.has(share));
    this.#kept.push({ share: placeAmong(this.#fleet, rest, side.it.need) as Share, without });
  }

  /**
   * As few workers as make room for one of `side`, [] when those that leave already do; undefined when none may be taken.
   * All are of one machine: where the fewest that are busy would have to go, then the fewest at all.
   */
  #victims(side: Side, turnMs: number): readonly Victim[] | undefined {
    const future = this.#future();
    const { need } = side.it;
    if (!("lack" in placeAmong(this.#fleet, future, need))) return [];
    if (!side.it.urgent) return undefined;
    const candidates = this.#candidates(side);
    const busy = (victims: readonly Victim[]) => victims.filter(({ idle }) => !idle).length;
    let best: readonly Victim[] | undefined;
    for (const host of openTo(this.#fleet, need)) {
      const isThere = (share: Share) => host === undefined || (share.host ?? "") === host;
      const fits = (gone: ReadonlySet<Share>) =>
        !(
          "lack" in
          placeAmong(
            this.#fleet,
            held.filter((share) => !gone.has(share)),
            need,
            { only: host },
          )
        );
      const held = future.filter(isThere);
      const found = this.#victimsOf(
        side,
        candidates.filter(({ worker }) => isThere(worker.share)),
        fits,
        turnMs,
      );
      const isBetter =
        best === undefined || (found !== undefined && (busy(found) - busy(best) || found.length - best.length) < 0);
      if (found !== undefined && isBetter) best = found;
    }
    return best;
  }

  #victimsOf(
    side: Side,
    candidates: readonly Victim[],
    fits: (gone: ReadonlySet<Share>) => boolean,
    turnMs: number,
  ): readonly Victim[] | undefined {
    const sharesOf = (victims: readonly Victim[]) => new Set(victims.map(({ worker }) => worker.share));
    const taken: Victim[] = [];
    let fit = false;
    for (const victim of candidates) {
      if (!this.#mayTake(side, victim, taken, turnMs)) continue;
      taken.push(victim);
      fit = fits(sharesOf(taken));
      if (fit) break;
    }
    if (!fit) return undefined;
    // What was taken before the one that made it fit may not have been needed.
    return taken.filter((victim) => {
      const without = taken.filter((other) => other !== victim && !other.spared);
      victim.spared = fits(sharesOf(without));
      return !victim.spared;
    });
  }

  /** Its own of an earlier revision first; then idle before busy, those of the largest holder, the longest idle. */
  #candidates(side: Side): Victim[] {
    const all = this.#sides.flatMap((from) =>
      from.workers
        .filter((worker) => from !== side || worker.stale)
        .map((worker): Victim => ({ from, worker, idle: from.isIdle(worker), spared: false })),
    );
    return all.sort(
      (a, b) =>
        Number(b.from === side) - Number(a.from === side) ||
        Number(b.idle) - Number(a.idle) ||
        (Math.abs(a.from.held - b.from.held) > EPSILON ? b.from.held - a.from.held : 0) ||
        b.worker.idleMs - a.worker.idleMs ||
        b.worker.upMs - a.worker.upMs,
    );
  }

  #mayTake(side: Side, { from, worker, idle }: Victim, before: readonly Victim[], turnMs: number): boolean {
    if (from === side) return true;
    const others = before.filter((victim) => victim.from === from);
    const left = from.workers.length - others.length;
    if (left <= from.it.workersMin) return false;
    if (side.isBelowMin) return true;
    if (idle && (left > 1 || side.count === 0 || worker.idleMs >= FAIR_LAST_IDLE_MS)) return true;
    const leftShare = from.held - others.reduce((sum, victim) => sum + from.sizeOf(victim.worker), 0);
    if (leftShare - from.sizeOf(worker) >= side.held + side.unit - EPSILON) return true;
    return side.isOverdue && worker.upMs >= turnMs;
  }
}

interface Victim {
  readonly from: Side;
  readonly worker: HeldWorker;
  readonly idle: boolean;
  spared: boolean;
}

/** A contender while the plan is made: what it has by then. */
class Side {
  readonly it: Contender;
  readonly workers: HeldWorker[];
  readonly #given: Share[] = [];
  readonly #whole: Machine;
  /** The part of all machines that one more worker takes. */
  readonly unit: number;
  /** Nothing can be done for it now. */
  stuck: boolean;

  constructor(fleet: Fleet, whole: Machine, it: Contender) {
    this.it = it;
    this.#whole = whole;
    this.workers = [...it.workers];
    const alone = placeAmong(fleet, [], it.need);
    this.stuck = "lack" in alone;
    this.unit = "lack" in alone ? 0 : dominantShare(whole, alone);
  }

  get wanted(): number {
    return this.it.wanted - this.#given.length;
  }

  get shares(): Share[] {
    return [...this.workers.map((worker) => worker.share), ...this.#given];
  }

  get count(): number {
    return this.workers.length + this.#given.length;
  }

  get held(): number {
    return this.shares.reduce((sum, share) => sum + dominantShare(this.#whole, share), 0);
  }

  get isBelowMin(): boolean {
    return this.workers.filter((worker) => !worker.stale).length + this.#given.length < this.it.workersMin;
  }

  /** It has nothing and has waited for longer than a turn. */
  get isOverdue(): boolean {
    return this.it.urgent && this.count === 0 && this.it.waitingMs >= FAIR_TURN_MS;
  }

  sizeOf(worker: HeldWorker): number {
    return dominantShare(this.#whole, worker.share);
  }

  /** Nothing to do, and nothing comes: between two jobs of a queue it is not. */
  isIdle(worker: HeldWorker): boolean {
    return worker.idleMs >= FAIR_IDLE_MS && !(this.it.urgent && this.wanted > 0);
  }

  give(share: Share): void {
    this.#given.push(share);
  }

  take(worker: HeldWorker): void {
    this.workers.splice(this.workers.indexOf(worker), 1);
  }
}
