/**
 * Carries out what src/domain/ownership.ts decides: looks at the rows once a second, takes shards, has them loaded, gives and drops
 * them. Looks and takes go one after the other, so what is seen is never older than what was taken.
 */

import { REPLICA_BEAT_MS } from "../../domain/limits.ts";
import {
  type OwnershipAction,
  type OwnershipEvent,
  type SeenReplica,
  type SeenShard,
  type ShardHold,
  ShardOwnership,
} from "../../domain/ownership.ts";

/** Rejections mean that it is not known, or was not tried. */
export interface ShardRows {
  /** Beats too. */
  look(
    draining: boolean,
  ): Promise<{ readonly replicas: readonly SeenReplica[]; readonly shards: readonly SeenShard[] }>;
  /** Those that are still as they were seen. */
  take(shards: readonly SeenShard[]): Promise<readonly ShardHold[]>;
  forget(replica: string): Promise<void>;
}

/** What the queue has of shards in memory. */
export interface ShardMemory {
  load(shards: readonly ShardHold[]): Promise<void>;
  /** Once what is under way is written. Resolves also when another had them by then. False, or a rejection: they stay here. */
  give(shards: readonly ShardHold[], to: string): Promise<boolean>;
  /** Those who wait are sent to the new owner. */
  drop(shards: readonly number[]): Promise<void>;
}

export interface KeeperOptions {
  readonly id: string;
  readonly shards: number;
  readonly rows: ShardRows;
  readonly memory: ShardMemory;
  readonly monotonic: () => number;
  /** Resolves after so many milliseconds, or when the signal aborts. */
  readonly pause: (ms: number, signal: AbortSignal) => Promise<void>;
  /** What nobody awaits. */
  readonly own: (work: Promise<unknown>) => void;
  /** Shards of which something runs that may take long. */
  readonly busy?: () => ReadonlySet<number>;
  /** Shards that have workers or work. */
  readonly live?: () => ReadonlySet<number>;
  /** Shards may have another state now, or another owner. */
  readonly told?: () => void;
}

export class ShardKeeper {
  readonly ownership: ShardOwnership;
  readonly #options: KeeperOptions;
  readonly #closing = new AbortController();
  #nudged = new AbortController();
  #line: Promise<unknown> = Promise.resolve();
  #beats: Promise<void> | undefined;
  #draining = false;
  #given = 0;
  #isLeft: (() => void) | undefined;

  constructor(options: KeeperOptions) {
    this.#options = options;
    this.ownership = new ShardOwnership(options.id, options.shards);
  }

  /** Resolves when the rows were seen once. */
  async start(): Promise<void> {
    await this.look();
    this.#beats = this.#beat();
  }

  /** Looks at once: something is known to have changed. */
  nudge(): void {
    this.#nudged.abort();
  }

  look(): Promise<void> {
    return this.#inTurn(async () => {
      const { rows, monotonic } = this.#options;
      try {
        let seen: Awaited<ReturnType<ShardRows["look"]>>;
        let given: number;
        // What is given meanwhile may be seen as it was before.
        do {
          given = this.#given;
          seen = await rows.look(this.#draining);
        } while (given !== this.#given);
        this.tell({ type: "back" });
        const has = { busy: this.#options.busy?.() ?? new Set(), live: this.#options.live?.() ?? new Set() };
        this.tell({ type: "seen", now: monotonic(), ...seen, ...has });
      } catch (error) {
        this.tell({ type: "away" });
        throw error;
      }
    });
  }

  /** Something happened; what follows from it is done by and by. */
  tell(event: OwnershipEvent): void {
    if (this.#closing.signal.aborted) return;
    for (const action of this.ownership.on(event)) this.#options.own(this.#carryOut(action));
    if (this.#held === 0 || !this.ownership.hasHeir(this.#options.monotonic())) this.#isLeft?.();
    this.#options.told?.();
  }

  /** Gives all shards away, some at a time. Resolves when there are none left, or no other replica stays. */
  async drain(): Promise<void> {
    this.#draining = true;
    // Is anybody there by now?
    await this.look().catch(() => {});
    const left = new Promise<void>((resolve) => {
      this.#isLeft = resolve;
    });
    this.tell({ type: "drain", now: this.#options.monotonic() });
    this.nudge();
    await left;
  }

  /** No shard is taken or given any more. */
  async close(): Promise<void> {
    this.#closing.abort();
    this.nudge();
    await this.#beats;
    await this.#line;
  }

  get #held(): number {
    const { length } = this.ownership.in("FREE");
    return this.#options.shards - length;
  }

  async #beat(): Promise<void> {
    const { signal } = this.#closing;
    while (!signal.aborted) {
      await this.#options.pause(REPLICA_BEAT_MS, AbortSignal.any([signal, this.#nudged.signal]));
      this.#nudged = new AbortController();
      // While the database is away nobody beats, and nobody can take anything.
      if (!signal.aborted) await this.look().catch(() => {});
    }
  }

  async #carryOut(action: OwnershipAction): Promise<void> {
    const { rows, memory, monotonic } = this.#options;
    switch (action.type) {
      case "claim": {
        const won = await this.#inTurn(() => rows.take(action.shards)).catch(() => []);
        this.tell({ type: "claimed", tried: action.shards.map(({ shard }) => shard), won });
        return;
      }
      case "load":
        await this.#load(action.shards);
        return this.tell({ type: "loaded", shards: action.shards });
      case "give": {
        const { shards, to } = action;
        if (!(await this.#give(shards, to)))
          return this.tell({ type: "kept", now: monotonic(), shards: shards.map(({ shard }) => shard) });
        this.#given++;
        return this.tell({ type: "given", now: monotonic(), shards, to });
      }
      case "drop":
        await memory.drop(action.shards);
        return this.tell({ type: "dropped", shards: action.shards });
      case "forget":
        await this.#inTurn(() => rows.forget(action.replica)).catch(() => {});
    }
  }

  /** Nobody else takes them meanwhile: what failed is tried again after a beat. */
  async #load(shards: readonly ShardHold[]): Promise<void> {
    const { memory, own, pause } = this.#options;
    const { signal } = this.#closing;
    while (!signal.aborted) {
      try {
        return await memory.load(shards);
      } catch (error) {
        own(Promise.reject(error));
        await pause(REPLICA_BEAT_MS, signal);
      }
    }
  }

  /** Whether they are the other's. What was refused changed nothing, and is tried again after a beat. */
  async #give(shards: readonly ShardHold[], to: string): Promise<boolean> {
    const { memory, own, pause } = this.#options;
    try {
      return await memory.give(shards, to);
    } catch (error) {
      own(Promise.reject(error));
      await pause(REPLICA_BEAT_MS, this.#closing.signal);
      return false;
    }
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#line.then(work);
    this.#line = done.catch(() => {});
    return done;
  }
}
