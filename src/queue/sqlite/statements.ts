/** Every statement of the queue, prepared once. Written by hand: this is the hot path. */
import type { DatabaseSync, StatementSync } from "node:sqlite";
import { WEBHOOK_WINDOW_ROWS } from "../../domain/limits.ts";

const META = `seq, id, endpoint, state, low_priority, fence, retries, worker_id, created_at, started_at, finished_at,
  expires_at, retention_ms, execution_timeout_ms, method, webhook, attempts, due_at`;

/** As META, of a job that expired; what is not known of it any more has the type's empty value. */
const EXPIRED = `seq, id, endpoint, state, 0 AS low_priority, 0 AS fence, retries, worker_id, created_at, started_at, finished_at,
  0 AS expires_at, 0 AS retention_ms, 0 AS execution_timeout_ms, '' AS method, '' AS webhook, attempts, NULL AS due_at, 1 AS expired, error AS line`;

/** A job is kept until its webhook is settled. */
const DELIVERED = "NOT (webhook <> '' AND EXISTS (SELECT 1 FROM webhooks WHERE job = jobs.seq))";

/** Part of a search: JSON lists of numbers of endpoints and of states, or null for all, then the beginning of the id or "". */
const WANTED = `(?3 IS NULL OR endpoint IN (SELECT value FROM json_each(?3)))
  AND (?4 IS NULL OR state IN (SELECT value FROM json_each(?4)))
  AND created_at >= ?5 AND created_at <= ?6
  AND (?7 = '' OR substr(id, 1, length(?7)) = ?7 OR substr(id, 1, length(?7) + 5) = 'sync-' || ?7)`;

export type Statements = ReturnType<typeof prepareStatements>;

