/**
 * What a replica does about each shard: events in, actions out, without clock or I/O of its own.
 *
 *   FREE ──I should have it, and its owner is gone or gives it to me──▶ CLAIMING ──won──▶ LOADING ──rows read──▶ OWNER
 *   OWNER ──another should have it for SHARD_BETTER_MS and nothing long runs, or I leave──▶ GIVING ──given──▶ FREE
 *   GIVING ──who was to have it is gone before its workers were told to finish, or it is refused──▶ OWNER
 *   OWNER ──the database is away──▶ UNSURE ──it is back──▶ OWNER
 *   LOADING | OWNER | GIVING | UNSURE ──it is another's──▶ LOST ──memory dropped──▶ FREE
 *
 * Nothing here makes it safe that two believe to own a shard: each batch is fenced by the row of its shards. Clocks decide only
 * when it is worth to try.
 */
import {
  REPLICA_FORGET_MS,
  REPLICA_SILENT_MS,
  SHARD_BETTER_MS,
  SHARD_BUSY_MAX_MS,
  SHARDS_GIVEN_AT_ONCE,
  SHARDS_LEFT_AT_ONCE,
} from "./postgres-limits.ts";
import { ShardPlacement } from "./shard-placement.ts";

export type ShardState = "FREE" | "CLAIMING" | "LOADING" | "OWNER" | "GIVING" | "LOST" | "UNSURE";

/** What fits the row of a shard as long as nobody else took it. */
export interface Hold {
  readonly epoch: number;
  readonly nonce: number;
}

export interface SeenReplica {
  readonly id: string;
  /** Rises while it lives. */
  readonly beat: number;
  readonly draining: boolean;
}

/** `owner`: "" for none. */
export interface SeenShard extends Hold {
  readonly shard: number;
  readonly owner: string;
}

export interface ShardHold extends Hold {
  readonly shard: number;
}

/** `now`: milliseconds of a clock that is never set. */
export type OwnershipEvent =
  /** The rows as they are; never older than what was claimed before. */
  | {
      readonly type: "seen";
      readonly now: number;
      readonly replicas: readonly SeenReplica[];
      readonly shards: readonly SeenShard[];
      /** Of mine: what runs there may take long. */
      readonly busy?: ReadonlySet<number>;
      /** Of mine: workers or work are there, which may have to be waited for. */
      readonly live?: ReadonlySet<number>;
    }
  /** Its link broke, and nobody answers where it was. */
  | { readonly type: "gone"; readonly now: number; readonly replica: string }
  /** Of those that were tried, these were won. */
  | { readonly type: "claimed"; readonly tried: readonly number[]; readonly won: readonly ShardHold[] }
  | { readonly type: "loaded"; readonly shards: readonly ShardHold[] }
  /** A batch found them to be another's. */
  | { readonly type: "lost"; readonly shards: readonly number[] }
  | { readonly type: "dropped"; readonly shards: readonly number[] }
  /** They are the other's, their memory here is dropped. */
  | { readonly type: "given"; readonly now: number; readonly shards: readonly ShardHold[]; readonly to: string }
  /** They were not given after all: nothing of them has been touched. */
  | { readonly type: "kept"; readonly now: number; readonly shards: readonly number[] }
  | { readonly type: "away" }
  | { readonly type: "back" }
  /** This replica leaves. */
  | { readonly type: "drain"; readonly now: number };

export type OwnershipAction =
  /** Take them, each if it is still as it was seen. */
  | { readonly type: "claim"; readonly shards: readonly SeenShard[] }
  | { readonly type: "load"; readonly shards: readonly ShardHold[] }
  /** Accept nothing more for them, finish what is under way, make them the other's, drop their memory. */
  | { readonly type: "give"; readonly shards: readonly ShardHold[]; readonly to: string }
  /** Drop its memory, and send all who wait to its new owner. */
  | { readonly type: "drop"; readonly shards: readonly number[] }
  /** It has been silent for long and owns nothing. */
  | { readonly type: "forget"; readonly replica: string };

interface Shard {
  state: ShardState;
  seen: SeenShard | undefined;
  hold: Hold | undefined;
  /** Who should have it instead, and since when. */
  better: { readonly replica: string; readonly since: number } | undefined;
}

interface Peer {
  beat: number;
  /** When this beat was seen first. */
  since: number;
  draining: boolean;
  /** At this beat nobody answered where it was. */
  isGone: boolean;
}

