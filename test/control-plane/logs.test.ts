import assert from "node:assert/strict";
import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { LogFiles } from "../../src/logs/log-files.ts";

test("What workers print is kept by endpoint, with job and worker, and rings at its limit", async (t) => {
  const dir = mkdtempSync(join(tmpdir(), "svc-logs-"));
  t.after(() => rmSync(dir, { recursive: true, force: true }));
  const logs = new LogFiles(dir, () => 7);
  const followed: string[] = [];
  const stop = logs.follow("a", (lines) => followed.push(...lines));
  const line = { endpointId: "a", workerId: "w", jobId: "j", stream: "stdout" as const };
  logs.append({ ...line, text: "one\ntwo\n" });
  logs.append({ ...line, endpointId: "b", text: "elsewhere" });
  await logs.idle();
  stop();
  assert.deepEqual(
    (await logs.read("a")).map((text) => JSON.parse(text)),
    ["one", "two"].map((text) => ({ at: 7, worker: "w", job: "j", stream: "stdout", text })),
  );
  assert.deepEqual(followed, await logs.read("a"));

  const flood = randomUUID().repeat(400);
  for (let i = 0; i < 1500; i++) {
    logs.append({ ...line, text: flood });
    if (i % 50 === 0) await logs.idle();
  }
  await logs.idle();
  const kept = await logs.read("a");
  assert.ok(kept.length > 100 && kept.join("").length < 20_000_000, "the ring is bounded");
  assert.equal(JSON.parse(kept.at(-1)!).text, flood);
});
