/**
 * Shards change hands here, each time in one transaction: who may write, and the counts of their endpoints, which the journal of the one
 * that had them has newer. So an entry of an earlier epoch is never needed again, whoever wrote it.
 */
import type { SeenReplica, SeenShard, ShardHold } from "../../domain/ownership.ts";
import { arrayOf } from "./arrays.ts";
import type { Query } from "./connection.ts";
import { countColumns, hasTail, journalled, ownsTail, STORE_COUNTS, storeCounts } from "./journal.ts";
import { SHARDS } from "./schema.ts";

/** Who takes: `nonce` is of this time alone. */
export interface Taker {
  readonly owner: string;
  readonly writer: number;
  readonly nonce: number;
}

export interface Taken {
  readonly won: readonly ShardHold[];
  /** The highest number given so far. */
  readonly lastSeq: number;
}

const LAST_SEQ = `SELECT greatest((SELECT max(last_seq) FROM queue_journal), (SELECT max(last_seq) FROM queue_shards),
  (SELECT max(seq) FROM open_jobs), 0)::int8 AS last`;

/**
 * Part of a transaction. Takes those that are as they were seen, or all whoever has them. Waits for the batch of whoever has them
 * that is under way.
 */
export async function takeShards(query: Query, taker: Taker, wanted: readonly SeenShard[] | "all"): Promise<Taken> {
  const { owner, writer, nonce } = taker;
  const set = "owner = $1, epoch = t.epoch + 1, nonce = $2, writer = $3";
  // Its rows are locked in order, so that two who take several never wait for each other.
  const rows =
    wanted === "all"
      ? await query<{ shard: number; epoch: number }>(
          `WITH s AS (SELECT shard FROM queue_shards ORDER BY shard FOR UPDATE)
           UPDATE queue_shards t SET ${set} FROM s WHERE t.shard = s.shard RETURNING t.shard, t.epoch`,
          [owner, nonce, writer],
        )
      : await query<{ shard: number; epoch: number }>(
          `WITH s AS (SELECT q.shard FROM queue_shards q
             JOIN unnest($4::int4[], $5::int8[], $6::int8[]) w(shard, epoch, nonce) USING (shard, epoch, nonce)
             ORDER BY q.shard FOR UPDATE OF q)
           UPDATE queue_shards t SET ${set} FROM s WHERE t.shard = s.shard RETURNING t.shard, t.epoch`,
          [owner, nonce, writer, ...columnsOf(wanted)],
        );
  const won = rows.map(({ shard, epoch }) => ({ shard, epoch: Number(epoch), nonce }));
  if (won.length === 0) return { won, lastSeq: 0 };
  // A statement of its own: it sees the batch that was waited for.
  const before = new Map(won.map(({ shard, epoch }) => [shard, epoch - 1]));
  const counts = await journalled(query, (shard) => before.get(shard));
  await storeCounts(query, [...counts.values()]);
  const [row] = await query<{ last_seq: number }>(
    `WITH gone AS (DELETE FROM queue_journal WHERE epoch NOT IN (SELECT writer FROM queue_shards))
     UPDATE queue_shards SET last_seq = (${LAST_SEQ}) WHERE shard = ANY($1) RETURNING last_seq`,
    [won.map(({ shard }) => shard)],
  );
  return { won, lastSeq: Number(row!.last_seq) };
}

/** Who stands still in the middle of a take must not hold up the others: the server ends it. Nor must beats wait for long. */
export const BEGIN_TAKE = "BEGIN; SET LOCAL idle_in_transaction_session_timeout = 5000; SET LOCAL lock_timeout = 500";

/** A shard that goes to another replica. */
export interface Gift extends ShardHold {
  readonly to: string;
}

/**
 * Each shard is the other's to take; `counts` are those of their endpoints. One statement, so that nobody can stand still in it.
 * Epochs stay: of those the others bring the journal's entries to the rows. Nothing happens to a shard that was taken before.
 * Resolves false, and gives nothing, when the database lacks the `last` batch: the counts are not those of the rows then.
 */
export async function giveShards(
  query: Query,
  gifts: readonly Gift[],
  counts: readonly (readonly number[])[],
  last: Last,
): Promise<boolean> {
  const columns = countColumns(counts);
  const at = (n: number) => `$${columns.length + n}`;
  const tail = ownsTail(at(5), at(6));
  // In order, as whoever takes them locks them; and no other row: whoever takes one from here may delete the journal.
  const [row] = await query<{ lacks: boolean }>(
    `WITH mine AS (SELECT q.shard, w.owner FROM queue_shards q
       JOIN unnest(${at(1)}::int4[], ${at(2)}::int8[], ${at(3)}::int8[], ${at(4)}::text[]) w(shard, epoch, nonce, owner)
       USING (shard, epoch, nonce) ORDER BY q.shard FOR UPDATE OF q),
     given AS (UPDATE queue_shards q SET owner = m.owner, nonce = 0 FROM mine m WHERE q.shard = m.shard AND ${tail} RETURNING q.shard),
     counted AS (${STORE_COUNTS} AND o.number & ${SHARDS - 1} IN (SELECT shard FROM given) RETURNING 1)
     SELECT EXISTS (SELECT FROM mine) AND NOT ${tail} AS lacks, (SELECT count(*) FROM counted)`,
    [
      ...columns,
      ...columnsOf(gifts),
      arrayOf(
        "text",
        gifts.map(({ to }) => to),
      ),
      last.writer,
      last.n,
    ],
  );
  return !row!.lacks;
}

/** The last batch of a writer that was carried out; `n` is 0 when nothing in memory depends on one. */
export interface Last {
  readonly writer: number;
  readonly n: number;
}

export interface Replica {
  readonly id: string;
  /** Where its links are. */
  readonly address: string;
  /** Versions of the links' protocol that it speaks. */
  readonly links: { readonly first: number; readonly last: number };
  readonly draining: boolean;
}

/** Says that the replica lives, and reads which others do, who has which shard, and whether its last batch is there. */
export async function beat(query: Query, { id, address, links, draining }: Replica, last: Last) {
  const [row] = await query<{
    replicas: SeenReplica[] | null;
    shards: [number, string, number, number][];
    tail: boolean;
  }>(
    `WITH beats AS (INSERT INTO replicas AS r VALUES ($1, $2, $3, $4, 1, $5)
       ON CONFLICT (id) DO UPDATE SET beat = r.beat + 1, draining = $5)
     SELECT (SELECT json_agg(json_build_object('id', id, 'beat', beat, 'draining', draining)) FROM replicas) AS replicas,
       (SELECT json_agg(json_build_array(shard, owner, epoch, nonce)) FROM queue_shards) AS shards,
       ${hasTail("$6", "$7")} AS tail`,
    [id, address, links.first, links.last, draining, last.writer, last.n],
  );
  const shards = row!.shards.map(([shard, owner, epoch, nonce]) => ({ shard, owner, epoch, nonce }));
  return { replicas: row!.replicas ?? [], shards, hasTail: row!.tail };
}

export async function forgetReplica(query: Query, id: string): Promise<void> {
  await query("DELETE FROM replicas WHERE id = $1", [id]);
}

function columnsOf(shards: readonly ShardHold[]): unknown[] {
  return [
    arrayOf(
      "int4",
      shards.map(({ shard }) => shard),
    ),
    arrayOf(
      "int8",
      shards.map(({ epoch }) => epoch),
    ),
    arrayOf(
      "int8",
      shards.map(({ nonce }) => nonce),
    ),
  ];
}