const NONE: ReadonlySet<number> = new Set();

export class ShardOwnership {
  readonly me: string;
  readonly #shards: readonly Shard[];
  readonly #peers = new Map<string, Peer>();
  readonly #placement: ShardPlacement;
  #busy = NONE;
  #live = NONE;
  #draining = false;
  #isAway = false;
  /** Nobody could beat while the database was away: what was seen before says nothing of who is silent. */
  #mustCountAnew = false;

  constructor(me: string, shards: number) {
    this.me = me;
    this.#placement = new ShardPlacement(shards);
    this.#shards = Array.from({ length: shards }, () => {
      return { state: "FREE", seen: undefined, hold: undefined, better: undefined };
    });
  }

  stateOf(shard: number): ShardState {
    return this.#shards[shard]!.state;
  }

  /** What this replica believes to hold it with; undefined when it does not. */
  holdOf(shard: number): Hold | undefined {
    return this.#shards[shard]!.hold;
  }

  in(state: ShardState): number[] {
    return this.#shards.flatMap((one, shard) => (one.state === state ? [shard] : []));
  }

  /** Who has it as far as is known here; "" when nobody has. */
  ownerOf(shard: number): string {
    const { hold, seen } = this.#shards[shard]!;
    return hold !== undefined ? this.me : (seen?.owner ?? "");
  }

  /** Whether there is another that stays. */
  hasHeir(now: number): boolean {
    return [...this.#peers].some(([id, { draining }]) => !draining && this.#isAlive(id, now));
  }

  on(event: OwnershipEvent): readonly OwnershipAction[] {
    switch (event.type) {
      case "seen":
        this.#busy = event.busy ?? NONE;
        this.#live = event.live ?? NONE;
        return this.#seen(event.now, event.replicas, event.shards);
      case "gone": {
        const peer = this.#peers.get(event.replica);
        if (peer !== undefined) peer.isGone = true;
        return this.#decide(event.now);
      }
      case "claimed":
        return this.#claimed(event.tried, event.won);
      case "loaded":
        for (const { shard, nonce } of event.shards) {
          const one = this.#shards[shard]!;
          if (one.state === "LOADING" && one.hold?.nonce === nonce) one.state = this.#isAway ? "UNSURE" : "OWNER";
        }
        return [];
      case "lost":
        return this.#lose(event.shards);
      case "dropped":
        for (const shard of event.shards) this.#free(shard, "LOST");
        return [];
      case "given":
        for (const { shard, epoch } of event.shards) {
          this.#free(shard, "GIVING");
          const one = this.#shards[shard]!;
          if (one.state === "FREE") one.seen = { shard, owner: event.to, epoch, nonce: 0 };
        }
        return this.#decide(event.now);
      case "kept":
        for (const shard of event.shards) {
          const one = this.#shards[shard]!;
          if (one.state === "GIVING") one.state = this.#isAway ? "UNSURE" : "OWNER";
        }
        return this.#decide(event.now);
      case "away":
        this.#isAway = true;
        this.#turn("OWNER", "UNSURE");
        return [];
      case "back":
        this.#mustCountAnew ||= this.#isAway;
        this.#isAway = false;
        this.#turn("UNSURE", "OWNER");
        return [];
      case "drain":
        this.#draining = true;
        return this.#decide(event.now);
    }
  }

  #seen(now: number, replicas: readonly SeenReplica[], shards: readonly SeenShard[]): OwnershipAction[] {
    const names = new Set(replicas.map(({ id }) => id));
    for (const id of this.#peers.keys()) if (!names.has(id)) this.#peers.delete(id);
    for (const { id, beat, draining } of replicas) {
      if (id === this.me) continue;
      const peer = this.#peers.get(id);
      if (peer === undefined || peer.beat !== beat) this.#peers.set(id, { beat, since: now, draining, isGone: false });
      else if (this.#mustCountAnew) Object.assign(peer, { since: now, draining });
      else peer.draining = draining;
    }
    this.#mustCountAnew = false;
    const lost: number[] = [];
    for (const row of shards) {
      const one = this.#shards[row.shard]!;
      one.seen = row;
      const isHeld = one.state === "LOADING" || one.state === "OWNER" || one.state === "UNSURE";
      if (isHeld && (row.nonce !== one.hold!.nonce || row.epoch !== one.hold!.epoch)) lost.push(row.shard);
    }
    return [...this.#lose(lost), ...this.#decide(now), ...this.#forget(now)];
  }

  #claimed(tried: readonly number[], won: readonly ShardHold[]): OwnershipAction[] {
    for (const { shard, epoch, nonce } of won) {
      const one = this.#shards[shard]!;
      if (one.state === "CLAIMING") Object.assign(one, { state: "LOADING", hold: { epoch, nonce }, better: undefined });
    }
    for (const shard of tried) {
      const one = this.#shards[shard]!;
      // What was seen of it is not so any more.
      if (one.state === "CLAIMING") Object.assign(one, { state: "FREE", seen: undefined });
    }
    return won.length > 0 ? [{ type: "load", shards: won }] : [];
  }

  #lose(shards: readonly number[]): OwnershipAction[] {
    const held = shards.filter((shard) => this.#shards[shard]!.hold !== undefined);
    for (const shard of held) Object.assign(this.#shards[shard]!, { state: "LOST", hold: undefined });
    return held.length > 0 ? [{ type: "drop", shards: held }] : [];
  }

  #free(shard: number, from: ShardState): void {
    const one = this.#shards[shard]!;
    if (one.state === from) Object.assign(one, { state: "FREE", hold: undefined, seen: undefined, better: undefined });
  }

  #turn(from: ShardState, to: ShardState): void {
    for (const one of this.#shards) if (one.state === from) one.state = to;
  }

  /**
   * Claims what nobody has, gives what another should have: each shard with workers or work by itself, few at a time, so that little stands still;
   * of all others those that go to one replica together.
   */
  #decide(now: number): OwnershipAction[] {
    if (this.#isAway) return [];
    const others = [...this.#peers].filter(([id, peer]) => this.#isAlive(id, now) && !peer.draining);
    const candidates = others.map(([id]) => id);
    if (!this.#draining) candidates.push(this.me);
    const claims: SeenShard[] = [];
    const gives: OwnershipAction[] = [];
    const together = new Map<string, ShardHold[]>();
    const giving = this.in("GIVING").filter((shard) => this.#live.has(shard)).length;
    let room = (this.#draining ? SHARDS_LEFT_AT_ONCE : SHARDS_GIVEN_AT_ONCE) - giving;
    const places = this.#placement.among(candidates);
    for (const [shard, one] of this.#shards.entries()) {
      const choice = places[shard];
      if (one.state === "FREE" && one.seen !== undefined) {
        const { owner } = one.seen;
        // Given to me, or mine when an answer was lost: nobody else tries as long as I live.
        const isMine = owner === this.me;
        if (!isMine && (choice !== this.me || (owner !== "" && this.#isAlive(owner, now)))) continue;
        one.state = "CLAIMING";
        claims.push(one.seen);
      } else if (one.state === "OWNER") {
        if (choice === undefined || choice === this.me) one.better = undefined;
        else if (one.better?.replica !== choice) one.better = { replica: choice, since: now };
        if (one.better === undefined) continue;
        const betterMs = this.#busy.has(shard) ? SHARD_BUSY_MAX_MS : SHARD_BETTER_MS;
        if (!this.#draining && now - one.better.since < betterMs) continue;
        const [hold, to] = [{ shard, ...one.hold! }, one.better.replica];
        if (!this.#live.has(shard)) together.set(to, [...(together.get(to) ?? []), hold]);
        else if (room-- > 0) gives.push({ type: "give", shards: [hold], to });
        else continue;
        one.state = "GIVING";
      }
    }
    gives.unshift(...[...together].map(([to, shards]) => ({ type: "give", shards, to }) as const));
    return claims.length > 0 ? [{ type: "claim", shards: claims }, ...gives] : gives;
  }

  #forget(now: number): OwnershipAction[] {
    const owners = new Set(this.#shards.map(({ seen }) => seen?.owner));
    const silent = [...this.#peers].filter(([id, { since }]) => now - since >= REPLICA_FORGET_MS && !owners.has(id));
    return silent.map(([replica]) => ({ type: "forget", replica }));
  }

  #isAlive(id: string, now: number): boolean {
    const peer = this.#peers.get(id);
    return peer !== undefined && !peer.isGone && now - peer.since < REPLICA_SILENT_MS;
  }
}
