/**
 * What the tables have on PostgreSQL alone, where several processes may write:
 *
 *   a write ──▶ trigger before it: the lock of the one writer, until the commit ──▶ rows ──▶ trigger after each: a row of `changes`
 *
 * So writes go one after another as on SQLite, and the numbers of `changes` are in the order of their commits: whoever has
 * read up to a number has missed none before it.
 */
import { type Kysely, type Migration, PostgresAdapter, sql } from "kysely";

/** The writer's lock: the first number is "svc". */
export const WRITER_LOCK = sql`select pg_advisory_xact_lock(7566947, 1)`;

export function isPostgres<T>(db: Kysely<T>): boolean {
  return db.getExecutor().adapter instanceof PostgresAdapter;
}

export async function refuseUpdatesOfAudit(db: Kysely<unknown>): Promise<void> {
  await sql`create function audit_append_only() returns trigger language plpgsql as $$
    begin raise exception 'the audit log is only appended to'; end $$`.execute(db);
  await sql`create trigger audit_append_only before update on audit
    for each statement execute function audit_append_only()`.execute(db);
}

/** A later step that makes a table calls it for that one. */
export async function oneWriter(db: Kysely<unknown>, table: string): Promise<void> {
  await sql`create trigger one_writer before insert or update or delete on ${sql.table(table)}
    for each statement execute function one_writer()`.execute(db);
}

/** The tables whose changes are told, what they are told as, and the column that names what changed. */
const TOLD = [
  ["endpoints", "endpoints", "id"],
  ["workers", "workers", "id"],
  ["hosts", "hosts", "id"],
  ["api_keys", "keys", "id"],
  ["console_sessions", "keys", "key_id"],
] as const;

/** Columns that say when something was last heard of: no change. */
const UNTOLD = `array['last_used_at', 'last_seen_at']`;

const TABLES = [
  ...["apps", "environments", "builds", "endpoints", "workers", "api_keys", "console_sessions", "secrets", "templates"],
  ...["deploys", "audit", "registry_auths", "network_volumes", "alerts", "hosts", "host_tokens"],
];

export const changes: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await db.schema
      .createTable("changes")
      .addColumn("seq", "bigint", (c) => c.primaryKey().autoIncrement())
      .addColumn("kind", "text", (c) => c.notNull())
      .addColumn("id", "text", (c) => c.notNull())
      .addColumn("at", "timestamptz", (c) => c.notNull().defaultTo(sql`clock_timestamp()`))
      .execute();
    await sql`create function one_writer() returns trigger language plpgsql as $$
      begin perform pg_advisory_xact_lock(7566947, 1); return null; end $$`.execute(db);
    await sql`create function tell_change() returns trigger language plpgsql as $$
      begin
        insert into changes (kind, id)
          values (tg_argv[0], (case tg_op when 'DELETE' then to_jsonb(old) else to_jsonb(new) end) ->> tg_argv[1]);
        return null;
      end $$`.execute(db);
    for (const table of TABLES) await oneWriter(db, table);
    for (const [table, kind, column] of TOLD) {
      const told = sql`execute function tell_change(${sql.lit(kind)}, ${sql.lit(column)})`;
      const on = sql.table(table);
      await sql`create trigger tell_change after insert or delete on ${on} for each row ${told}`.execute(db);
      await sql`create trigger tell_update after update on ${on} for each row
        when (to_jsonb(old) - ${sql.raw(UNTOLD)} is distinct from to_jsonb(new) - ${sql.raw(UNTOLD)}) ${told}`.execute(
        db,
      );
    }
  },
};

/** Logins that wait (logins.ts): rows of minutes, each changed by one statement alone. */
export const deviceLogins: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await sql`create table device_logins (
      hash text collate "C" primary key,
      user_code text collate "C" not null unique,
      machine text not null,
      scopes text not null,
      address text collate "C" not null,
      state text not null,
      sealed text,
      interval_s integer not null,
      next_poll_at timestamptz not null,
      expires_at timestamptz not null)`.execute(db);
    await sql`create table device_guesses (
      address text collate "C" primary key,
      count integer not null,
      until timestamptz not null)`.execute(db);
  },
};

/** What workers print, in chunks that lie in a bucket (src/logs). Not the one writer's: each row is written by who printed. */
export const logChunks: Migration = {
  async up(db: Kysely<unknown>): Promise<void> {
    await sql`create table log_chunks (
      id text collate "C" primary key,
      endpoint_id text collate "C" not null,
      first_at bigint not null,
      last_at bigint not null,
      lines bigint not null,
      bytes bigint not null)`.execute(db);
    await sql`create index log_chunks_of_endpoint on log_chunks (endpoint_id, last_at, id)`.execute(db);
    await sql`create index log_chunks_by_time on log_chunks (last_at, id)`.execute(db);
  },
};
