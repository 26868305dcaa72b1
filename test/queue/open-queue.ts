import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Durability, openSqlite, type SqliteDatabase } from "../../src/lib/sqlite.ts";
import type { QueueBounds } from "../../src/queue/machine/machine.ts";
import { openSqliteQueue } from "../../src/queue/sqlite-queue.ts";
import type { QueueUnderTest, TestClock } from "../conformance/queue.ts";

export interface SqliteQueueUnderTest extends QueueUnderTest {
  database: SqliteDatabase;
  readonly dir: string;
  readonly blobDir: string;
  /** Rows of each state. */
  states(): Promise<Map<number, number>>;
}

/** A queue on a file of its own. reopen() drops the connection without closing the queue: what is not committed is lost. */
export async function openTestQueue(
  clock: TestClock,
  durability: Durability = "normal",
  bounds: Partial<QueueBounds> = {},
): Promise<SqliteQueueUnderTest> {
  const dir = mkdtempSync(join(tmpdir(), "svc-queue-"));
  const blobDir = join(dir, "blobs");
  const open = async () => {
    const database = openSqlite(join(dir, "queue.db"), durability);
    return {
      database,
      queue: await openSqliteQueue({
        database,
        blobDir,
        clock: () => clock.now,
        monotonic: () => clock.now - (clock.stepped ?? 0),
        bounds,
      }),
    };
  };
  const under: SqliteQueueUnderTest = {
    ...(await open()),
    clock,
    dir,
    blobDir,
    async states() {
      const rows = under.database.connection.prepare("SELECT state, count(*) AS n FROM jobs GROUP BY state").all();
      return new Map((rows as { state: number; n: number }[]).map(({ state, n }) => [state, n]));
    },
    async reopen() {
      under.database.close();
      Object.assign(under, await open());
    },
    async close() {
      await under.queue.close();
      under.database.close();
      rmSync(dir, { recursive: true });
    },
  };
  return under;
}
