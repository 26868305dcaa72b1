/**
 * Which endpoints are this platform's where several share a database by shards, and what follows when that changes: those that came get
 * workers, workers of those that went end. Before a shard is given away its workers finish what they have.
 */
import { setTimeout as pause } from "node:timers/promises";
import { SHARDS_SETTLE_MAX_MS, STOP_POLL_MS } from "../domain/limits.ts";
import type { IsMine } from "../domain/own-endpoints.ts";
import type { ShardOwnership, ShardState } from "../domain/ownership.ts";
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
  /** Shards came or went: what nobody may wait for longer than he has to. Told each time. */
  moved(came: IsMine): Promise<void>;
  /** The rest of what follows. Never twice at a time. */
  changed(): Promise<void>;
  /** Those of these endpoints that have workers here. */
  served(isMeant: IsMine): readonly string[];
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
  #owners = "";
  #looking: "once" | "again" | undefined;
  /** Somebody else may have an endpoint now. */
  moved: () => void = () => {};
  /** This platform has other shards than before: all others should look. */
  changed: () => void = () => {};
  /** Resolves when that platform is ready to serve these endpoints, or will not be soon. */
  makeReady: (replica: string, endpointIds: readonly string[]) => Promise<void> = async () => {};

  constructor(me: string, own: (work: Promise<unknown>) => void) {
    this.#me = me;
    this.#own = own;
  }

  readonly isMine: IsMine = (endpointId) => this.#held.has(this.#shard(endpointId));

  /** It is being given away: nothing is started for it any more. */
  readonly isLeaving: IsMine = (endpointId) => this.#ownership?.stateOf(this.#shard(endpointId)) === "GIVING";

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
      if (HELD.has(ownership.stateOf(shard))) held.add(shard);
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
  readonly busy = (): ReadonlySet<number> =>
    new Set((this.#follows?.busy() ?? []).map((endpointId) => this.#shard(endpointId)));

  /** Workers here go on until the other is ready: what is held up is no more than the last of what they have begun. */
  readonly leaves = async (shard: number, to: string): Promise<void> => {
    const isMeant: IsMine = (endpointId) => this.#shard(endpointId) === shard;
    const served = this.#follows?.served(isMeant) ?? [];
    if (served.length > 0) await this.makeReady(to, served);
    await this.#follows?.drain(isMeant);
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
    const aborted = new Promise<void>((resolve) => signal.addEventListener("abort", () => resolve(), { once: true }));
    await Promise.race([this.#keeper?.drain(), aborted]);
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
      } while ((this.#looking as string) === "again");
    };
    this.#own(
      lookUntilQuiet().finally(() => {
        this.#looking = undefined;
      }),
    );
  }

  #shard(endpointId: string): number {
    if (this.#shardOf.size > ENDPOINTS_KNOWN_MAX) this.#shardOf.clear();
    return getOrInsert(this.#shardOf, endpointId, () => shardOf(endpointId));
  }

  isMe(replica: string): boolean {
    return replica === this.#me;
  }
}
