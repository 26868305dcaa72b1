import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { parseDatabaseUrl } from "../../src/postgres/database-url.ts";
import { Postgres } from "../../src/postgres/postgres.ts";
import { DiskBodyStore } from "../../src/queue/bodies/disk-body-store.ts";
import type { QueueBounds } from "../../src/queue/machine/machine.ts";
import { openPostgresQueue, type PostgresQueueOptions } from "../../src/queue/postgres-queue.ts";
import type { ClaimedJob, JobQueue } from "../../src/queue/queue.ts";
import type { QueueUnderTest, TestClock } from "../conformance/queue.ts";
import type { PostgresServer } from "../postgres.ts";

export interface PostgresQueueUnderTest extends QueueUnderTest {
  readonly url: string;
  readonly dir: string;
  /** Rows of each state. */
  states(): Promise<Map<number, number>>;
}

export function postgresAt(url: string, connectionsMax = 1): Postgres {
  const access = { url: parseDatabaseUrl(url), passwordFile: undefined };
  return new Postgres({ access, connectionsMax });
}

const never = new AbortController().signal;

/** On the database as it is. Closed with the test. */
export async function openedQueue(
  t: TestContext,
  url: string,
  options: Partial<PostgresQueueOptions> = {},
): Promise<JobQueue> {
  const dir = mkdtempSync(join(tmpdir(), "svc-queue-"));
  const postgres = postgresAt(url);
  const bodies = await DiskBodyStore.open(dir, false);
  const queue = await openPostgresQueue({ postgres, bodies, clock: Date.now, ...options });
  t.after(async () => {
    await queue.close();
    await postgres.close();
    rmSync(dir, { recursive: true });
  });
  return queue;
}

export async function claimOne(queue: JobQueue, endpointId: string, workerId = "w1"): Promise<ClaimedJob> {
  return (await queue.claim(endpointId, workerId, 1, never))[0]!;
}

let databases = 0;

/** A queue in a database of its own. reopen() takes over from a queue that still believes it is the owner: what is not committed is lost. */
export async function openPostgresTestQueue(
  server: PostgresServer,
  clock: TestClock,
  bounds: Partial<QueueBounds> = {},
): Promise<PostgresQueueUnderTest> {
  databases += 1;
  const url = await server.database(`queue_${databases}`);
  const dir = mkdtempSync(join(tmpdir(), "svc-queue-"));
  const postgres = postgresAt(url);
  const open = async () =>
    openPostgresQueue({
      postgres,
      bodies: await DiskBodyStore.open(dir, false),
      clock: () => clock.now,
      monotonic: () => clock.now - (clock.stepped ?? 0),
      bounds,
    });
  const before: QueueUnderTest["queue"][] = [];
  const under: PostgresQueueUnderTest = {
    queue: await open(),
    clock,
    url,
    dir,
    async states() {
      const all = "SELECT state FROM open_jobs UNION ALL SELECT state FROM done_jobs";
      const { rows } = await postgres.query<{ state: number; n: number }>(
        `SELECT state, count(*) AS n FROM (${all}) j GROUP BY state`,
      );
      return new Map(rows.map(({ state, n }) => [state, n]));
    },
    async reopen() {
      before.push(under.queue);
      under.queue = await open();
    },
    async close() {
      for (const queue of [...before, under.queue]) await queue.close();
      await postgres.close();
      rmSync(dir, { recursive: true });
    },
  };
  return under;
}
