/** Which ticks become jobs, on the real store and queue with the test's clock. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { SCHEDULE_LATE_MAX_MS } from "../../src/domain/limits.ts";
import { movedAway } from "../../src/domain/own-endpoints.ts";
import { nextTick, type Schedule, storedSchedule } from "../../src/domain/schedule.ts";
import type { Endpoint } from "../../src/store/store.ts";
import { Schedules } from "../../src/upkeep/schedules.ts";
import { newEndpoint } from "../conformance/store.ts";
import { openTestQueue } from "../queue/open-queue.ts";

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const NOON = Date.parse("2026-03-01T12:00:00Z");
const never = new AbortController().signal;

function schedule(rules: Partial<Schedule> = {}): Schedule {
  return { cron: "", everyMs: 10 * MINUTE, timezone: "UTC", input: {}, missed: "skip", overlap: "queue", ...rules };
}

async function scheduled(t: TestContext, rules: Partial<Schedule> = {}) {
  const clock = { now: NOON + 1 };
  const under = await openTestQueue(clock);
  t.after(() => under.close());
  const failures: unknown[] = [];
  let endpoint: Endpoint = newEndpoint(null, { schedule: storedSchedule(schedule(rules)) });
  let ids = 0;
  /** Another platform has the endpoint. */
  let there = false;
  const make = () =>
    new Schedules({
      store: { endpoints: { listScheduled: async () => [endpoint] } } as never,
      queue: under.queue,
      isMine: () => !there,
      clock: () => clock.now,
      newId: () => `00000000-0000-7000-8000-${String(++ids).padStart(12, "0")}`,
      retentionMs: 1_000,
      onError: (_name, error) => failures.push(error),
    });
  let schedules = make();
  t.after(async () => {
    await schedules.stop();
    assert.deepEqual(failures, []);
  });
  return {
    clock,
    under,
    make,
    id: endpoint.id,
    moved: (isThere: boolean) => {
      there = isThere;
    },
    /** Sets the clock, looks, and resolves how many jobs there are in all. */
    async at(time: number) {
      clock.now = time;
      await schedules.run();
      return this.jobs();
    },
    jobs: async () => (await under.queue.list(endpoint.id, { limit: 1_000 })).length,
    change: (changes: Partial<Endpoint>) => {
      endpoint = { ...endpoint, ...changes };
    },
    /** The platform is killed and started again. */
    async crash() {
      await schedules.stop();
      await under.reopen();
      failures.length = 0; // of the one that was killed
      schedules = make();
    },
  };
}

test("each tick becomes one job with the schedule's input, however often and by how many platforms it is looked at", async (t) => {
  const on = await scheduled(t, { input: { n: 1 } });
  assert.equal(await on.at(NOON + 1), 0, "what was before it was deployed is none of its ticks");
  assert.equal(await on.at(NOON + 10 * MINUTE - 1), 0);
  const other = on.make();
  t.after(() => other.stop());
  on.clock.now = NOON + 10 * MINUTE;
  await Promise.all([on.at(on.clock.now), other.run(), other.run()]);
  assert.equal(await on.jobs(), 1);
  const [job] = await on.under.queue.list(on.id, { limit: 1 });
  assert.equal(Buffer.from((await on.under.queue.input(job!.id))!).toString(), '{"n":1}');
  await on.crash();
  assert.equal(await on.at(NOON + 10 * MINUTE), 1);
  assert.equal(await on.at(NOON + 20 * MINUTE), 2);
  assert.equal((await on.under.queue.scheduleOf(on.id))?.tick, NOON + 20 * MINUTE);
});

test("the schedule of an endpoint that another platform has is that one's, and goes on here when it comes back", async (t) => {
  const on = await scheduled(t);
  await on.at(NOON + 1);
  on.moved(true);
  assert.equal(await on.at(NOON + 10 * MINUTE), 0);
  on.moved(false);
  assert.equal(await on.at(NOON + 10 * MINUTE + 1), 1);
});

test("an endpoint whose jobs go to another platform just then is no fault", async (t) => {
  const on = await scheduled(t);
  await on.at(NOON + 1);
  const { tick } = on.under.queue;
  on.under.queue.tick = async () => {
    throw movedAway(on.id);
  };
  assert.equal(await on.at(NOON + 10 * MINUTE), 0);
  on.under.queue.tick = tick;
  assert.equal(await on.at(NOON + 10 * MINUTE + 1), 1);
});

