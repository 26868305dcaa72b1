/** Which chunks of logs there are, as rows of PostgreSQL. Every method throws DATABASE_AWAY and what else PostgreSQL refuses, in words. */
import { LOG_CHUNKS_PAGE, LOG_KEPT_CHUNKS_MAX, LOG_KEPT_MAX_BYTES } from "../domain/limits.ts";
import type { Postgres } from "../postgres/postgres.ts";
import type { ChunkName } from "./chunk-objects.ts";
import type { LogTimes } from "./log-store.ts";

export interface ChunkRow extends ChunkName {
  /** Of its lines, milliseconds since the epoch. */
  readonly firstAt: number;
  readonly lastAt: number;
  readonly lines: number;
  /** Of its text. */
  readonly bytes: number;
}

/** A place in the order in which chunks are read. */
type After = Pick<ChunkRow, "lastAt" | "id">;

const NAME = `endpoint_id AS "endpointId", id`;
const ROW = `${NAME}, first_at AS "firstAt", last_at AS "lastAt", lines, bytes`;
/** The endpoints one by one, by the index: there are far fewer than chunks. */
const ENDPOINTS = `WITH RECURSIVE each AS (
    SELECT min(endpoint_id) AS id FROM log_chunks
    UNION ALL SELECT (SELECT min(endpoint_id) FROM log_chunks WHERE endpoint_id > each.id) FROM each WHERE each.id IS NOT NULL)
  SELECT id FROM each WHERE id IS NOT NULL`;
const SURPLUS = `SELECT id FROM (
    SELECT id, last_at, sum(bytes) OVER newer AS total, row_number() OVER newer AS n FROM log_chunks WHERE endpoint_id = ANY($1)
    WINDOW newer AS (PARTITION BY endpoint_id ORDER BY last_at DESC, id DESC)) AS counted
  WHERE total > $2 OR n > $3 ORDER BY last_at, id LIMIT ${LOG_CHUNKS_PAGE}`;

export class ChunkIndex {
  readonly #postgres: Postgres;

  constructor(postgres: Postgres) {
    this.#postgres = postgres;
  }

  /** A row that is there is replaced. */
  async put(rows: readonly ChunkRow[]): Promise<void> {
    await this.#postgres.query(
      `INSERT INTO log_chunks (id, endpoint_id, first_at, last_at, lines, bytes)
         SELECT * FROM unnest($1::text[], $2::text[], $3::int8[], $4::int8[], $5::int8[], $6::int8[])
       ON CONFLICT (id) DO UPDATE SET first_at = excluded.first_at, last_at = excluded.last_at,
         lines = excluded.lines, bytes = excluded.bytes`,
      [
        rows.map(({ id }) => id),
        rows.map(({ endpointId }) => endpointId),
        rows.map(({ firstAt }) => firstAt),
        rows.map(({ lastAt }) => lastAt),
        rows.map(({ lines }) => lines),
        rows.map(({ bytes }) => bytes),
      ],
    );
  }

  /** Some of those whose lines may be between these times, the newest first. */
  async newest(endpointIds: readonly string[], { since, until }: LogTimes, after?: After): Promise<ChunkRow[]> {
    const { rows } = await this.#postgres.query<ChunkRow>(
      `SELECT ${ROW} FROM log_chunks WHERE endpoint_id = ANY($1) AND last_at >= $2 AND first_at <= $3
         AND (last_at, id) < ($4, $5) ORDER BY last_at DESC, id DESC LIMIT ${LOG_CHUNKS_PAGE}`,
      [
        endpointIds,
        since ?? 0,
        until ?? Number.MAX_SAFE_INTEGER,
        after?.lastAt ?? Number.MAX_SAFE_INTEGER,
        after?.id ?? "",
      ],
    );
    return rows;
  }

  /** Those of them that have a row. */
  async known(ids: readonly string[]): Promise<Set<string>> {
    const { rows } = await this.#postgres.query<{ id: string }>("SELECT id FROM log_chunks WHERE id = ANY($1)", [ids]);
    return new Set(rows.map(({ id }) => id));
  }

  async endpointIds(): Promise<string[]> {
    const { rows } = await this.#postgres.query<{ id: string }>(ENDPOINTS);
    return rows.map(({ id }) => id);
  }

  /** Takes out some of an endpoint; resolves what their objects are called, as all that follow do. */
  async forget(endpointId: string): Promise<ChunkName[]> {
    return this.#delete(`SELECT id FROM log_chunks WHERE endpoint_id = $1 LIMIT ${LOG_CHUNKS_PAGE}`, [endpointId]);
  }

  /** Takes out some of what these endpoints have above what is kept, the oldest first. */
  async trim(endpointIds: readonly string[]): Promise<ChunkName[]> {
    return this.#delete(SURPLUS, [endpointIds, LOG_KEPT_MAX_BYTES, LOG_KEPT_CHUNKS_MAX]);
  }

  /** Takes out some of those whose last line is older than `before`. */
  async expire(before: number): Promise<ChunkName[]> {
    const oldest = `SELECT id FROM log_chunks WHERE last_at < $1 ORDER BY last_at, id LIMIT ${LOG_CHUNKS_PAGE}`;
    return this.#delete(oldest, [before]);
  }

  /** As an array they are found by key, not by a look at every row. */
  async #delete(ids: string, values: readonly unknown[]): Promise<ChunkName[]> {
    const gone = `DELETE FROM log_chunks WHERE id = ANY(ARRAY(${ids})) RETURNING ${NAME}`;
    return (await this.#postgres.query<ChunkName>(gone, values)).rows;
  }
}
