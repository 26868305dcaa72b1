/** How PostgreSQL carries out what the queue asks of it often: by primary keys, however much lies in the tables. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import type { Postgres } from "../../src/postgres/postgres.ts";
import { DiskBodyStore } from "../../src/queue/bodies/disk-body-store.ts";
import { LOADS, LOOK_UP } from "../../src/queue/postgres/load.ts";
import { inShards } from "../../src/queue/postgres/ownership.ts";
import type { JobRecord } from "../../src/queue/postgres/records.ts";
import { QUEUED } from "../../src/queue/postgres/rows.ts";
import {
  AGAIN,
  DONE_OUT,
  DONE_UP,
  FINISH,
  OPEN_OUT,
  OPEN_UP,
  PARTS,
  type Part,
  PROGRESS,
  statementOf,
} from "../../src/queue/postgres/statement.ts";
import { openPostgresQueue } from "../../src/queue/postgres-queue.ts";
import { explained, nodesOf, type Plan } from "../explained.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../postgres.ts";
import { postgresAt } from "./open-postgres-queue.ts";

const found = await findPostgres();
const skip = "missing" in found && found.missing;
const ROWS = 100_000;
/** Small, whatever happens: one row an endpoint or less, one a batch that is dropped all at once, or none yet. */
const SMALL = /^(queue_shards|queue_endpoints|queue_journal|job_schedules|done_jobs_\d+)$/;
/** Of a day, that has no rows here. */
const SMALL_PART = /^done_jobs_\d+$/;
const FENCE = { shards: [1], epochs: [1], nonces: [1], writer: 1, n: 1, after: 1, lastSeq: 1 };

