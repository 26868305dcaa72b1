import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type TestContext, test } from "node:test";
import { LOG_FILE_MAX_BYTES, LOG_PENDING_LAST_BYTES, LOG_PENDING_MAX_BYTES } from "../../src/domain/limits.ts";
import { LogFiles } from "../../src/logs/log-files.ts";
import { LINE, linesOf, logConformance, type OpenedLogs, textsOf } from "../conformance/logs.ts";

function folder(t: TestContext): string {
  const dir = mkdtempSync(join(tmpdir(), "svc-logs-"));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  return dir;
}

logConformance("files", async (t, clock, mask) => {
  const dir = folder(t);
  const opened = (): OpenedLogs => {
    const logs = new LogFiles(dir, clock, mask);
    const reopened = async () => {
      await logs.idle();
      return opened();
    };
    return { logs, reopened };
  };
  return opened();
});

test("A log rings at its limit", async (t) => {
  const logs = new LogFiles(folder(t), () => 7);
  const flood = randomUUID().repeat(400);
  for (let i = 0; i < 1500; i++) {
    logs.append({ ...LINE, text: flood });
    if (i % 50 === 0) await logs.idle();
  }
  await logs.idle();
  const kept = await linesOf(logs);
  assert.ok(kept.length > 100 && kept.join("").length < 20_000_000, "the ring is bounded");
  assert.equal(JSON.parse(kept.at(-1)!).text, flood);
});

test("Who prints more than the disk takes is asked to wait, and lines that come all the same are counted in a line", async (t) => {
  const logs = new LogFiles(folder(t), () => 7);
  const text = "x".repeat(1_000);
  const asked: Promise<void>[] = [];
  let sent = 0;
  for (let bytes = 0; bytes < LOG_PENDING_LAST_BYTES * 1.5; bytes += text.length, sent++) {
    const wait = logs.append({ ...LINE, text });
    if (wait !== undefined) asked.push(wait);
    else assert.ok(bytes <= LOG_PENDING_MAX_BYTES, `asked to wait before ${bytes} bytes`);
  }
  await Promise.all(asked);
  assert.equal(logs.append({ ...LINE, text: "last" }), undefined);
  await logs.idle();
  const texts = await textsOf(logs);
  const leftOut = texts.map((line) => /^\[svc\] (\d+) lines were left out here/.exec(line)?.[1]).filter(Boolean);
  assert.equal(leftOut.length, 1);
  assert.equal(texts.filter((line) => line === text).length + Number(leftOut[0]), sent);
  assert.equal(texts.at(-1), "last");
});

test("Lines that could not be written are counted in a line once others can", async (t) => {
  const dir = folder(t);
  const logs = new LogFiles(dir, () => 7);
  rmSync(dir, { recursive: true });
  writeFileSync(dir, "");
  logs.append({ ...LINE, text: "one\ntwo" });
  await logs.idle();
  rmSync(dir);
  logs.append({ ...LINE, text: "three" });
  await logs.idle();
  const [note, three, ...rest] = await textsOf(logs);
  assert.match(note!, /^\[svc\] 2 lines were left out here/);
  assert.deepEqual([three, rest], ["three", []]);
});

test("A log goes on whose file, or folder, somebody took away", async (t) => {
  const dir = folder(t);
  const logs = new LogFiles(dir, () => 7);
  const print = async (text: string) => {
    logs.append({ ...LINE, text });
    await logs.idle();
  };
  await print("first");
  rmSync(dir, { recursive: true });
  assert.deepEqual(await logs.endpointIds(), []);
  await print("second");
  assert.deepEqual(await textsOf(logs), ["second"]);
  // As a program that rotates logs does when they are large.
  while (statSync(join(dir, "a.ndjson")).size <= LOG_FILE_MAX_BYTES) await print("x".repeat(1_000_000));
  rmSync(join(dir, "a.ndjson"));
  await print("left out");
  await print("third");
  const [note, ...texts] = await textsOf(logs);
  assert.match(note!, /^\[svc\] 1 lines were left out here/);
  assert.deepEqual(texts, ["third"]);
});

test("The file of a log that is forgotten while a line is written does not come back", async (t) => {
  const dir = folder(t);
  const logs = new LogFiles(dir, () => 7);
  for (let n = 0; n < 50; n++) {
    logs.append({ ...LINE, text: "x".repeat(100_000) });
    await logs.forget("a");
    await new Promise((resolve) => setImmediate(resolve));
    assert.equal(existsSync(join(dir, "a.ndjson")), false);
  }
});