test("a tick whose transaction was not written is made after the crash, and one whose job is gone is not made again", async (t) => {
  const on = await scheduled(t);
  await on.at(NOON + 1);
  const lost = on.at(NOON + 10 * MINUTE);
  await on.crash();
  await lost.catch(() => {});
  await on.crash();
  assert.equal(await on.at(NOON + 10 * MINUTE + 1), 1);
  const [claim] = await on.under.queue.claim(on.id, "w", 1, never);
  await on.under.queue.finish(claim!, { state: "COMPLETED", output: Buffer.from("1") });
  on.clock.now += 30_000;
  await on.under.queue.sweep();
  assert.equal(await on.jobs(), 0);
  assert.equal(await on.at(on.clock.now), 0);
});

test("of ticks that nobody was there for none runs, or one for all; what is late by a moment runs", async (t) => {
  const skip = await scheduled(t);
  const once = await scheduled(t, { missed: "once" });
  for (const on of [skip, once]) await on.at(NOON + 1);
  const back = NOON + 5 * HOUR + 2 * MINUTE;
  assert.deepEqual([await skip.at(back), await once.at(back)], [0, 1]);
  const late = NOON + 5 * HOUR + 10 * MINUTE + SCHEDULE_LATE_MAX_MS - 1;
  assert.deepEqual([await skip.at(late), await once.at(late)], [1, 2]);
});

test("a clock that is set back runs no tick again, one that was a day ahead starts anew", async (t) => {
  const on = await scheduled(t, { missed: "once" });
  await on.at(NOON + 1);
  assert.equal(await on.at(NOON + 30 * MINUTE), 1 + 1, "one for those missed, and the one that is due");
  assert.equal(await on.at(NOON - 3 * HOUR), 2);
  assert.equal(await on.at(NOON + 30 * MINUTE), 2);
  assert.equal(await on.at(NOON + 40 * MINUTE), 3);
  const ahead = await on.at(NOON + 400 * DAY);
  assert.equal(await on.at(NOON + 55 * MINUTE), ahead);
  assert.equal(await on.at(NOON + 60 * MINUTE), ahead + 1);
});

test("cron goes by the zone's own clock: an hour that is left out moves its tick, one that comes twice has one", () => {
  const daily = schedule({ everyMs: 0, cron: "30 2 * * *", timezone: "Europe/Berlin" });
  const ticks = (from: string) => {
    const first = nextTick(daily, Date.parse(from))!;
    return [first, nextTick(daily, first)!].map((tick) => new Date(tick).toISOString());
  };
  assert.deepEqual(ticks("2026-03-28T12:00:00Z"), ["2026-03-29T01:00:00.000Z", "2026-03-30T00:30:00.000Z"]);
  assert.deepEqual(ticks("2026-10-24T12:00:00Z"), ["2026-10-25T00:30:00.000Z", "2026-10-26T01:30:00.000Z"]);
});

test("a paused schedule makes no job and makes up for none, over restarts; a changed one counts from its change", async (t) => {
  const on = await scheduled(t, { missed: "once" });
  await on.at(NOON + 1);
  const { queue } = on.under;
  const state = (await queue.scheduleOf(on.id))!;
  await queue.setSchedule(on.id, { ...state, paused: true });
  await on.crash();
  assert.equal(await on.at(NOON + 3 * HOUR), 0);
  await on.under.queue.setSchedule(on.id, { ...state, until: on.clock.now, paused: false });
  assert.equal(await on.at(NOON + 3 * HOUR + 9 * MINUTE), 0);
  assert.equal(await on.at(NOON + 3 * HOUR + 10 * MINUTE), 1);
  on.change({ schedule: storedSchedule(schedule({ everyMs: 0, cron: "0 * * * *", missed: "once" })) });
  assert.equal(await on.at(NOON + 9 * HOUR + 1), 1);
  assert.equal(await on.at(NOON + 10 * HOUR), 2);
  on.change({ environmentId: "e", buildId: null, workersMax: 0 });
  assert.equal(await on.at(NOON + 11 * HOUR), 2, "an endpoint that only drains");
  await on.under.queue.forget(on.id);
  assert.equal(await on.under.queue.scheduleOf(on.id), undefined);
});

test("while the job of the tick before is not over, the next one is queued or left out", async (t) => {
  const queued = await scheduled(t);
  const left = await scheduled(t, { overlap: "skip" });
  for (const on of [queued, left]) await on.at(NOON + 1);
  const counts = async (time: number) => [await queued.at(time), await left.at(time)];
  assert.deepEqual(await counts(NOON + 10 * MINUTE), [1, 1]);
  assert.deepEqual(await counts(NOON + 20 * MINUTE), [2, 1]);
  assert.equal((await left.under.queue.scheduleOf(left.id))?.jobId, "");
  const [claim] = await left.under.queue.claim(left.id, "w", 1, never);
  await left.under.queue.finish(claim!, { state: "COMPLETED", output: Buffer.from("1") });
  assert.deepEqual(await counts(NOON + 30 * MINUTE), [3, 2]);
});
