/** A replica's shards in its queue: how they come into memory, and how they leave it. */
import { setTimeout as delay } from "node:timers/promises";
import { RESTART_LEASE_GRACE_MS } from "../../domain/limits.ts";
import type { ShardHold, ShardOwnership } from "../../domain/ownership.ts";
import type { PostgresCore } from "./core.ts";
import { loadState } from "./load.ts";
import { SHARDS } from "./schema.ts";
import { type KeeperOptions, ShardKeeper, type ShardMemory, type ShardRows } from "./shard-keeper.ts";
import { beat, boundTake, forgetReplica, giveShard, type Replica, takeShards } from "./takeover.ts";

interface KeepOptions extends Pick<KeeperOptions, "own">, Partial<Pick<KeeperOptions, "shards" | "pause">> {
  /** Jobs of shards are at hand that were not. */
  readonly loaded: () => Promise<void>;
}

/** The replica's shards, from when the keeper is started. */
export function keepShards(
  core: PostgresCore,
  replica: Omit<Replica, "draining"> & {
    readonly moved?: (endpointIds: readonly string[]) => void;
    readonly leaves?: (shard: number, to: string) => Promise<boolean>;
    readonly gave?: (replica: string) => void;
    readonly told?: (ownership: ShardOwnership) => void;
    readonly busy?: () => ReadonlySet<number>;
  },
  { loaded, ...others }: KeepOptions,
): ShardKeeper {
  const {
    moved = () => {},
    leaves = async () => true,
    gave = () => {},
    told = () => {},
    busy = () => new Set<number>(),
  } = replica;
  const keeper: ShardKeeper = new ShardKeeper({
    id: replica.id,
    shards: SHARDS,
    rows: shardRows(core, replica),
    memory: shardMemory(core, { states: () => keeper.ownership, loaded, moved, leaves, gave }),
    monotonic: core.monotonic,
    pause: async (ms, signal) => {
      await delay(ms, undefined, { signal, ref: false }).catch(() => {});
    },
    told: () => told(keeper.ownership),
    busy,
    ...others,
  });
  core.lost = (shards) => keeper.tell({ type: "lost", shards });
  core.db.onOutage(() => keeper.tell({ type: "away" }));
  return keeper;
}

export function shardRows(core: PostgresCore, replica: Omit<Replica, "draining">): ShardRows {
  const { db, ownership } = core;
  return {
    async look(draining) {
      const { last } = core;
      const { hasTail, ...seen } = await db.apart((query) => beat(query, { ...replica, draining }, last));
      if (!hasTail) core.tailLost(last.n);
      return seen;
    },

    async take(shards) {
      const taker = { owner: replica.id, writer: ownership.writer, nonce: ownership.nonce() };
      const { won, lastSeq } = await db.apart(async (query) => {
        await boundTake(query);
        return takeShards(query, taker, shards);
      });
      core.given(lastSeq);
      return won;
    },

    forget: (id) => db.apart((query) => forgetReplica(query, id)),
  };
}

export interface MemoryOptions {
  readonly states: () => ShardOwnership;
  /** Their jobs are at hand. */
  readonly loaded: () => Promise<void>;
  /** Their workers and callers belong to another replica now. */
  readonly moved: (endpointIds: readonly string[]) => void;
  /** Resolves when the other is ready for it, and what its workers have begun here is over, as far as that is waited for. False: it stays. */
  readonly leaves?: (shard: number, to: string) => Promise<boolean>;
  readonly gave: (replica: string) => void;
}

export function shardMemory(core: PostgresCore, { states, loaded, moved, leaves, gave }: MemoryOptions): ShardMemory {
  const { db, ownership, pipeline } = core;

  /** What is still as it was taken. */
  function current(holds: readonly ShardHold[]): ShardHold[] {
    return holds.filter(({ shard, nonce }) => states().holdOf(shard)?.nonce === nonce);
  }

  function drop(shards: readonly number[]): void {
    moved(core.dropShards(shards));
  }

  core.dropped = moved;

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

    async give(hold, to) {
      const { shard } = hold;
      if ((await leaves?.(shard, to)) === false) return false;
      await pipeline.between(async () => {
        if (ownership.holdOf(shard)?.nonce !== hold.nonce) return;
        const tryToGive = () =>
          db.onWriter((query) => giveShard(query, hold, to, core.batches.journalledOf(shard), core.last));
        while (!(await tryToGive())) await core.readAgain();
        drop([shard]);
        gave(to);
      });
      return true;
    },

    async drop(shards) {
      await pipeline.between(async () => drop(shards.filter((shard) => states().stateOf(shard) === "LOST")));
    },
  };
}
