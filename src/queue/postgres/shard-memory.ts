/** A replica's shards in its queue: how they come into memory, and how they leave it. */
import { setTimeout as delay } from "node:timers/promises";
import { RESTART_LEASE_GRACE_MS } from "../../domain/limits.ts";
import type { ShardHold, ShardOwnership } from "../../domain/ownership.ts";
import { inTransaction, type Query } from "./connection.ts";
import type { PostgresCore } from "./core.ts";
import { loadState } from "./load.ts";
import { SHARDS } from "./schema.ts";
import { type KeeperOptions, ShardKeeper, type ShardMemory, type ShardRows } from "./shard-keeper.ts";
import { BEGIN_TAKE, beat, forgetReplica, type Gift, giveShards, type Replica, takeShards } from "./takeover.ts";

interface KeepOptions extends Pick<KeeperOptions, "own">, Partial<Pick<KeeperOptions, "shards" | "pause">> {
  /** Jobs of shards are at hand that were not. Never rejects. */
  readonly loaded: () => Promise<void>;
}

/** The replica's shards, from when the keeper is started. */
export function keepShards(
  core: PostgresCore,
  replica: Omit<Replica, "draining"> & {
    readonly moved?: (endpointIds: readonly string[]) => void;
    readonly leaves?: (shards: readonly number[], to: string) => Promise<boolean>;
    readonly told?: (ownership: ShardOwnership) => void;
    readonly busy?: () => ReadonlySet<number>;
    readonly live?: () => ReadonlySet<number>;
  },
  { loaded, ...others }: KeepOptions,
): ShardKeeper {
  const {
    moved = () => {},
    leaves = async () => true,
    told = () => {},
    busy = () => new Set<number>(),
    live = () => new Set<number>(),
  } = replica;
  const keeper: ShardKeeper = new ShardKeeper({
    id: replica.id,
    shards: SHARDS,
    rows: shardRows(core, replica),
    memory: shardMemory(core, { states: () => keeper.ownership, loaded, moved, leaves }),
    monotonic: core.monotonic,
    pause: async (ms, signal) => {
      await delay(ms, undefined, { signal, ref: false }).catch(() => {});
    },
    told: () => told(keeper.ownership),
    ...{ busy, live },
    ...others,
  });
  core.lost = (shards) => keeper.tell({ type: "lost", shards });
  core.db.onOutage(() => keeper.tell({ type: "away" }));
  return keeper;
}

export function shardRows(core: PostgresCore, replica: Omit<Replica, "draining">): ShardRows {
  const { db, ownership } = core;
  let isFirst = true;
  return {
    async look(draining) {
      const { last } = core;
      const ask = (query: Query) => beat(query, { ...replica, draining }, last);
      // Nothing waits for the first: a connection that is lost meanwhile keeps no platform from starting.
      const { hasTail, ...seen } = await (isFirst ? db.onWriter(ask) : db.apart(ask));
      isFirst = false;
      if (!hasTail) core.tailLost(last.n);
      return seen;
    },

    async take(shards) {
      const taker = { owner: replica.id, writer: ownership.writer, nonce: ownership.nonce() };
      const { won, lastSeq } = await db.apart((query) =>
        inTransaction(query, (same) => takeShards(same, taker, shards), BEGIN_TAKE),
      );
      core.given(lastSeq);
      return won;
    },

    forget: (id) => db.apart((query) => forgetReplica(query, id)),
  };
}

export interface MemoryOptions {
  readonly states: () => ShardOwnership;
  /** Their jobs are at hand. Never rejects. */
  readonly loaded: () => Promise<void>;
  /** Their workers and callers belong to another replica now. */
  readonly moved: (endpointIds: readonly string[]) => void;
  /** Resolves when the other is ready for them, and what their workers have begun here is over, as far as that is waited for. False: they stay. */
  readonly leaves?: (shards: readonly number[], to: string) => Promise<boolean>;
}

export function shardMemory(core: PostgresCore, { states, loaded, moved, leaves }: MemoryOptions): ShardMemory {
  const { db, ownership, pipeline } = core;

  /** What is still as it was taken. */
  function current(holds: readonly ShardHold[]): ShardHold[] {
    return holds.filter(({ shard, nonce }) => states().holdOf(shard)?.nonce === nonce);
  }

  function drop(shards: readonly number[]): void {
    moved(core.dropShards(shards));
  }

  core.dropped = moved;

  /** Those that are ready by the time that nothing of a batch is under way go together. */
  let gifts: Gift[] = [];
  let giving: Promise<void> | undefined;

  async function giveAll(): Promise<void> {
    const given = gifts.filter(({ shard, nonce }) => ownership.holdOf(shard)?.nonce === nonce);
    [gifts, giving] = [[], undefined];
    if (given.length === 0) return;
    const shards = new Set(given.map(({ shard }) => shard));
    const tryToGive = () =>
      db.onWriter((query) => giveShards(query, given, core.batches.journalledOf(shards), core.last));
    while (!(await tryToGive())) await core.readAgain();
    drop([...shards]);
  }

  return {
    async load(holds) {
      const epochs = new Map(holds.map(({ shard, epoch }) => [shard, epoch]));
      const scope = {
        epochOf: (shard: number) => epochs.get(shard),
        shards: [...epochs.keys()],
        writer: ownership.writer,
      };
      const state = await db.readSame((query) => loadState(query, scope));
      await pipeline.between(async () => {
        const still = current(holds);
        core.add(state, still, RESTART_LEASE_GRACE_MS);
        // Meanwhile another may have taken some.
        drop(holds.flatMap(({ shard }) => (still.some((one) => one.shard === shard) ? [] : [shard])));
      });
      await loaded();
    },

    async give(holds, to) {
      const shards = holds.map(({ shard }) => shard);
      if ((await leaves?.(shards, to)) === false) return false;
      gifts.push(...holds.map((hold) => ({ ...hold, to })));
      giving ??= pipeline.between(giveAll);
      await giving;
      return true;
    },

    async drop(shards) {
      await pipeline.between(async () => drop(shards.filter((shard) => states().stateOf(shard) === "LOST")));
    },
  };
}
