/**
 * The queue's tables in PostgreSQL. `open_jobs` is small and hot: a job leaves it when it is final. `done_jobs` is written once
 * and read, in partitions by `seq`, which begins with the time of submission. A body is bytes, or a reference to what lies
 * outside. No index of a hot table has a column in its predicate that a statement changes and also searches by: rows are
 * found by `seq` alone.
 */
import type { Db } from "./connection.ts";

export const SHARDS = 256;

const JOB = `
  seq bigint NOT NULL,
  id text COLLATE "C" NOT NULL,
  endpoint int NOT NULL,
  state smallint NOT NULL,
  low_priority smallint NOT NULL,
  fence bigint NOT NULL,
  retries int NOT NULL,
  attempts int NOT NULL,
  worker_id text NOT NULL,
  created_at bigint NOT NULL,
  started_at bigint,
  expires_at bigint NOT NULL,
  due_at bigint,
  ttl_ms bigint NOT NULL,
  retention_ms bigint NOT NULL,
  execution_timeout_ms bigint NOT NULL,
  method text NOT NULL,
  webhook text NOT NULL,
  key text NOT NULL,
  input bytea,
  input_ref text,
  output bytea,
  output_ref text`;

/** In order; a step that was released is never changed. */
const STEPS = [
  `
  -- Who may write. A batch holds the rows of its shards FOR SHARE; whoever takes over changes them, and waits for it.
  CREATE TABLE queue_shards (shard int PRIMARY KEY, owner text NOT NULL, epoch bigint NOT NULL, nonce bigint NOT NULL)
    WITH (fillfactor = 10);
  INSERT INTO queue_shards SELECT n, '', 0, 0 FROM generate_series(0, ${SHARDS - 1}) n;

  -- A row for each batch: it is written once, however often it is sent. With it go the counts that it changed, so that no
  -- row is updated by every batch: while a snapshot is held open, versions of such a row could not be removed. And the
  -- highest number that was given: none is given again, also when its row is gone.
  CREATE TABLE queue_journal (epoch bigint, n bigint, counts text NOT NULL, last_seq bigint NOT NULL, PRIMARY KEY (epoch, n));

  CREATE TABLE queue_endpoints (
    number int PRIMARY KEY, id text NOT NULL UNIQUE, shard int NOT NULL,
    in_queue bigint NOT NULL, in_queue_low bigint NOT NULL, delayed bigint NOT NULL,
    completed bigint NOT NULL, failed bigint NOT NULL, retried bigint NOT NULL
  );

  CREATE TABLE open_jobs (${JOB}, PRIMARY KEY (seq)) WITH (fillfactor = 85);
  CREATE UNIQUE INDEX open_jobs_id ON open_jobs (id);
  CREATE INDEX open_jobs_queued ON open_jobs (endpoint, low_priority, seq) WHERE state = 0;
  CREATE INDEX open_jobs_delayed ON open_jobs (endpoint, seq) WHERE state = -1;
  CREATE INDEX open_jobs_due ON open_jobs (due_at) WHERE state = -1;
  CREATE INDEX open_jobs_expiring ON open_jobs (expires_at) WHERE state = 0;
  CREATE INDEX open_jobs_refs ON open_jobs (seq) WHERE input_ref IS NOT NULL OR output_ref IS NOT NULL;

  CREATE TABLE done_jobs (${JOB}, finished_at bigint NOT NULL, error bytea, error_ref text, PRIMARY KEY (seq))
    PARTITION BY RANGE (seq);
  CREATE INDEX done_jobs_id ON done_jobs (id);
  CREATE INDEX done_jobs_listed ON done_jobs (endpoint, state, seq);
  CREATE INDEX done_jobs_expiring ON done_jobs (expires_at);
  CREATE INDEX done_jobs_refs ON done_jobs (seq)
    WHERE input_ref IS NOT NULL OR output_ref IS NOT NULL OR error_ref IS NOT NULL;
  CREATE TABLE done_jobs_other PARTITION OF done_jobs DEFAULT;

  -- Final jobs whose bodies are gone.
  CREATE TABLE expired_jobs (
    seq bigint PRIMARY KEY, id text COLLATE "C" NOT NULL, endpoint int NOT NULL, state smallint NOT NULL, retries int NOT NULL,
    attempts int NOT NULL, worker_id text NOT NULL, created_at bigint NOT NULL, started_at bigint, finished_at bigint,
    kept_until bigint NOT NULL, line text NOT NULL
  );
  CREATE INDEX expired_jobs_id ON expired_jobs (id);
  CREATE INDEX expired_jobs_listed ON expired_jobs (endpoint, state, seq);
  CREATE INDEX expired_jobs_kept ON expired_jobs (kept_until);

  CREATE TABLE job_keys (endpoint int, key text, id text NOT NULL, PRIMARY KEY (endpoint, key));
  CREATE TABLE job_chunks (job bigint, n bigint, bytes bigint NOT NULL, body bytea, ref text, PRIMARY KEY (job, n));
  CREATE TABLE job_webhooks (
    id bigint PRIMARY KEY, job bigint NOT NULL, job_id text NOT NULL, url text NOT NULL, host text NOT NULL,
    failures int NOT NULL, due_at bigint NOT NULL
  );
  CREATE INDEX job_webhooks_job ON job_webhooks (job);
  CREATE INDEX job_webhooks_due ON job_webhooks (due_at, id);
  CREATE INDEX job_webhooks_host ON job_webhooks (host, due_at, id);
  CREATE TABLE job_schedules (
    endpoint text PRIMARY KEY, spec text NOT NULL, until bigint NOT NULL, paused smallint NOT NULL, tick bigint,
    job text NOT NULL
  );
  `,
  `
  -- Who writes batches for a shard: the journal's rows of a writer without shards say nothing any more. Whoever takes a shard keeps in
  -- it the highest number that was given before.
  ALTER TABLE queue_shards ADD COLUMN writer bigint NOT NULL DEFAULT 0, ADD COLUMN last_seq bigint NOT NULL DEFAULT 0;

  -- Who may have shards; the beat rises while a replica lives.
  CREATE TABLE replicas (
    id text PRIMARY KEY, address text NOT NULL, first_link int NOT NULL, last_link int NOT NULL, beat bigint NOT NULL,
    draining boolean NOT NULL
  ) WITH (fillfactor = 10);
  `,
  `
  -- Who takes a shard reads what is in it, and nothing of the others: what runs, what lies outside, what is streamed. The expression is
  -- that of inShards (ownership.ts).
  CREATE INDEX IF NOT EXISTS open_jobs_running ON open_jobs ((seq & 255)) WHERE state = 1;
  CREATE INDEX IF NOT EXISTS open_jobs_files ON open_jobs ((seq & 255)) WHERE input_ref IS NOT NULL OR output_ref IS NOT NULL;
  CREATE INDEX IF NOT EXISTS done_jobs_files ON done_jobs ((seq & 255))
    WHERE input_ref IS NOT NULL OR output_ref IS NOT NULL OR error_ref IS NOT NULL;
  CREATE INDEX IF NOT EXISTS job_chunks_shard ON job_chunks ((job & 255), job);
  CREATE INDEX IF NOT EXISTS queue_endpoints_shard ON queue_endpoints ((number & 255));
  DROP INDEX IF EXISTS open_jobs_refs, done_jobs_refs;
  `,
];

/** Several platforms may start at once: one of them makes the tables. */
export async function migrateQueue(db: Db): Promise<void> {
  await db.transaction(async (query) => {
    await query("SELECT pg_advisory_xact_lock(7218002)");
    await query("CREATE TABLE IF NOT EXISTS queue_schema (steps int NOT NULL)");
    const [row] = await query<{ steps: number }>("SELECT steps FROM queue_schema");
    if (row === undefined) await query("INSERT INTO queue_schema VALUES (0)");
    for (const step of STEPS.slice(row?.steps ?? 0)) await query(step);
    // A later version beside this one may have gone further.
    await query("UPDATE queue_schema SET steps = greatest(steps, $1)", [STEPS.length]);
  });
}
