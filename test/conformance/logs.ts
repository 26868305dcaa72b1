/** What every LogStore promises. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { setImmediate } from "node:timers/promises";
import { LOG_LINE_MAX_BYTES } from "../../src/domain/limits.ts";
import type { Mask } from "../../src/logs/log-lines.ts";
import type { LogReader, LogStore, LogTimes } from "../../src/logs/log-store.ts";

export interface OpenedLogs {
  readonly logs: LogStore & { idle(): Promise<void> };
  /** The same logs, opened anew after an end in order. */
  reopened(): Promise<OpenedLogs>;
}

export type OpenLogs = (t: TestContext, clock: () => number, mask?: Mask) => Promise<OpenedLogs>;

export const LINE = { endpointId: "a", workerId: "w", jobId: "", stream: "stdout" as const };

/** All that is kept of one endpoint, oldest first. */
export async function linesOf(logs: LogReader, endpointId = "a", between?: LogTimes): Promise<string[]> {
  const pieces: (readonly string[])[] = [];
  for await (const { lines } of logs.read([endpointId], between)) pieces.unshift(lines);
  return pieces.flat();
}

export async function textsOf(logs: LogReader, endpointId = "a", between?: LogTimes): Promise<string[]> {
  return (await linesOf(logs, endpointId, between)).map((line) => JSON.parse(line).text as string);
}

export function logConformance(column: string, open: OpenLogs): void {
  test(`${column}: what workers print is kept by endpoint, with job and worker`, async (t) => {
    const { logs } = await open(t, () => 7);
    const followed: string[] = [];
    const stop = logs.follow(["a"], ({ lines }) => void followed.push(...lines));
    logs.append({ ...LINE, jobId: "j", text: "one\ntwo\n" });
    logs.append({ ...LINE, endpointId: "b", text: "elsewhere" });
    await logs.idle();
    stop();
    logs.append({ ...LINE, jobId: "j", text: "three" });
    const expected = (text: string) => ({ at: 7, worker: "w", job: "j", stream: "stdout", level: "info", text });
    const parsed = async () => (await linesOf(logs)).map((line) => JSON.parse(line));
    assert.deepEqual(await parsed(), ["one", "two", "three"].map(expected));
    assert.deepEqual(
      followed.map((line) => JSON.parse(line)),
      ["one", "two"].map(expected),
    );
    assert.deepEqual((await logs.endpointIds()).sort(), ["a", "b"]);
    assert.deepEqual(await textsOf(logs, "unknown"), []);
  });

  test(`${column}: who reads finds what was printed before, also what is still on its way`, async (t) => {
    const { logs } = await open(t, () => 7);
    logs.append({ ...LINE, text: "first" });
    logs.append({ ...LINE, text: "waits behind it" });
    assert.deepEqual(await textsOf(logs), ["first", "waits behind it"]);
  });

  test(`${column}: what was printed is there after an end in order, and more is added behind it`, async (t) => {
    let now = 1;
    const before = await open(t, () => now);
    for (let n = 0; n < 5; n++) {
      before.logs.append({ ...LINE, text: `before ${n}` });
      if (n % 2 === 0) await before.logs.idle();
      now += 10;
    }
    const { logs } = await before.reopened();
    now += 10;
    logs.append({ ...LINE, text: "after" });
    const texts = ["before 0", "before 1", "before 2", "before 3", "before 4", "after"];
    assert.deepEqual(await textsOf(logs), texts);
    await logs.idle();
    assert.deepEqual(await textsOf(logs), texts);
  });

  test(`${column}: pieces of several logs come with the newest first, and none of a piece is younger than it says`, async (t) => {
    let now = 0;
    const { logs } = await open(t, () => now);
    for (let n = 0; n < 40; n++) {
      now = 1_000 + n;
      logs.append({ ...LINE, endpointId: n % 3 === 0 ? "a" : "b", text: `line ${n}` });
      if (n % 7 === 0) await logs.idle();
    }
    const seen: number[] = [];
    let last = Number.POSITIVE_INFINITY;
    for await (const { endpointId, newestAt, lines } of logs.read(["a", "b"])) {
      assert.ok(newestAt <= last);
      last = newestAt;
      const times = lines.map((line) => JSON.parse(line).at as number);
      assert.deepEqual(times, times.toSorted());
      assert.ok(times.every((at) => at <= newestAt && (at % 3 === 1) === (endpointId === "a")));
      seen.push(...times);
    }
    assert.deepEqual(
      seen.toSorted((a, b) => a - b),
      Array.from({ length: 40 }, (_, n) => 1_000 + n),
    );
    const late = await textsOf(logs, "a", { since: 1_020 });
    assert.ok(late.includes("line 39") && late.includes("line 21"));
    assert.ok((await textsOf(logs, "a", { until: 1_003 })).includes("line 3"));
  });

  test(`${column}: what is masked is masked before it goes anywhere, and lines that are too long are cut`, async (t) => {
    const { logs, ...opened } = await open(
      t,
      () => 7,
      (endpointId, text) => (endpointId === "a" ? text.replaceAll("s3cret", "***") : text),
    );
    const followed: string[] = [];
    logs.follow(["a"], ({ lines }) => void followed.push(...lines));
    logs.append({ ...LINE, text: 'the s3cret "quoted" 🔑' });
    logs.append({ ...LINE, text: "x".repeat(2 * LOG_LINE_MAX_BYTES) });
    const cut = `${"x".repeat(LOG_LINE_MAX_BYTES)} [line cut]`;
    assert.deepEqual(await textsOf(logs), ['the *** "quoted" 🔑', cut]);
    assert.doesNotMatch(followed.join(""), /s3cret/);
    const again = await opened.reopened();
    assert.deepEqual(await textsOf(again.logs), ['the *** "quoted" 🔑', cut]);
  });

  test(`${column}: a log that is forgotten while it is written does not come back`, async (t) => {
    const opened = await open(t, () => 7);
    const { logs } = opened;
    logs.append({ ...LINE, endpointId: "b", text: "stays" });
    for (let n = 0; n < 30; n++) {
      logs.append({ ...LINE, text: "x".repeat(100_000) });
      const written = logs.idle();
      await logs.forget("a");
      await setImmediate();
      await written;
      assert.deepEqual(await linesOf(logs), []);
    }
    const again = await opened.reopened();
    assert.deepEqual(await again.logs.endpointIds(), ["b"]);
    assert.deepEqual(await textsOf(again.logs, "b"), ["stays"]);
  });
}
