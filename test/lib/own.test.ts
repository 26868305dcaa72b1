import assert from "node:assert/strict";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { lineWriter } from "../../src/lib/log.ts";
import { createOwner } from "../../src/lib/own.ts";

test("a failure that nobody awaited is logged once a minute for each cause, and one that is expected never", async () => {
  const logged: string[] = [];
  let now = 0;
  const expected = new Error("said elsewhere");
  const own = createOwner(
    { error: (message) => logged.push(message) },
    (error) => error === expected,
    () => now,
  );
  const fail = async (what: string, error: Error) => {
    const work = Promise.reject(error);
    own(what, work);
    await work.catch(() => {});
  };
  await fail("sweeping", new Error("x"));
  await fail("sweeping", new Error("x"));
  await fail("sweeping", new Error("y"));
  await fail("sweeping", expected);
  now = 60_000;
  await fail("sweeping", new Error("x"));
  assert.deepEqual(logged, ["sweeping failed", "sweeping failed", "sweeping failed"]);
});

test("a line of the log that cannot be written ends nothing and comes before the next that can", (t) => {
  const dir = mkdtempSync(path.join(tmpdir(), "svc-lines-"));
  t.after(() => rmSync(dir, { recursive: true }));
  const file = path.join(dir, "log");
  const fd = openSync(file, "w");
  closeSync(fd);
  const write = lineWriter(fd, 20);
  write("too old\n");
  write("first\n");
  write("second\n");
  const again = openSync(file, "w"); // The same number: it is the lowest that is free.
  t.after(() => closeSync(again));
  assert.equal(again, fd);
  write("third\n");
  assert.equal(readFileSync(file, "utf8"), "first\nsecond\nthird\n");
});
