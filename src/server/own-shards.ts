/**
 * Which endpoints are this platform's where several share a database by shards, and what follows when that changes: those that came get
 * workers, workers of those that went end. A shard is given away in three steps:
 *
 *   the next owner starts workers for it, this one serves it as ever ──ready, or too late──▶ workers here finish what they have ──▶ given
 *                                 └──the next owner is gone──▶ kept, for another one
 */
import { setTimeout as pause } from "node:timers/promises";
import {
  SHARD_READY_MAX_MS,
  SHARDS_GIVEN_MAX_MS,
  SHARDS_LOOK_PAUSE_MS,
  SHARDS_SETTLE_MAX_MS,
  STOP_POLL_MS,
} from "../domain/limits.ts";
import type { IsMine } from "../domain/own-endpoints.ts";
import type { ShardOwnership, ShardState } from "../domain/ownership.ts";
import type { AheadWish } from "../domain/worker.ts";
import { getOrInsert } from "../lib/get-or-insert.ts";
import { shardOf } from "../queue/postgres/ownership.ts";
import { SHARDS } from "../queue/postgres/schema.ts";
import type { ShardKeeper } from "../queue/postgres/shard-keeper.ts";

/** Its jobs are in memory here. */
const HELD = new Set<ShardState>(["OWNER", "UNSURE", "GIVING"]);
const ENDPOINTS_KNOWN_MAX = 20_000;

interface Follows {
  /** Endpoints of which something runs that may take long. */
  busy(): readonly string[];
  /** Endpoints that have workers or work. */
  live(): Iterable<string>;
  /** Shards came or went: what nobody may wait for longer than he has to. Told each time. */
  moved(came: IsMine): Promise<void>;
  /** The rest of what follows. Never twice at a time. */
  changed(): Promise<void>;
  /** What runs here of these endpoints. */
  served(isMeant: IsMine): readonly AheadWish[];
  /** Resolves when what workers of these endpoints have begun is over, as far as that is waited for. */
  drain(isMeant: IsMine): Promise<void>;
}

export class OwnShards {
  readonly #me: string;
  readonly #own: (work: Promise<unknown>) => void;
  readonly #shardOf = new Map<string, number>();
  #keeper: ShardKeeper | undefined;
  #ownership: ShardOwnership | undefined;
  #follows: Follows | undefined;
  #held: ReadonlySet<number> = new Set();
  /** Of those that are being given: their workers finish. */
  readonly #draining = new Set<number>();
  /** Nobody is waited for after that: this platform is to have given all away in time. */
  #readyUntil = Number.POSITIVE_INFINITY;
  #owners = "";
  #looking: "once" | "again" | undefined;
  /** Somebody else may have an endpoint now. */
  moved: () => void = () => {};
  /** This platform has other shards than before: all others should look. */
  changed: () => void = () => {};
  /** Resolves when that platform runs these, cannot, or has had `maxMs` for it. False: it is gone. */
  makeReady: (replica: string, wishes: readonly AheadWish[], maxMs: number) => Promise<boolean> = async () => true;

  constructor(me: string, own: (work: Promise<unknown>) => void) {
    this.#me = me;
    this.#own = own;
  }

  readonly isMine: IsMine = (endpointId) => this.#held.has(this.#shard(endpointId));

  /** Its workers finish what they have before it is given away: nothing is started for it any more. */
  readonly isLeaving: IsMine = (endpointId) => this.#draining.has(this.#shard(endpointId));

  /** The id of the platform that has it, as far as is known here; "" when nobody has. */
  ownerOf(endpointId: string): string {
    return this.#ownership?.ownerOf(this.#shard(endpointId)) ?? "";
  }

  /** How many shards each platform has, by its id. */
  counts(): Map<string, number> {
    const counts = new Map<string, number>();
    for (let shard = 0; shard < SHARDS; shard++) {
      const owner = this.#ownership?.ownerOf(shard) ?? "";
      counts.set(owner, (counts.get(owner) ?? 0) + 1);
    }
    return counts;
  }

  get keeper(): ShardKeeper | undefined {
    return this.#keeper;
  }

  set keeper(keeper: ShardKeeper) {
    this.#keeper = keeper;
  }

