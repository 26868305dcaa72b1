/** Batches as they are written: the statement of what work changed, under the fence of its shards, until it is carried out or refused. */
import { QUEUE_FOLD_BATCHES } from "../../domain/limits.ts";
import type { ShardHold } from "../../domain/ownership.ts";
import type { EndpointState } from "../machine/live-state.ts";
import type { Connections, Query } from "./connection.ts";
import { hasTail } from "./journal.ts";
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
import type { Last } from "./takeover.ts";
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

  /** Counts of the shards' endpoints that are in the journal, and older in their rows. */
  journalledOf(shards: ReadonlySet<number>): number[][] {
    return [...this.journalled]
      .filter((endpoint) => endpoint.number > 0 && shards.has(this.#shard(endpoint)))
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
      if (answer!.own < fence.shards.length)
        throw new ShardsLost(await this.#db.insist((query) => lostOf(query, holdsOf(fence))));
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
}

/** How a snapshot has what is the replica's: shards that another has in it, and whether it has the last batch. */
export async function seenOf(
  query: Query,
  ownership: Ownership,
  { writer, n }: Last,
): Promise<{ readonly lost: readonly number[]; readonly hadTail: boolean }> {
  const [row] = await query<{ there: boolean }>(`SELECT ${hasTail("$1", "$2")} AS there`, [writer, n]);
  const holds = ownership.shards.map((shard) => ownership.holdOf(shard)!);
  return { lost: await lostOf(query, holds), hadTail: row!.there };
}

function holdsOf({ shards, epochs, nonces }: Fence): ShardHold[] {
  return shards.map((shard, at) => ({ shard, epoch: epochs[at]!, nonce: nonces[at]! }));
}

/** Those that another has. */
async function lostOf(query: Query, holds: readonly ShardHold[]): Promise<readonly number[]> {
  const rows = await query<ShardHold>("SELECT shard, epoch, nonce FROM queue_shards WHERE shard = ANY($1)", [
    holds.map(({ shard }) => shard),
  ]);
  const held = new Map(rows.map(({ shard, epoch, nonce }) => [shard, `${epoch} ${nonce}`]));
  return holds.flatMap(({ shard, epoch, nonce }) => (held.get(shard) === `${epoch} ${nonce}` ? [] : [shard]));
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