export function prepareStatements(db: DatabaseSync) {
  const prepare = (sql: string): StatementSync => db.prepare(sql);
  return {
    endpoints: prepare("SELECT number, id, completed, failed, retried FROM queue_endpoints"),
    insertEndpoint: prepare("INSERT INTO queue_endpoints (id) VALUES (?) RETURNING number"),
    deleteEndpoint: prepare("DELETE FROM queue_endpoints WHERE number = ?"),
    addTotals: prepare(
      "UPDATE queue_endpoints SET completed = completed + ?, failed = failed + ?, retried = retried + ? WHERE number = ?",
    ),
    queuedCounts: prepare(
      "SELECT endpoint, low_priority, 0 AS state, count(*) AS n FROM jobs INDEXED BY jobs_queued WHERE state = 0 GROUP BY endpoint, low_priority",
    ),
    delayedCounts: prepare(
      "SELECT endpoint, low_priority, -1 AS state, count(*) AS n FROM jobs INDEXED BY jobs_delayed WHERE state = -1 GROUP BY endpoint, low_priority",
    ),
    finalCounts: prepare(
      "SELECT endpoint, state, count(*) AS n FROM jobs INDEXED BY jobs_final WHERE state > 1 GROUP BY endpoint, state",
    ),
    runningRows: prepare(`SELECT ${META}, CASE typeof(output) WHEN 'text' THEN output END AS outputFile
      FROM jobs WHERE state = 1`),
    fileReferences:
      prepare(`SELECT endpoint, input AS reference FROM jobs INDEXED BY jobs_input_file WHERE typeof(input) = 'text'
      UNION ALL SELECT endpoint, output FROM jobs INDEXED BY jobs_output_file WHERE typeof(output) = 'text'
      UNION ALL SELECT endpoint, error FROM jobs INDEXED BY jobs_error_file WHERE typeof(error) = 'text'`),
    maxSeq: prepare("SELECT max(seq) AS seq FROM jobs"),
    maxExpiredSeq: prepare("SELECT max(seq) AS seq FROM expired_jobs"),

    insert: prepare(`INSERT INTO jobs (seq, id, endpoint, state, low_priority, fence, worker_id, created_at, started_at,
      expires_at, ttl_ms, retention_ms, execution_timeout_ms, method, webhook, idempotency_key, input)
      VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`),
    byIdempotencyKey: prepare("SELECT id FROM jobs WHERE endpoint = ? AND idempotency_key = ?"),
    nextQueued: prepare(`SELECT ${META}, input FROM jobs WHERE endpoint = ? AND state = 0
      ORDER BY low_priority, seq LIMIT ?`),
    oldestQueued: prepare(`SELECT created_at FROM jobs WHERE endpoint = ? AND state = 0 AND low_priority = ?
      ORDER BY seq LIMIT 1`),
    claim: prepare(`UPDATE jobs SET state = 1, fence = ?, worker_id = ?, started_at = ?
      WHERE seq = ? AND state = 0`),
    finish: prepare(`UPDATE jobs SET state = ?, output = ?, error = ?, finished_at = ?, expires_at = ?
      WHERE seq = ? AND fence = ? AND state = 1`),
    requeue: prepare(`UPDATE jobs SET state = 0, worker_id = ?, retries = ?, started_at = NULL,
      output = NULL WHERE seq = ? AND state = 1`),
    delay: prepare(`UPDATE jobs SET state = -1, due_at = ?, attempts = attempts + 1, worker_id = '', started_at = NULL,
      output = NULL WHERE seq = ? AND state = 1`),
    expiryOf: prepare("SELECT expires_at AS at FROM jobs WHERE seq = ?"),
    nearDue: prepare("UPDATE jobs SET due_at = ?1 WHERE state = -1 AND due_at > ?1"),
    due: prepare(
      `SELECT ${META} FROM jobs INDEXED BY jobs_due WHERE state = -1 AND due_at <= ? ORDER BY due_at LIMIT ?`,
    ),
    firstDue: prepare("SELECT min(due_at) AS at FROM jobs INDEXED BY jobs_due WHERE state = -1"),
    wake: prepare("UPDATE jobs SET state = 0, due_at = NULL WHERE seq = ?"),
    delayedOf: prepare(`SELECT ${META} FROM jobs INDEXED BY jobs_delayed WHERE endpoint = ? AND state = -1 AND seq < ?
      ORDER BY seq DESC LIMIT ?`),
    cancel: prepare(`UPDATE jobs SET state = 5, finished_at = ?, expires_at = ?
      WHERE seq = ? AND state < 2`),
    fail: prepare(`UPDATE jobs SET state = 3, worker_id = ?, error = ?, finished_at = ?, expires_at = ?
      WHERE seq = ? AND state = 0`),
    retry:
      prepare(`UPDATE jobs SET state = 0, created_at = ?, expires_at = ? + ttl_ms, retries = 0, attempts = 0, worker_id = '',
      started_at = NULL, finished_at = NULL, output = NULL, error = NULL WHERE seq = ?`),
    progress: prepare("UPDATE jobs SET output = ? WHERE seq = ? AND fence = ? AND state = 1"),
    deleteLone: prepare("DELETE FROM jobs WHERE endpoint = ?"),
    deleteLoneChunks: prepare("DELETE FROM chunks WHERE job IN (SELECT seq FROM jobs WHERE endpoint = ?)"),
    delete: prepare(`DELETE FROM jobs WHERE seq = ? RETURNING endpoint, webhook <> '' AS hooked,
      CASE typeof(input) WHEN 'text' THEN input END AS input, CASE typeof(output) WHEN 'text' THEN output END AS output,
      CASE typeof(error) WHEN 'text' THEN error END AS error`),

    meta: prepare(`SELECT ${META} FROM jobs WHERE id = ?`),
    job: prepare(`SELECT ${META}, output, error FROM jobs WHERE id = ?`),
    input: prepare("SELECT input FROM jobs WHERE id = ?"),
    seqOf: prepare("SELECT seq FROM jobs WHERE id = ?1 UNION ALL SELECT seq FROM expired_jobs WHERE id = ?1"),
    resultBodies: prepare("SELECT output, error FROM jobs WHERE seq = ?"),
    listQueued: prepare(`SELECT ${META} FROM jobs WHERE endpoint = ? AND state = 0 AND low_priority = ? AND seq < ?
      ORDER BY seq DESC LIMIT ?`),
    listFinal: prepare(`SELECT ${META} FROM jobs WHERE endpoint = ? AND state = ? AND state > 1 AND seq < ?
      ORDER BY seq DESC LIMIT ?`),
    idsFrom: prepare(`SELECT ${META} FROM jobs WHERE id >= ? AND id < ? AND endpoint = ? ORDER BY id DESC LIMIT ?`),
    queuedUpTo: prepare(`SELECT ${META} FROM jobs INDEXED BY jobs_queued WHERE endpoint = ? AND state = 0 AND seq <= ?
      LIMIT ?`),
    anyFinal: prepare(`SELECT ${META} FROM jobs INDEXED BY jobs_final WHERE endpoint = ? AND state > 1 LIMIT ?`),
    hasFinal: prepare(`SELECT 1 FROM jobs INDEXED BY jobs_final WHERE endpoint = ?1 AND state > 1
      UNION ALL SELECT 1 FROM expired_jobs WHERE endpoint = ?1 LIMIT 1`),
    expiredQueued: prepare(`SELECT ${META} FROM jobs INDEXED BY jobs_queued_expiring WHERE state = 0 AND expires_at <= ?
      ORDER BY expires_at LIMIT ?`),
    finalAfter: prepare(`SELECT seq FROM jobs INDEXED BY jobs_final WHERE endpoint = ? AND state = ? AND state > 1
      AND seq > ? ORDER BY seq LIMIT 1 OFFSET ?`),
    expiredFinal: prepare(`SELECT ${META} FROM jobs INDEXED BY jobs_final WHERE endpoint = ? AND state = ? AND state > 1
      AND seq > ? AND seq <= ? AND expires_at <= ? AND ${DELIVERED} LIMIT ?`),
    surplusFailed: prepare(`SELECT ${META} FROM jobs INDEXED BY jobs_final
      WHERE endpoint = ?1 AND state = ?2 AND state > 1 AND seq <= (SELECT seq FROM jobs INDEXED BY jobs_final
        WHERE endpoint = ?1 AND state = ?2 AND state > 1 ORDER BY seq DESC LIMIT 1 OFFSET ?3)
      AND finished_at + retention_ms <= ?4 AND ${DELIVERED} LIMIT ?5`),

    keepExpired:
      prepare(`INSERT INTO expired_jobs (seq, id, endpoint, state, retries, worker_id, created_at, started_at,
      finished_at, kept_until, attempts, error) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`),
    /** The first rows only: those behind them were written later. */
    dropExpired: prepare(`DELETE FROM expired_jobs WHERE kept_until <= ?1 AND n IN
      (SELECT n FROM expired_jobs ORDER BY n LIMIT ?2)`),
    surplusExpired: prepare(`SELECT seq FROM expired_jobs WHERE endpoint = ? AND state = ? ORDER BY seq DESC LIMIT 1
      OFFSET ?`),
    dropExpiredUpTo: prepare(`DELETE FROM expired_jobs WHERE n IN
      (SELECT n FROM expired_jobs WHERE endpoint = ? AND state = ? AND seq <= ? LIMIT ?)`),
    expired: prepare(`SELECT ${EXPIRED} FROM expired_jobs WHERE id = ?`),
    listExpired: prepare(`SELECT ${EXPIRED} FROM expired_jobs WHERE endpoint = ? AND state = ? AND seq < ?
      ORDER BY seq DESC LIMIT ?`),
    expiredIdsFrom: prepare(`SELECT ${EXPIRED} FROM expired_jobs WHERE id >= ? AND id < ? AND endpoint = ?
      ORDER BY id DESC LIMIT ?`),

    // A search walks both tables by seq, or takes the ids that begin so. NOT INDEXED: by the table's own order.
    seqBelow: prepare("SELECT seq, created_at FROM jobs NOT INDEXED WHERE seq < ? ORDER BY seq DESC LIMIT 1 OFFSET ?"),
    expiredSeqBelow: prepare(`SELECT seq, created_at FROM expired_jobs INDEXED BY expired_jobs_seq WHERE seq < ?
      ORDER BY seq DESC LIMIT 1 OFFSET ?`),
    searchJobs: prepare(`SELECT ${META} FROM jobs NOT INDEXED WHERE seq < ?1 AND seq >= ?2 AND ${WANTED}
      ORDER BY seq DESC LIMIT ?8`),
    searchExpired: prepare(`SELECT ${EXPIRED} FROM expired_jobs INDEXED BY expired_jobs_seq WHERE seq < ?1 AND seq >= ?2
      AND ${WANTED} ORDER BY seq DESC LIMIT ?8`),
    anyIdsFrom: prepare(`SELECT ${META} FROM jobs WHERE id >= ? AND id < ? LIMIT ?`),
    anyExpiredIdsFrom: prepare(`SELECT ${EXPIRED} FROM expired_jobs WHERE id >= ? AND id < ? LIMIT ?`),

    schedule: prepare("SELECT spec, until, paused, tick, job AS jobId FROM schedules WHERE endpoint = ?"),
    setSchedule: prepare(`INSERT INTO schedules (endpoint, spec, until, paused) VALUES (?, ?, ?, ?)
      ON CONFLICT DO UPDATE SET spec = excluded.spec, until = excluded.until, paused = excluded.paused`),
    ticked: prepare("UPDATE schedules SET until = ?, tick = ?, job = ? WHERE endpoint = ?"),
    deleteSchedule: prepare("DELETE FROM schedules WHERE endpoint = ?"),
    scheduled: prepare("SELECT endpoint FROM schedules"),

    insertWebhook: prepare("INSERT INTO webhooks (job, host, due_at) VALUES (?, ?, ?)"),
    /** Of the first due ones only: how many rows it reads is known. */
    dueWebhooks: prepare(`SELECT id, host FROM (SELECT id, host, due_at FROM webhooks INDEXED BY webhooks_due
        WHERE due_at <= ?1 ORDER BY due_at LIMIT ${WEBHOOK_WINDOW_ROWS})
      WHERE host NOT IN (SELECT value FROM json_each(?2)) ORDER BY due_at LIMIT ?3`),
    firstWebhookHost: prepare("SELECT host FROM webhooks ORDER BY host LIMIT 1"),
    nextWebhookHost: prepare("SELECT host FROM webhooks WHERE host > ? ORDER BY host LIMIT 1"),
    dueWebhooksOfHost: prepare(`SELECT id, due_at FROM webhooks INDEXED BY webhooks_by_host
      WHERE host = ? AND due_at <= ? ORDER BY due_at LIMIT ?`),
    // Of a job that is gone, as earlier versions left some, nothing is to be delivered: whoever finds that settles it.
    webhook: prepare(`SELECT w.id, coalesce(j.id, '') AS jobId, coalesce(j.webhook, '') AS url, w.host, w.failures
      FROM webhooks w LEFT JOIN jobs j ON j.seq = w.job WHERE w.id = ?`),
    postponeWebhook: prepare("UPDATE webhooks SET failures = failures + 1, due_at = ? WHERE id = ?"),
    deleteWebhook: prepare("DELETE FROM webhooks WHERE id = ?"),
    dropWebhook: prepare("DELETE FROM webhooks WHERE job = ?"),

    insertChunk: prepare("INSERT INTO chunks (job, bytes, body) VALUES (?, ?, ?)"),
    chunkBytes: prepare(`SELECT j.id, j.endpoint, count(*) AS chunks, sum(c.bytes) AS bytes
      FROM chunks c CROSS JOIN jobs j ON j.seq = c.job GROUP BY c.job`),
    anyChunk: prepare("SELECT 1 FROM chunks WHERE job = ? LIMIT 1"),
    chunksAfter: prepare("SELECT seq, bytes, body FROM chunks WHERE job = ? AND seq > ? ORDER BY seq"),
    takeChunks: prepare("DELETE FROM chunks WHERE job = ? AND seq <= ?"),
    dropChunks: prepare("DELETE FROM chunks WHERE job = ? RETURNING bytes, body"),
    // Asked with a name, which a dot follows; "/" is the character behind the dot.
    namesFile: prepare(`SELECT 1 FROM jobs WHERE typeof(input) = 'text' AND input > ?1 AND input < ?1 || '/'
      UNION ALL SELECT 1 FROM jobs WHERE typeof(output) = 'text' AND output > ?1 AND output < ?1 || '/'
      UNION ALL SELECT 1 FROM jobs WHERE typeof(error) = 'text' AND error > ?1 AND error < ?1 || '/'
      UNION ALL SELECT 1 FROM chunks WHERE typeof(body) = 'text' AND body > ?1 AND body < ?1 || '/' LIMIT 1`),
  };
}
