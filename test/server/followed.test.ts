/** Those who follow at another platform what is printed and happens here. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { EVENT_JOBS_PER_S, LOG_FOLLOWER_MAX_BYTES, NEWS_FOLLOWERS_MAX } from "../../src/domain/limits.ts";
import { LogLines } from "../../src/logs/log-lines.ts";
import type { LogReader } from "../../src/logs/log-store.ts";
import { Followed } from "../../src/server/followed.ts";
import { EventHub } from "../../src/telemetry/event-hub.ts";

function platform() {
  const lines = new LogLines(() => 7);
  const events = new EventHub();
  const logs = { follow: (...asked) => lines.follow(...asked), read: async function* () {} } satisfies LogReader;
  const followed = new Followed({ logs, events });
  const print = (text: string, endpointId = "a") =>
    lines.take({ endpointId, workerId: "w", jobId: "", stream: "stdout", text });
  return { events, followed, print };
}

test("Who asks gets what came since it asked before, each line once, and nothing of other endpoints", async () => {
  const { followed, print } = platform();
  const over = new AbortController();
  const first = followed.news("f", { logsOf: ["a"] }, over.signal);
  print("one");
  assert.equal((await first).lines.length, 1);
  print("two");
  print("three");
  print("elsewhere", "b");
  const { lines, leftOut } = await followed.news("f", { logsOf: ["a"] }, over.signal);
  const texts = lines.flatMap((news) => news.lines.map((line) => JSON.parse(line).text));
  assert.deepEqual([texts, leftOut], [["two", "three"], 0]);
  const waits = followed.news("f", { logsOf: ["a"] }, over.signal);
  over.abort();
  assert.deepEqual((await waits).lines, []);
});

test("Who does not ask has a bounded part held for it, and is told how much was left out", async () => {
  const { followed, print, events } = platform();
  const over = new AbortController();
  const wish = { logsOf: ["a"], topics: ["jobs"] as const };
  const first = followed.news("slow", wish, over.signal);
  print("first");
  await first;
  const text = "x".repeat(10_000);
  for (let n = 0; n < 1_000; n++) print(text);
  for (let n = 0; n < 10 * EVENT_JOBS_PER_S; n++)
    events.tell(() => ({ topic: "jobs", endpointId: "a", data: { id: `${n}` } }));
  const news = await followed.news("slow", wish, over.signal);
  const bytes = news.lines.reduce((sum, { lines }) => sum + lines.join("").length, 0);
  assert.ok(bytes <= LOG_FOLLOWER_MAX_BYTES && bytes > LOG_FOLLOWER_MAX_BYTES / 2, `${bytes}`);
  assert.ok(news.events.length <= EVENT_JOBS_PER_S);
  assert.equal(news.lines.length + news.events.length + news.leftOut, 1_000 + 10 * EVENT_JOBS_PER_S);
  const waits = followed.news("slow", wish, over.signal);
  over.abort();
  await waits;
});

test("So many follow at once, and a place is free again when one follows no more", async () => {
  const { followed } = platform();
  const over = new AbortController();
  const all = Array.from({ length: NEWS_FOLLOWERS_MAX }, (_, n) =>
    followed.news(`${n}`, { logsOf: ["a"] }, over.signal),
  );
  await assert.rejects(followed.news("one more", { logsOf: ["a"] }), { code: "RATE_LIMITED" });
  over.abort();
  await Promise.all(all);
  const again = new AbortController();
  const waits = followed.news("one more", { logsOf: ["a"] }, again.signal);
  again.abort();
  await waits;
});
