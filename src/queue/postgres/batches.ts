/** Batches as they are written: the statement of what work changed, under the fence of its shards, until it is carried out or refused. */
import { QUEUE_FOLD_BATCHES } from "../../domain/limits.ts";
import type { EndpointState } from "../machine/live-state.ts";
import type { Connections } from "./connection.ts";
import type { Ownership } from "./ownership.ts";
import {
  COUNTED,
  ENDPOINT_IN,
  ENDPOINT_UP,
  type Fence,
  JOURNAL_OUT,
  type Part,
  type StatementAnswer,
  statementOf,
} from "./statement.ts";
import type { Unit } from "./unit.ts";

/**
 * A batch wrote nothing: these were taken over. With none, the database lacks the batch before it: a standby took over that had not got
 * it. What is in memory is read again, and the work is done on that.
 */
export class ShardsLost extends Error {
  readonly shards: readonly number[];

  constructor(shards: readonly number[]) {
    super("shards were taken over, or the end of what was written is lost");
    this.shards = shards;
  }
}

export class Batches {
  /** Endpoints whose rows have older counts than the journal. */
  readonly journalled = new Set<EndpointState>();
  readonly #db: Connections;
  readonly #ownership: Ownership;
  readonly #shard: (endpoint: EndpointState) => number;
  /** Of statements, by name. */
  readonly #texts = new Map<string, string>();
  /** The last that was carried out: without it in the rows, what is in memory is not what is in them. */
  #last = 0;
  #sinceFold = 0;
  #mustFold = false;

  constructor(db: Connections, ownership: Ownership, shard: (endpoint: EndpointState) => number) {
    this.#db = db;
    this.#ownership = ownership;
    this.#shard = shard;
  }

  /** The number of the last that was carried out; 0 when nothing in memory depends on one. */
  get last(): number {
    return this.#last;
  }

  /** Nothing is in memory any more. */
  forget(): void {
    this.journalled.clear();
    this.#last = 0;
  }

  /** All was read again: what the journal has is added to `journalled`, and goes to the rows with the next batch. */
  loaded(lastBatch: number): void {
    this.journalled.clear();
    this.#last = lastBatch;
    this.#mustFold = true;
  }

  /** Counts of the shard's endpoints that are in the journal, and older in their rows. */
  journalledOf(shard: number): number[][] {
    return [...this.journalled]
      .filter((endpoint) => endpoint.number > 0 && this.#shard(endpoint) === shard)
      .map(countsOf);
  }

  /** Resolves the references of chunks that are gone. Throws ShardsLost. */
  async write(unit: Unit, lastSeq: number): Promise<readonly string[]> {
    const changes = unit.changes();
    const mustFold = (this.#mustFold && this.journalled.size > 0) || this.#sinceFold >= QUEUE_FOLD_BATCHES;
    const counts: number[][] = [];
    const add = (part: Part<never>, rows: readonly unknown[]) => rows.length > 0 && changes.set(part, rows);
    add(
      ENDPOINT_IN as Part<never>,
      [...unit.newEndpoints].map((endpoint) => {
        const [number, ...values] = countsOf(endpoint);
        return [number, endpoint.id, this.#shard(endpoint), ...values];
      }),
    );
    for (const endpoint of unit.endpoints) {
      if (unit.newEndpoints.has(endpoint)) continue;
      this.journalled.add(endpoint);
      if (!mustFold) counts.push([...countsOf(endpoint), this.#ownership.epochOf(this.#shard(endpoint)) ?? 0]);
    }
    const shards = new Set(unit.shards);
    for (const endpoint of unit.endpoints) shards.add(this.#shard(endpoint));
    for (const endpoint of unit.newEndpoints) shards.add(this.#shard(endpoint));
    // What the journal has of a shard is removed by the one that has the shard, and nobody else.
    if (mustFold) for (const endpoint of this.journalled) shards.add(this.#shard(endpoint));
    const fence = this.#ownership.fence(shards, lastSeq, this.#last);
    if (mustFold) {
      const stored = [...this.journalled].filter((one) => one.number > 0 && !unit.newEndpoints.has(one));
      add(ENDPOINT_UP as Part<never>, stored.map(countsOf));
      add(JOURNAL_OUT as Part<never>, [[fence.writer, fence.n]]);
    }
    const statement = statementOf(changes, fence, JSON.stringify(counts), this.#texts);
    if (statement === undefined) return [];
    let gone: readonly string[];
    for (;;) {
      const [answer] = await this.#db.write<StatementAnswer>(statement.text, statement.values, statement.name);
      if (answer!.log === 1 || answer!.before === 1) {
        gone = answer!.refs ?? [];
        break;
      }
      if (answer!.own < fence.shards.length) throw new ShardsLost(await this.#lostOf(fence));
      if (!answer!.follows) throw new ShardsLost([]);
      // An earlier try was committed while this one waited for it: the next look sees it.
    }
    this.#last = fence.n;
    this.#sinceFold = mustFold ? 0 : this.#sinceFold + 1;
    if (mustFold) {
      this.#mustFold = false;
      this.journalled.clear();
    }
    return gone;
  }

  /** Those of a batch that another has. */
  async #lostOf({ shards, epochs, nonces }: Fence): Promise<readonly number[]> {
    const rows = await this.#db.insist((query) =>
      query<{ shard: number; epoch: number; nonce: number }>(
        "SELECT shard, epoch, nonce FROM queue_shards WHERE shard = ANY($1)",
        [shards],
      ),
    );
    const held = new Map(rows.map(({ shard, epoch, nonce }) => [shard, `${epoch} ${nonce}`]));
    return shards.filter((shard, index) => held.get(shard) !== `${epochs[index]} ${nonces[index]}`);
  }
}

/** The number, then as COUNTED. */
function countsOf(endpoint: EndpointState): number[] {
  const { number, inQueue, inQueueLowPriority, delayed, completed, failed, retried } = endpoint;
  const counts: Record<(typeof COUNTED)[number], number> = {
    in_queue: inQueue,
    in_queue_low: inQueueLowPriority,
    delayed,
    completed,
    failed,
    retried,
  };
  return [number, ...COUNTED.map((name) => counts[name])];
}
