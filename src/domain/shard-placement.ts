/**
 * Which replica should have a shard: each ranks all replicas by a hash of both names, and the first that is there has it
 * (rendezvous hashing). All who see the same replicas find the same, without asking; when one comes or goes, only
 * what it had, or shall have, moves.
 */
import { createHash } from "node:crypto";

/** The replica that should have the shard; undefined when there is none. */
export function placeShard(shard: number, replicas: readonly string[]): string | undefined {
  let best: string | undefined;
  let most = "";
  for (const replica of replicas) {
    const weight = createHash("sha256").update(`${shard} ${replica}`).digest("hex");
    if (best !== undefined && weight < most) continue;
    best = replica;
    most = weight;
  }
  return best;
}

/** Places all shards, and remembers where while the replicas stay the same. */
export class ShardPlacement {
  readonly #shards: number;
  #replicas: string | undefined;
  #places: (string | undefined)[] = [];

  constructor(shards: number) {
    this.#shards = shards;
  }

  /** By number of the shard. */
  among(replicas: readonly string[]): readonly (string | undefined)[] {
    const names = [...replicas].sort().join(" ");
    if (names === this.#replicas) return this.#places;
    this.#replicas = names;
    this.#places = Array.from({ length: this.#shards }, (_, shard) => placeShard(shard, replicas));
    return this.#places;
  }
}
