/**
 * Who may write. This platform takes all shards when it starts; the one that had them finds, with its next batch, that it
 * has them no more, and has written nothing of that batch.
 */
import { createHash, randomInt } from "node:crypto";
import type { Query } from "./connection.ts";
import { SHARDS } from "./schema.ts";
import type { Fence } from "./statement.ts";

const FENCES_PER_EPOCH = 2 ** 20;
const NONCE_MAX = 2 ** 47;

export class Ownership {
  readonly #nonce = randomInt(1, NONCE_MAX);
  readonly #epochs: number[] = [];
  /** Of this platform's batches, and the lowest fence of its hand-outs in an epoch of 2**20. */
  #epoch = 0;
  #n = 0;

  /** Waits for the batch of whoever has them that is under way. `owner`: for people who look at the table. */
  async take(query: Query, owner: string): Promise<void> {
    const rows = await query<{ shard: number; epoch: string }>(
      `WITH s AS (SELECT shard FROM queue_shards ORDER BY shard FOR UPDATE)
       UPDATE queue_shards t SET owner = $1, epoch = t.epoch + 1, nonce = $2 FROM s WHERE t.shard = s.shard
       RETURNING t.shard, t.epoch::text`,
      [owner, this.#nonce],
    );
    for (const { shard, epoch } of rows) this.#epochs[shard] = Number(epoch);
    this.#epoch = Math.max(...this.#epochs);
    this.#n = 0;
  }

  /** Of the next batch. */
  fence(shards: ReadonlySet<number>, lastSeq = 0): Fence {
    const of = shards.size === 0 ? [0] : [...shards].sort((a, b) => a - b);
    return {
      shards: of,
      epochs: of.map((shard) => this.#epochs[shard]!),
      nonces: of.map(() => this.#nonce),
      epoch: this.#epoch,
      n: ++this.#n,
      lastSeq,
    };
  }

  /** Of a job that was handed out under `fence` before. None of a hand-out that was never committed fits a later one. */
  nextFence(fence: number): number {
    return Math.max(fence, this.#epoch * FENCES_PER_EPOCH) + 1;
  }
}

export function shardOf(endpointId: string): number {
  return createHash("sha256").update(endpointId).digest().readUInt8(0) % SHARDS;
}
