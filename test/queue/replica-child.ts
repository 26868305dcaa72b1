/**
 * A replica in a process of its own, that can be killed and stopped: takes its shards, then submits and finishes jobs of its endpoints,
 * and says a line for each that was accepted, finished or refused.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as pause } from "node:timers/promises";
import { DiskBodyStore } from "../../src/queue/bodies/disk-body-store.ts";
import { openPostgresQueue } from "../../src/queue/postgres-queue.ts";
import { newJob } from "../conformance/queue.ts";
import { postgresAt } from "./open-postgres-queue.ts";

const [url, dir, id, ...endpoints] = process.argv.slice(2) as [string, string, string, ...string[]];
const say = (what: string, value = "") => process.stdout.write(`${what} ${value}\n`);
const queue = await openPostgresQueue({
  postgres: postgresAt(url),
  bodies: await DiskBodyStore.open(dir, false),
  clock: Date.now,
  replica: { id, address: "child:1", links: { first: 1, last: 1 }, moved: (ids) => say("moved", ids.join(" ")) },
});
const never = new AbortController().signal;
while (queue.shards.ownership.in("OWNER").length < 256) await pause(20);
say("ready");
for (const endpoint of endpoints) {
  void (async () => {
    for (;;) {
      try {
        say("accepted", (await queue.enqueue(newJob(endpoint, { id: randomUUID() }))).id);
      } catch (error) {
        say("refused", (error as { code: string }).code);
        return;
      }
    }
  })();
  void (async () => {
    try {
      for (;;) {
        for (const claim of await queue.claim(endpoint, `w-${id}`, 2, never)) {
          const done = await queue.finish(claim, { state: "COMPLETED", output: Buffer.from('"child"') });
          say(done ? "finished" : "stale", claim.jobId);
        }
      }
    } catch (error) {
      say("refused", (error as { code: string }).code);
    }
  })();
}