describe("what the queue asks of PostgreSQL", { skip }, () => {
  let server: PostgresServer;
  let postgres: Postgres;
  const dir = mkdtempSync(join(tmpdir(), "svc-queue-"));
  before(async () => {
    server = await startPostgres((found as { bin: string }).bin);
    postgres = postgresAt(await server.database("explained"));
    await (
      await openPostgresQueue({ postgres, bodies: await DiskBodyStore.open(dir, false), clock: Date.now })
    ).close();
    const job = `n, 'id' || n, 1 + n % 201, n % 2, 0, 1, 0, 0, 'w', n, n, n, NULL, 1, 1, 1, '', '', '', 'x', NULL, NULL, NULL`;
    const rows = `FROM generate_series(1, ${ROWS}) n`;
    for (const fill of [
      `INSERT INTO open_jobs SELECT ${job} ${rows}`,
      `INSERT INTO done_jobs SELECT ${job}, n, NULL, NULL ${rows}`,
      `INSERT INTO job_chunks SELECT n / 10, n, 1, 'x', NULL ${rows}`,
      `INSERT INTO job_webhooks SELECT n, n, 'id', 'url', 'host' || n % 100, 0, n ${rows}`,
      `INSERT INTO queue_endpoints SELECT n, 'endpoint' || n, n % 256, 0, 0, 0, 0, 0, 0 FROM generate_series(1, 10000) n`,
      `INSERT INTO job_keys SELECT 1, 'key' || n, 'id' ${rows}`,
      `INSERT INTO queue_journal SELECT 1, n, '[]', n FROM generate_series(1, 600) n`,
      "ANALYZE",
    ]) {
      await postgres.query(fill);
    }
  });
  after(async () => {
    await postgres?.close();
    await server?.stop();
    rmSync(dir, { recursive: true });
  });

  function assertByKey(nodes: readonly Plan[], what: string): void {
    for (const node of nodes) {
      const table = node["Relation Name"] ?? "";
      if (SMALL.test(table)) continue;
      assert.notEqual(node["Node Type"], "Seq Scan", `${what} reads all of ${table}`);
    }
  }

  for (const part of PARTS as readonly Part<unknown>[]) {
    test(`a batch with ${part.name} finds its rows by key`, async () => {
      const items = Array.from({ length: 64 }, (_, n) => sample(part, n + 1));
      const statement = statementOf(new Map([[part as Part<never>, items]]), FENCE, "[]")!;
      const nodes = await explained(postgres, statement.text, statement.values);
      assertByKey(nodes, part.name);
      const hot = nodes.filter((node) => /^(open|done)_jobs/.test(node["Relation Name"] ?? "") && node["Index Name"]);
      for (const node of hot) assert.match(node["Index Name"]!, /_pkey$/, `${part.name} goes by ${node["Index Name"]}`);
    });
  }

  test("a plan that a connection makes while the tables are empty goes by key too, and so holds when they are full", async () => {
    const fresh = postgresAt(await server.database("fresh"));
    const queue = await openPostgresQueue({
      postgres: fresh,
      bodies: await DiskBodyStore.open(dir, false),
      clock: Date.now,
    });
    const session = await fresh.connect();
    try {
      for (const part of [OPEN_UP, FINISH, AGAIN, DONE_UP, OPEN_OUT, DONE_OUT, PROGRESS]) {
        const { name, text, values } = statementOf(
          new Map([[part as Part<never>, [sample(part as Part<unknown>, 1)]]]),
          FENCE,
          "[]",
        )!;
        // From the sixth time on the plan is kept; nothing is written without the shards.
        for (let time = 0; time < 6; time++) await session.query({ name, text, values: [...values] });
        const nulls = values.map(() => "NULL").join(", ");
        const { rows } = await session.query(`EXPLAIN (FORMAT JSON) EXECUTE "${name}" (${nulls})`);
        assertByKey(nodesOf(rows[0]["QUERY PLAN"][0].Plan), part.name);
      }
    } finally {
      await session.end();
      await queue.close();
      await fresh.close();
    }
  });

  for (const [what, number, index] of [
    ["endpoints", "number", /^queue_endpoints_shard$/],
    ["running", "seq", /^open_jobs_running$/],
    ["files", "seq", /^(open_jobs_files|done_jobs_.*)$/],
    ["streams", "seq", /^(job_chunks_shard|open_jobs_pkey|done_jobs_.*pkey)$/],
  ] as const)
    test(`who takes a shard finds its ${what} by an index of shards, also when it takes half of all`, async () => {
      for (const shards of [[3], Array.from({ length: 128 }, (_, n) => 2 * n)]) {
        const session = await postgres.connect();
        try {
          await session.query("BEGIN");
          await session.query(LOOK_UP);
          const { rows } = await session.query(`EXPLAIN (FORMAT JSON) ${LOADS[what](inShards(number, shards))}`);
          const nodes = nodesOf(rows[0]["QUERY PLAN"][0].Plan);
          for (const node of nodes) {
            assert.notEqual(node["Node Type"], "Seq Scan", `${what} reads all of ${node["Relation Name"]}`);
            if (node["Index Name"] !== undefined && !SMALL_PART.test(node["Relation Name"] ?? ""))
              assert.match(node["Index Name"], index);
          }
          assert.ok(
            nodes.some((node) => /& '?255/.test(node["Index Cond"] ?? "")),
            "the shard is looked up",
          );
        } finally {
          await session.end();
        }
      }
    });

  test("the next jobs of an endpoint are read in their order, from where the last read ended", async () => {
    const nodes = await explained(postgres, QUEUED, [2, 0, ROWS / 2, 256]);
    assertByKey(nodes, "reading on");
    assert.ok(
      nodes.some((node) => node["Index Name"] === "open_jobs_queued" && /seq >/.test(node["Index Cond"] ?? "")),
    );
  });
});

/** As work makes it: jobs have more than their part names. */
function sample(part: Part<unknown>, n: number): unknown {
  const record = {
    seq: n,
    id: `id${n}`,
    endpoint: 1,
    state: 2,
    fence: 1,
    storedFence: 1,
    input: null,
    output: null,
    error: null,
  };
  const isJob = part.columns.some(({ name }) => name === "seq");
  return isJob
    ? (record as unknown as JobRecord)
    : part.columns.map(({ type }) => (type === "text" ? `${n}` : type === "bytea" ? null : n));
}
