/** All that a queue can be asked, in any order, whatever fails meanwhile, and the queue opened anew in between. */
import assert from "node:assert/strict";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { openSqlite, type SqliteDatabase } from "../../src/lib/sqlite.ts";
import { openSqliteQueue } from "../../src/queue/sqlite-queue.ts";
import { DiskWatch } from "../../src/server/disk-watch.ts";
import { type QueueUnderTest, unique } from "../conformance/queue.ts";
import { findPostgres, startPostgres } from "../postgres.ts";
import { smallDisk, whyNoSmallDisk } from "../small-disk.ts";
import { Askers } from "./everything.ts";
import { openPostgresTestQueue } from "./open-postgres-queue.ts";
import { openTestQueue } from "./open-queue.ts";

const found = await findPostgres();
const without = { skip: "missing" in found && found.missing };
const ROUNDS = 4;
const ROUND_MS = 1_500;
const SMALL_DISK_MB = 24;
const CUT_MS = 100;

/** How many rows of a table have no endpoint. */
const loneOf = (table: string) =>
  `(SELECT count(*) FROM ${table} WHERE endpoint NOT IN (SELECT number FROM queue_endpoints))`;

function loneIn({ connection }: SqliteDatabase): number {
  const lost = (table: string) => `(SELECT count(*) FROM ${table} WHERE job NOT IN (SELECT seq FROM jobs))`;
  const all = [loneOf("jobs"), loneOf("expired_jobs"), lost("webhooks"), lost("chunks")].join(" + ");
  return (connection.prepare(`SELECT ${all} AS n`).get() as { n: number }).n;
}

interface Round {
  /** How many rows have no endpoint. */
  lone(): number | Promise<number>;
  /** While it is asked. */
  meanwhile(): Promise<void>;
  /** Codes of what may rightly be said to whoever asks, beside the usual ones. */
  readonly said?: readonly string[];
}

async function everything(
  t: TestContext,
  under: Pick<QueueUnderTest, "queue" | "reopen">,
  { lone, meanwhile, said = [] }: Round,
): Promise<void> {
  const endpoints = Array.from({ length: 5 }, () => unique("endpoint"));
  for (let round = 0; round < ROUNDS; round++) {
    const askers = new Askers([under.queue], endpoints, said);
    try {
      await meanwhile();
    } finally {
      t.diagnostic(await askers.end());
    }
    assert.deepEqual(askers.wrong, []);
    assert.equal(await lone(), 0, "each row is of an endpoint");
    const counts = () => Promise.all(endpoints.map((e) => under.queue.counts(e)));
    const before = await counts();
    await under.reopen();
    assert.deepEqual(await counts(), before, "the same is read");
  }
}

/** Time goes by, and nothing else happens. */
const passing = (clock: { now: number }) => async () => {
  for (let ms = 0; ms < ROUND_MS; ms += 10) {
    await pause(10);
    clock.now += 10;
  }
};

for (const durability of ["normal", "full"] as const)
  test(`Whatever SQLite is asked, ${durability}, is done, and what is in memory is what is in the rows`, async (t) => {
    const clock = { now: Date.now() };
    const under = await openTestQueue(clock, durability);
    t.after(() => under.close());
    await everything(t, under, { lone: () => loneIn(under.database), meanwhile: passing(clock) });
  });

test("Whatever SQLite is asked while its disk is full now and again is done, or refused as a whole", {
  skip: whyNoSmallDisk,
}, async (t) => {
  const small = smallDisk(t, SMALL_DISK_MB);
  const open = async () => {
    const database = openSqlite(join(small.disk, "queue.db"), "normal");
    const storage = new DiskWatch(small.disk, { began: () => {}, ended: () => {} });
    database.onFailure = (error) => storage.noticed(error);
    const blobDir = join(small.disk, "blobs");
    return { database, storage, queue: await openSqliteQueue({ database, blobDir, clock: Date.now, storage }) };
  };
  const under = {
    ...(await open()),
    async reopen() {
      under.storage.close();
      under.database.close();
      Object.assign(under, await open());
    },
  };
  small.before(async () => {
    under.storage.close();
    await under.queue.close();
    under.database.close();
  });
  await everything(t, under, {
    lone: () => loneIn(under.database),
    async meanwhile() {
      await pause(Math.random() * ROUND_MS);
      small.fill();
      await pause(Math.random() * ROUND_MS);
      small.makeRoom();
    },
    said: ["STORAGE_FULL"],
  });
});

for (const isCut of [false, true])
  test(
    `Whatever PostgreSQL is asked${isCut ? " while connections are lost" : ""} is done, and what is in memory is what is in the rows`,
    without,
    async (t) => {
      const server = await startPostgres((found as { bin: string }).bin);
      t.after(() => server.stop());
      const clock = { now: Date.now() };
      const under = await openPostgresTestQueue(server, clock);
      t.after(() => under.close());
      const database = new URL(under.url).pathname.slice(1);
      const any = `SELECT pid FROM pg_stat_activity WHERE datname = '${database}' ORDER BY random() LIMIT 1`;
      await everything(t, under, {
        async lone() {
          const tables = ["open_jobs", "done_jobs", "expired_jobs"].map(loneOf);
          return Number(await server.sql(`SELECT ${tables.join(" + ")}`, database));
        },
        async meanwhile() {
          const time = passing(clock)();
          for (let ms = 0; isCut && ms < ROUND_MS; ms += CUT_MS) {
            await pause(CUT_MS);
            await server.sql(`SELECT pg_terminate_backend(pid) FROM (${any}) cut`, "postgres");
          }
          await time;
        },
      });
    },
  );
