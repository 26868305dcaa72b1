/** Jobs of all endpoints, listed and searched together. */
import assert from "node:assert/strict";
import { after, test } from "node:test";
import type { JobState } from "../../src/domain/job.ts";
import { EXPIRED_KEPT_MS, FAILED_RETENTION_MS } from "../../src/domain/limits.ts";
import type { JobSearch } from "../../src/queue/queue.ts";
import { prepareStatements } from "../../src/queue/sqlite/statements.ts";
import { newJob } from "../conformance/queue.ts";
import { openTestQueue } from "./open-queue.ts";

const START = 1_700_000_000_000;
const MANY = 100_000;
const never = new AbortController().signal;
const clock = { now: START };
const under = await openTestQueue(clock);
after(() => under.close());

/** Number n as jobs are numbered: with a UUID that says its time. */
function idOf(n: number): string {
  const time = (START + n).toString(16).padStart(12, "0");
  return `${n % 2 ? "sync-" : ""}${time.slice(0, 8)}-${time.slice(8)}-7000-8000-${String(n).padStart(12, "0")}-l1`;
}

async function finished(endpointId: string, n: number, state: "COMPLETED" | "FAILED", error = "") {
  clock.now = START + n;
  const claim = under.queue.claim(endpointId, "w1", 1, never);
  await under.queue.enqueue(newJob(endpointId, { id: idOf(n) }));
  const [job] = await claim;
  const outcome = state === "FAILED" ? { state, error } : { state, output: Buffer.from("1") };
  await under.queue.finish(job!, outcome);
}

const search = async (wanted: Partial<JobSearch>) => under.queue.search({ limit: 100, ...wanted });

async function all(wanted: Partial<JobSearch>): Promise<string[]> {
  const ids: string[] = [];
  let before: number | undefined;
  do {
    const { jobs, next } = await search({ ...wanted, before });
    ids.push(...jobs.map(({ id }) => id));
    before = next;
  } while (before !== undefined);
  return ids;
}

const raised = JSON.stringify({
  error_type: "ValueError",
  error_message: "100% of [.*] isn't 'fine'; DROP TABLE jobs",
  error_traceback: 'File "main.py", line 3, in paint',
});

test("jobs of all endpoints are found by endpoint, state, time, beginning of the id and text of the error", async () => {
  await finished("one", 1, "COMPLETED");
  await finished("two", 2, "FAILED", raised);
  await finished("one", 3, "FAILED", "worker lost after 1 retry");
  clock.now = START + 4;
  await under.queue.enqueue(newJob("two", { id: idOf(4) }));
  clock.now = START + 5;
  await under.queue.enqueue(newJob("one", { id: idOf(5) }));
  const [running] = await under.queue.claim("one", "w2", 1, never);
  assert.equal(running!.jobId, idOf(5));
  const found = async (wanted: Partial<JobSearch>) => (await all(wanted)).map((id) => Number(id.slice(-15, -3)));

  assert.deepEqual(await found({}), [5, 4, 3, 2, 1]);
  assert.deepEqual(await found({ endpointIds: ["one"] }), [5, 3, 1]);
  assert.deepEqual(await found({ endpointIds: [] }), []);
  assert.deepEqual(await found({ endpointIds: ["nobody"] }), []);
  assert.deepEqual(await found({ states: ["FAILED", "IN_QUEUE"] }), [4, 3, 2]);
  assert.deepEqual(await found({ states: ["IN_PROGRESS"] }), [5]);
  assert.deepEqual(await found({ from: START + 2, to: START + 4 }), [4, 3, 2]);
  assert.deepEqual(await found({ idStart: idOf(3).slice(5, -3) }), [3], "the UUID of a runsync job");
  assert.deepEqual(await found({ idStart: idOf(3) }), [3]);
  assert.deepEqual(await found({ idStart: idOf(4).slice(0, 12), endpointIds: ["two"] }), [4, 2]);
  const saying = (part: string) => ({ error: (text: string) => text.includes(part) });
  assert.deepEqual(await found(saying("lost")), [3]);
  assert.deepEqual(await found(saying("isn't 'fine'; DROP")), [2]);
  assert.deepEqual(await found({ ...saying(""), states: ["COMPLETED"] }), []);
  for (const idStart of ["%", "_", "' OR 1=1 --", "\u001b[31m", "~", "*"]) {
    assert.deepEqual(await found({ idStart }), [], `the beginning ${JSON.stringify(idStart)} is plain text`);
  }
  const { jobs } = await search({ states: ["FAILED"], endpointIds: ["two"] });
  assert.deepEqual([jobs[0]!.error, jobs[0]!.expiresAt], [raised, START + 2 + FAILED_RETENTION_MS]);
});