  /** For the queue: what it tells of its shards. */
  readonly told = (ownership: ShardOwnership): void => {
    this.#ownership = ownership;
    const held = new Set<number>();
    const owners: string[] = [];
    for (let shard = 0; shard < SHARDS; shard++) {
      owners.push(ownership.ownerOf(shard));
      const state = ownership.stateOf(shard);
      if (HELD.has(state)) held.add(shard);
      if (state === "GIVING") continue;
      if (HELD.has(state)) this.#goOn([shard]);
      else this.#draining.delete(shard);
    }
    const came = new Set([...held].filter((shard) => !this.#held.has(shard)));
    const isSame = held.size === this.#held.size && [...held].every((shard) => this.#held.has(shard));
    this.#held = held;
    const all = owners.join(" ");
    if (all === this.#owners && isSame) return;
    this.#owners = all;
    this.moved();
    if (isSame) return;
    this.changed();
    if (this.#follows !== undefined) this.#own(this.#follows.moved((id) => came.has(this.#shard(id))));
    this.#look();
  };

  /** For the queue: shards of which something runs that may take long. */
  readonly busy = (): ReadonlySet<number> => this.#shardsOf(this.#follows?.busy());

  /** For the queue: shards that may have to be waited for. */
  readonly live = (): ReadonlySet<number> => this.#shardsOf(this.#follows?.live());

  /** For the queue, before shards are given. False: they are not to be. */
  readonly leaves = async (shards: readonly number[], to: string): Promise<boolean> => {
    this.#goOn(shards);
    const meant = new Set(shards);
    const isMeant: IsMine = (endpointId) => meant.has(this.#shard(endpointId));
    const served = this.#follows?.served(isMeant) ?? [];
    const maxMs = Math.min(SHARD_READY_MAX_MS, this.#readyUntil - performance.now());
    if (served.length > 0 && maxMs > 0 && !(await this.makeReady(to, served, maxMs))) return false;
    for (const shard of shards) this.#draining.add(shard);
    await this.#follows?.drain(isMeant);
    return true;
  };

  /** Resolves when what this platform is to have at its start is in memory, or that takes too long. */
  async settled(): Promise<void> {
    const until = performance.now() + SHARDS_SETTLE_MAX_MS;
    const comes = () => (["CLAIMING", "LOADING"] as const).some((state) => this.#ownership?.in(state).length);
    while (comes() && performance.now() < until) await pause(STOP_POLL_MS);
  }

  /** From now on changes have consequences. */
  follow(follows: Follows): void {
    this.#follows = follows;
  }

  /** This platform gives all it has away, to whoever is there. Resolves when that is done, or `signal` aborts. */
  async drain(signal: AbortSignal): Promise<void> {
    this.#readyUntil = performance.now() + SHARDS_GIVEN_MAX_MS / 2;
    const aborted = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
    await Promise.race([this.#keeper?.drain(), aborted]);
  }

  /** They could not be given: their workers, who have been told to finish, are needed again. */
  #goOn(shards: readonly number[]): void {
    const kept = shards.filter((shard) => this.#draining.delete(shard));
    if (kept.length > 0) this.#look();
  }

  #look(): void {
    const follows = this.#follows;
    if (follows === undefined) return;
    if (this.#looking !== undefined) {
      this.#looking = "again";
      return;
    }
    const lookUntilQuiet = async () => {
      do {
        this.#looking = "once";
        await follows.changed();
        // Shards come and go many at once, and others wait for the database too.
        if ((this.#looking as string) === "again") await pause(SHARDS_LOOK_PAUSE_MS);
      } while ((this.#looking as string) === "again");
    };
    this.#own(
      lookUntilQuiet().finally(() => {
        this.#looking = undefined;
      }),
    );
  }

  #shardsOf(endpointIds: Iterable<string> = []): ReadonlySet<number> {
    return new Set([...endpointIds].map((endpointId) => this.#shard(endpointId)));
  }

  #shard(endpointId: string): number {
    if (this.#shardOf.size > ENDPOINTS_KNOWN_MAX) this.#shardOf.clear();
    return getOrInsert(this.#shardOf, endpointId, () => shardOf(endpointId));
  }

  isMe(replica: string): boolean {
    return replica === this.#me;
  }
}
