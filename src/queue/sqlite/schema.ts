/**
 * The queue's tables. A body (input, output, error, chunk) is a BLOB with the bytes, or a TEXT that refers to
 * the file that holds them (body-files.ts). `state` is the index in JOB_STATES. Indexes are partial so that a job which finds a waiting
 * worker touches none of them before it is final. jobs.lease_until is of earlier versions: leases are in memory, by a clock
 * that is never set, and end with the process that keeps them; each start gives every running job a whole one.
 */
import type { DatabaseSync } from "node:sqlite";

/** In order; a step that was released is never changed. PRAGMA user_version counts the steps done. */
const STEPS = [
  `
  CREATE TABLE queue_endpoints (
    number    INTEGER PRIMARY KEY,
    id        TEXT    NOT NULL UNIQUE,
    -- Jobs whose rows are gone; what is still there is counted from the rows.
    completed INTEGER NOT NULL DEFAULT 0,
    failed    INTEGER NOT NULL DEFAULT 0,
    -- Every hand-out after a loss and every retry by a caller.
    retried   INTEGER NOT NULL DEFAULT 0
  ) STRICT;

  CREATE TABLE jobs (
    seq                  INTEGER PRIMARY KEY,
    id                   TEXT    NOT NULL UNIQUE,
    endpoint             INTEGER NOT NULL,
    state                INTEGER NOT NULL,
    low_priority         INTEGER NOT NULL,
    fence                INTEGER NOT NULL,
    retries              INTEGER NOT NULL DEFAULT 0,
    worker_id            TEXT    NOT NULL,
    created_at           INTEGER NOT NULL,
    started_at           INTEGER,
    finished_at          INTEGER,
    lease_until          INTEGER,
    -- Until it is final: its ttl. After that: the end of its retention.
    expires_at           INTEGER NOT NULL,
    ttl_ms               INTEGER NOT NULL,
    retention_ms         INTEGER NOT NULL,
    execution_timeout_ms INTEGER NOT NULL,
    method               TEXT    NOT NULL,
    webhook              TEXT    NOT NULL,
    idempotency_key      TEXT,
    input                ANY     NOT NULL,
    output               ANY,
    error                ANY
  ) STRICT;

  CREATE INDEX jobs_queued ON jobs (endpoint, low_priority) WHERE state = 0;
  CREATE INDEX jobs_final ON jobs (endpoint, state) WHERE state > 1;
  CREATE INDEX jobs_expiring ON jobs (expires_at) WHERE state <> 1;
  CREATE UNIQUE INDEX jobs_idempotency ON jobs (endpoint, idempotency_key) WHERE idempotency_key IS NOT NULL;
  CREATE INDEX jobs_input_file ON jobs (input) WHERE typeof(input) = 'text';
  CREATE INDEX jobs_output_file ON jobs (output) WHERE typeof(output) = 'text';
  CREATE INDEX jobs_error_file ON jobs (error) WHERE typeof(error) = 'text';

  CREATE TABLE chunks (
    seq  INTEGER PRIMARY KEY,
    job  INTEGER NOT NULL,
    body ANY     NOT NULL
  ) STRICT;
  CREATE INDEX chunks_by_job ON chunks (job);
  CREATE INDEX chunks_file ON chunks (body) WHERE typeof(body) = 'text';
  `,
  `
  -- Ids are never used again: a late answer to an old delivery must not settle a new one of the same job.
  CREATE TABLE webhooks (
    id       INTEGER PRIMARY KEY AUTOINCREMENT,
    job      INTEGER NOT NULL UNIQUE,
    host     TEXT    NOT NULL,
    failures INTEGER NOT NULL DEFAULT 0,
    due_at   INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX webhooks_due ON webhooks (due_at, host);
  `,
  `
  -- A job that becomes final touches one index only, which also answers which of them have outlived their retention.
  DROP INDEX jobs_final;
  DROP INDEX jobs_expiring;
  CREATE INDEX jobs_final ON jobs (endpoint, state, seq, expires_at) WHERE state > 1;
  CREATE INDEX jobs_queued_expiring ON jobs (expires_at) WHERE state = 0;
  `,
  `
  CREATE INDEX webhooks_by_host ON webhooks (host, due_at);
  `,
  `
  -- Numbers of chunks are never used again: who asks for those behind a number must not miss any of a later run. Of what is
  -- in a file already, only the least is known.
  ALTER TABLE chunks RENAME TO chunks_before;
  DROP INDEX chunks_by_job;
  DROP INDEX chunks_file;
  CREATE TABLE chunks (
    seq   INTEGER PRIMARY KEY AUTOINCREMENT,
    job   INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    body  ANY     NOT NULL
  ) STRICT;
  INSERT INTO chunks SELECT seq, job, CASE typeof(body) WHEN 'blob' THEN length(body) ELSE 65536 END, body FROM chunks_before;
  DROP TABLE chunks_before;
  CREATE INDEX chunks_by_job ON chunks (job);
  CREATE INDEX chunks_file ON chunks (body) WHERE typeof(body) = 'text';
  `,
  `
  -- What refers to a file says how large it is; of earlier ones only the least is known.
  UPDATE jobs INDEXED BY jobs_input_file SET input = input || '.65536' WHERE typeof(input) = 'text';
  UPDATE jobs INDEXED BY jobs_output_file SET output = output || '.65536' WHERE typeof(output) = 'text';
  UPDATE jobs INDEXED BY jobs_error_file SET error = error || '.65536' WHERE typeof(error) = 'text';
  UPDATE chunks INDEXED BY chunks_file SET body = body || '.65536' WHERE typeof(body) = 'text';
  `,
  `
  -- Final jobs whose rows are gone; \`n\` rises in the order they went.
  CREATE TABLE expired_jobs (
    n           INTEGER PRIMARY KEY,
    seq         INTEGER NOT NULL,
    id          TEXT    NOT NULL,
    endpoint    INTEGER NOT NULL,
    state       INTEGER NOT NULL,
    retries     INTEGER NOT NULL,
    worker_id   TEXT    NOT NULL,
    created_at  INTEGER NOT NULL,
    started_at  INTEGER,
    finished_at INTEGER,
    kept_until  INTEGER NOT NULL
  ) STRICT;
  CREATE INDEX expired_jobs_listed ON expired_jobs (endpoint, state, seq);
  CREATE INDEX expired_jobs_id ON expired_jobs (id);
  `,
  `
  -- Between two attempts a job has the state -1, which is in none of the indexes above, and waits until due_at.
  ALTER TABLE jobs ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE jobs ADD COLUMN due_at INTEGER;
  CREATE INDEX jobs_delayed ON jobs (endpoint, seq) WHERE state = -1;
  CREATE INDEX jobs_due ON jobs (due_at) WHERE state = -1;
  `,
  `
  CREATE TABLE schedules (
    endpoint TEXT    PRIMARY KEY,
    spec     TEXT    NOT NULL,
    until    INTEGER NOT NULL,
    paused   INTEGER NOT NULL,
    tick     INTEGER,
    job      TEXT    NOT NULL DEFAULT ''
  ) STRICT;
  `,
  `
  -- Jobs of all endpoints are listed together; what a failed one said is known as long as the job is, its first line.
  CREATE INDEX expired_jobs_seq ON expired_jobs (seq);
  ALTER TABLE expired_jobs ADD COLUMN attempts INTEGER NOT NULL DEFAULT 0;
  ALTER TABLE expired_jobs ADD COLUMN error TEXT NOT NULL DEFAULT '';
  `,
  `
  -- From here on references say a checksum, and a name that is no SHA-256: a version that does not know them must not use these tables.
  `,
];

/** Steps of the newest version. */
export const QUEUE_STEPS = STEPS.length;

/** `steps`: fewer make a database of an earlier version. */
export function migrateQueue(connection: DatabaseSync, steps = QUEUE_STEPS): void {
  const { user_version: done } = connection.prepare("PRAGMA user_version").get() as { user_version: number };
  for (let step = done; step < steps; step++) {
    connection.exec(`BEGIN IMMEDIATE; ${STEPS[step]} PRAGMA user_version = ${step + 1}; COMMIT;`);
  }
}
