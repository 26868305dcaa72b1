/** When jobs between two attempts are looked at, with rows that cannot always be reached. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { DELAYED_RETRY_MS } from "../../src/domain/limits.ts";
import { DelayedJobs } from "../../src/queue/machine/delayed-jobs.ts";

test("A job that is due is queued once the rows can be reached again, whichever question failed", async (t) => {
  t.mock.timers.enable({ apis: ["setTimeout"] });
  let now = 0;
  let isAway = true;
  let due: number | null = 5_000;
  const asked: string[] = [];
  const reached = <T>(what: string, value: T): T => {
    asked.push(`${what} at ${now}`);
    if (isAway) throw new Error("the database is away");
    return value;
  };
  const delays = new DelayedJobs(() => now, {
    async queueDue(at) {
      const isDue = reached("queue", due !== null && due <= at);
      if (isDue) due = null;
      return isDue ? 1 : 0;
    },
    firstDue: async () => reached("look", due),
  });
  const pass = async (ms: number) => {
    now += ms;
    t.mock.timers.tick(ms);
    await turn();
  };
  await delays.waitForFirst();
  await pass(DELAYED_RETRY_MS);
  assert.deepEqual(asked.splice(0), ["look at 0", "queue at 1000"], "it could not be seen what is due");
  isAway = false;
  await pass(DELAYED_RETRY_MS);
  assert.deepEqual(asked.splice(0), ["queue at 2000", "look at 2000"]);
  isAway = true;
  await pass(3_000);
  assert.deepEqual(asked.splice(0), ["queue at 5000"], "it is due while nobody can queue it");
  isAway = false;
  await pass(DELAYED_RETRY_MS);
  assert.deepEqual([asked.splice(0), due], [["queue at 6000", "look at 6000"], null]);
  await pass(60_000);
  assert.deepEqual(asked, []);
  isAway = true;
  delays.expect(now);
  delays.close();
  await pass(60_000);
  assert.deepEqual(asked, [], "who is closed asks for nothing");
});
