/**
 * Which shards this platform may write for. Whoever takes one over changes its row, so that the one that had it finds with its next
 * batch that it has it no more, and has written nothing of that batch.
 */
import { hash, randomInt } from "node:crypto";
import type { ShardHold } from "../../domain/ownership.ts";
import { SHARDS } from "./schema.ts";
import type { Fence } from "./statement.ts";

const FENCES_PER_EPOCH = 2 ** 20;
const RANDOM_MAX = 2 ** 47;

/** Of [0, below). */
export type Random = (below: number) => number;
const random: Random = (below) => randomInt(below);

export class Ownership {
  /** Names its batches. */
  readonly writer: number;
  readonly #random: Random;
  readonly #holds = new Map<number, ShardHold>();
  #n = 0;
  /** Of the numbers of hand-outs in their epochs: the highest, and up to which they may have been lost with the end of what was written. */
  #highest = 0;
  #lost = 0;

  constructor(draw: Random = random) {
    this.#random = draw;
    this.writer = this.nonce();
  }

  /** One for each time that shards are taken: after a failover the same epoch may be given twice. */
  nonce(): number {
    return 1 + this.#random(RANDOM_MAX - 1);
  }

  took(holds: readonly ShardHold[]): void {
    for (const hold of holds) this.#holds.set(hold.shard, hold);
  }

  gave(shards: readonly number[]): void {
    for (const shard of shards) this.#holds.delete(shard);
  }

  has(shard: number): boolean {
    return this.#holds.has(shard);
  }

  holdOf(shard: number): ShardHold | undefined {
    return this.#holds.get(shard);
  }

  get shards(): readonly number[] {
    return [...this.#holds.keys()];
  }

  get hasAll(): boolean {
    return this.#holds.size === SHARDS;
  }

  epochOf(shard: number): number | undefined {
    return this.#holds.get(shard)?.epoch;
  }

  /** For statements over all endpoints: the part of a condition that leaves out those of others. */
  within(number: string): string {
    return this.hasAll ? "" : ` AND ${inShards(number, this.shards)}`;
  }

  /** Of the next batch. */
  fence(shards: ReadonlySet<number>, lastSeq = 0, after = 0): Fence {
    const held = [...shards].sort((a, b) => a - b).map((shard) => this.#holds.get(shard) ?? NOBODYS(shard));
    return {
      shards: held.map(({ shard }) => shard),
      epochs: held.map(({ epoch }) => epoch),
      nonces: held.map(({ nonce }) => nonce),
      writer: this.writer,
      n: ++this.#n,
      after,
      lastSeq,
    };
  }

  /** Of a job that was handed out under `fence` before. None of a hand-out that was never committed fits a later one. */
  nextFence(fence: number, shard: number): number {
    const first = (this.epochOf(shard) ?? 0) * FENCES_PER_EPOCH;
    const next = Math.max(fence, first + this.#lost) + 1;
    this.#highest = Math.max(this.#highest, next - first);
    return next;
  }

  /** The database lost the end of what was written, perhaps with hand-outs: their numbers are not given again. */
  tailLost(): void {
    this.#lost = this.#highest;
  }
}

/** Fits no row. */
const NOBODYS = (shard: number): ShardHold => ({ shard, epoch: -1, nonce: -1 });

export function shardOf(endpointId: string): number {
  return hash("sha256", endpointId, "buffer").readUInt8(0) % SHARDS;
}

/** Of a job, a delivery, a chunk or an endpoint, by its number. */
export function shardOfNumber(number: number): number {
  return number % SHARDS;
}

/** The same as a condition on rows, `number` being a column; indexes have it so (schema.ts). */
export function inShards(number: string, shards: readonly number[]): string {
  return `(${number} & ${SHARDS - 1}) = ANY('{${shards.join(",")}}')`;
}
