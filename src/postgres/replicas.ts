/**
 * Platforms on one database find each other by a table: each raises its beat once a second, and says where others reach it and what their
 * links have to speak. Who has the database is in `platform_owner`. Nothing depends on these times.
 */
import { SvcError } from "../domain/errors.ts";
import { STANDSTILL_MS, WAITING_BEAT_MS, WAITING_FORGET_S } from "../domain/limits.ts";
import { Standstill } from "../lib/standstill.ts";
import type { Postgres } from "./postgres.ts";
import { hasTable, makeTable } from "./tables.ts";

export interface ReplicaRow {
  readonly id: string;
  /** Machine and data directory, for people. */
  readonly place: string;
  /** Where callers reach it. */
  readonly url: string;
  /** `host:port` for other replicas. */
  readonly address: string;
  readonly firstLink: number;
  readonly lastLink: number;
  readonly version: string;
}

export interface SeenReplica extends ReplicaRow {
  readonly owns: boolean;
  /** Milliseconds since it was last heard of, by the database's clock. */
  readonly silentMs: number;
}

export interface ReplicasOptions {
  /** Of the data directory, which one process uses at a time. */
  readonly home: string;
  /** Whether it shares the endpoints with the others. */
  readonly shares: boolean;
  /** As it is now. */
  readonly row: () => ReplicaRow;
}

const COLUMNS = `r.id, r.place, r.url, r.address, r.first_link AS "firstLink", r.last_link AS "lastLink", r.version`;

const TABLE = "platform_replicas";
const TABLE_COLUMNS = `id text PRIMARY KEY, home text NOT NULL, place text NOT NULL, url text NOT NULL, address text NOT NULL,
  first_link int NOT NULL, last_link int NOT NULL, version text NOT NULL, beat bigint NOT NULL DEFAULT 0,
  seen timestamptz NOT NULL DEFAULT clock_timestamp(), since timestamptz NOT NULL DEFAULT clock_timestamp(),
  shares boolean NOT NULL DEFAULT false`;
/** Earlier versions made the table without it. */
const HAS_COLUMN = `SELECT 1 FROM pg_attribute WHERE attrelid = '${TABLE}'::regclass AND attname = 'shares' AND NOT attisdropped`;

/**
 * Before a platform takes anything: the table is there, and what an earlier process of its data directory had need not be waited for, for
 * that has ended. Throws DATABASE_REFUSED where others share the endpoints and this one is not to, or the other way round.
 */
export async function beginAmong(
  postgres: Postgres,
  { home, shares }: Pick<ReplicasOptions, "home" | "shares">,
): Promise<void> {
  await makeTable(postgres, TABLE, TABLE_COLUMNS);
  const { rowCount } = await postgres.query(HAS_COLUMN);
  if (rowCount === 0)
    await postgres.query(`ALTER TABLE ${TABLE} ADD COLUMN IF NOT EXISTS shares boolean NOT NULL DEFAULT false`);
  const { rows } = await postgres.query<{ place: string }>(
    `SELECT place FROM ${TABLE} WHERE home <> $1 AND shares <> $2 AND seen > clock_timestamp() - interval '10 seconds' LIMIT 1`,
    [home, shares],
  );
  if (rows[0] !== undefined) {
    const message = shares
      ? `The platform at ${rows[0].place} does not share its endpoints.`
      : `The platform at ${rows[0].place} shares its endpoints with others.`;
    throw new SvcError("DATABASE_REFUSED", message, {
      where: postgres.name,
      help: "Give all platforms on a database the same SVC_SHARE_SHARDS, and stop all of them before it is changed.",
    });
  }
  if (!(await hasTable(postgres, "replicas"))) return;
  await postgres.query(`DELETE FROM replicas WHERE id IN (SELECT id FROM ${TABLE} WHERE home = $1)`, [home]);
}

export class Replicas {
  readonly #postgres: Postgres;
  readonly #options: ReplicasOptions;
  #timer: NodeJS.Timeout | undefined;
  #beating: Promise<unknown> = Promise.resolve();
  #isClosed = false;
  #isAlone = false;
  readonly #stood = new Standstill(STANDSTILL_MS);
  #looks: NodeJS.Timeout | undefined;

  constructor(postgres: Postgres, options: ReplicasOptions) {
    this.#postgres = postgres;
    this.#options = options;
  }

  async start(): Promise<void> {
    await this.#beat();
    this.#again();
    // A beat may wait long for the database.
    this.#looks = setInterval(() => this.isAlone, WAITING_BEAT_MS).unref();
  }

  /** Says at once what has changed. */
  async tell(): Promise<void> {
    await this.#beat();
  }

  /** Whoever has the database; undefined: nobody, or one that is not here. */
  async owner(): Promise<ReplicaRow | undefined> {
    const text = `SELECT ${COLUMNS} FROM platform_owner o JOIN platform_replicas r ON r.id = o.id`;
    return (await this.#postgres.query<ReplicaRow>(text)).rows[0];
  }

  /** Whether there was no other when this one last said that it is there, and it has not stood still since. */
  get isAlone(): boolean {
    if (this.#stood.happened()) this.#isAlone = false;
    return this.#isAlone;
  }

  /** Another has come. */
  met(): void {
    this.#isAlone = false;
  }

  async list(): Promise<readonly SeenReplica[]> {
    const { rows } = await this.#postgres.query<SeenReplica>(
      `SELECT ${COLUMNS}, o.id IS NOT NULL AS owns,
         greatest(0, extract(epoch FROM clock_timestamp() - r.seen) * 1000)::float8 AS "silentMs"
       FROM platform_replicas r LEFT JOIN platform_owner o ON o.id = r.id ORDER BY owns DESC, r.since, r.id`,
    );
    return rows;
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    clearTimeout(this.#timer);
    clearInterval(this.#looks);
    await this.#beating;
    await this.#postgres.query("DELETE FROM platform_replicas WHERE id = $1", [this.#options.row().id]).catch(() => {});
  }

  #again(): void {
    if (this.#isClosed) return;
    this.#timer = setTimeout(() => {
      // While the database is away nobody sees it.
      this.#beating = this.#beat().catch((_error: SvcError) => {});
      this.#beating.then(() => this.#again()).catch(() => {});
    }, WAITING_BEAT_MS).unref();
  }

  async #beat(): Promise<void> {
    const { home, shares, row } = this.#options;
    const { id, place, url, address, firstLink, lastLink, version } = row();
    const { rows } = await this.#postgres.query<{ others: number }>(
      `WITH gone AS (DELETE FROM platform_replicas WHERE id <> $1 AND (home = $2 OR seen < now() - $9::int * interval '1 second'))
       INSERT INTO platform_replicas AS r (id, home, place, url, address, first_link, last_link, version, shares)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $10)
       ON CONFLICT (id) DO UPDATE SET seen = clock_timestamp(), beat = r.beat + 1, url = $4, address = $5
       RETURNING (SELECT count(*) FROM platform_replicas o WHERE o.id <> $1 AND o.home <> $2)::int AS others`,
      [id, home, place, url, address, firstLink, lastLink, version, WAITING_FORGET_S, shares],
    );
    this.#isAlone = rows[0]?.others === 0;
  }
}
