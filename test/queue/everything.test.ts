/** All that a queue can be asked, in any order, and the queue opened anew in between. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as pause } from "node:timers/promises";
import { type QueueUnderTest, type TestClock, unique } from "../conformance/queue.ts";
import { findPostgres, startPostgres } from "../postgres.ts";
import { Askers } from "./everything.ts";
import { openPostgresTestQueue } from "./open-postgres-queue.ts";
import { openTestQueue } from "./open-queue.ts";

const found = await findPostgres();
const ROUNDS = 4;
const ROUND_MS = 1_500;

/** How many rows of a table have no endpoint. */
const loneOf = (table: string) =>
  `(SELECT count(*) FROM ${table} WHERE endpoint NOT IN (SELECT number FROM queue_endpoints))`;

/** `lone`: how many rows have no endpoint. */
async function everything(under: QueueUnderTest, clock: TestClock, lone: () => Promise<number>): Promise<string> {
  const endpoints = Array.from({ length: 5 }, () => unique("endpoint"));
  const said: string[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const askers = new Askers([under.queue], endpoints);
    for (let ms = 0; ms < ROUND_MS; ms += 10) {
      await pause(10);
      clock.now += 10;
    }
    said.push(await askers.end());
    assert.deepEqual(askers.wrong, []);
    assert.equal(await lone(), 0, "each row is of an endpoint");
    const counts = () => Promise.all(endpoints.map((e) => under.queue.counts(e)));
    const before = await counts();
    await under.reopen();
    assert.deepEqual(await counts(), before, "the same is read");
  }
  return said.join("\n");
}

for (const durability of ["normal", "full"] as const) {
  test(`Whatever SQLite is asked, ${durability}, is done, and what is in memory is what is in the rows`, async (t) => {
    const clock = { now: Date.now() };
    const under = await openTestQueue(clock, durability);
    t.after(() => under.close());
    const lone = async () => {
      const lost = (table: string) => `(SELECT count(*) FROM ${table} WHERE job NOT IN (SELECT seq FROM jobs))`;
      const all = [loneOf("jobs"), loneOf("expired_jobs"), lost("webhooks"), lost("chunks")].join(" + ");
      return (under.database.connection.prepare(`SELECT ${all} AS n`).get() as { n: number }).n;
    };
    t.diagnostic(await everything(under, clock, lone));
  });
}

test("Whatever PostgreSQL is asked is done, and what is in memory is what is in the rows", {
  skip: "missing" in found && found.missing,
}, async (t) => {
  const server = await startPostgres((found as { bin: string }).bin);
  t.after(() => server.stop());
  const clock = { now: Date.now() };
  const under = await openPostgresTestQueue(server, clock);
  t.after(() => under.close());
  const lone = async () => {
    const database = new URL(under.url).pathname.slice(1);
    return Number(
      await server.sql(`SELECT ${["open_jobs", "done_jobs", "expired_jobs"].map(loneOf).join(" + ")}`, database),
    );
  };
  t.diagnostic(await everything(under, clock, lone));
});