test("a job whose row is gone is found for 7 days more, with the first line of its error", async () => {
  clock.now = START + 10 + FAILED_RETENTION_MS;
  await under.queue.sweep();
  const { jobs } = await search({ states: ["COMPLETED", "FAILED"] });
  assert.deepEqual(
    jobs.map(({ id, expired, error, expiresAt }) => [id, expired, error, expiresAt]),
    [
      [idOf(3), true, "worker lost after 1 retry", null],
      [idOf(2), true, "ValueError: 100% of [.*] isn't 'fine'; DROP TABLE jobs", null],
      [idOf(1), true, "", null],
    ],
  );
  clock.now += EXPIRED_KEPT_MS;
  await under.queue.sweep();
  assert.deepEqual(await all({ states: ["COMPLETED", "FAILED"] }), []);
});

test("100,000 jobs are paged through once each while others come, end and expire", async () => {
  await under.queue.forget("one");
  await under.queue.forget("two");
  // More endpoints than indexes are merged for.
  const endpoints = Array.from({ length: 50 }, (_, n) => `many-${n}`);
  for (const [n, endpoint] of endpoints.entries()) await under.queue.enqueue(newJob(endpoint, { id: idOf(n) }));
  under.database.connection.exec(`
    INSERT INTO jobs SELECT seq + n * 50, printf('%08x-%d', n, seq), endpoint, state, low_priority, fence, retries, worker_id,
      created_at + n, started_at, finished_at, lease_until, expires_at, ttl_ms, retention_ms, execution_timeout_ms, method,
      webhook, idempotency_key, input, output, error, attempts, due_at
    FROM jobs, (WITH RECURSIVE n(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM n WHERE n < ${MANY / 50 - 1}) SELECT n FROM n)
  `);
  await under.reopen();
  const inserted = under.database.connection.prepare("SELECT id FROM jobs ORDER BY seq DESC").all();
  assert.equal(inserted.length, MANY);
  const submitted = clock.now;
  const seen: string[] = [];
  let more = MANY;
  let before: number | undefined;
  do {
    const { jobs, next } = await search({ before, limit: 500 });
    seen.push(...jobs.map(({ id }) => id));
    before = next;
    clock.now = START + more;
    await under.queue.enqueue(newJob("many-0", { id: idOf(more++) }));
    // One that stands on a later page ends meanwhile.
    const [job] = await under.queue.claim("many-1", "w1", 1, never);
    await under.queue.finish(job!, { state: "COMPLETED", output: Buffer.from("1") });
  } while (before !== undefined);
  assert.equal(seen.join("\n"), inserted.map(({ id }) => id).join("\n"));

  const states: JobState[] = ["COMPLETED"];
  const completed = await all({ states, limit: 3 });
  assert.equal(completed.length, more - MANY);
  const one = { endpointIds: ["many-7"], limit: 500 };
  assert.equal((await all(one)).length, MANY / 50);
  const few = await all({ from: submitted + 1_000, to: submitted + 1_009, limit: 400 });
  assert.equal(few.length, 10 * 50, "fifty in each millisecond");
  // Every search takes turns with the queue: nothing that is enqueued meanwhile waits for its end.
  let over = false;
  const long = all({ to: 0 }).then(() => (over = true));
  await under.queue.enqueue(newJob("many-0", { id: idOf(more) }));
  assert.equal(over, false);
  await long;
});

test("every step of a search reads a range of a table or an index, none is sorted", () => {
  const statements = prepareStatements(under.database.connection);
  const names = [
    "seqBelow",
    "expiredSeqBelow",
    "searchJobs",
    "searchExpired",
    "anyIdsFrom",
    "anyExpiredIdsFrom",
  ] as const;
  for (const name of names) {
    const plan = under.database.connection.prepare(`EXPLAIN QUERY PLAN ${statements[name].sourceSQL}`).all();
    const steps = plan.map(({ detail }) => String(detail)).filter((detail) => /jobs|B-TREE/.test(detail));
    assert.equal(steps.length, 1, `${name}: ${steps.join("; ")}`);
    assert.match(steps[0]!, /^SEARCH (jobs|expired_jobs) USING (INTEGER PRIMARY KEY|(COVERING )?INDEX)/, name);
  }
});
