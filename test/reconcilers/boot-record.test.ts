import assert from "node:assert/strict";
import { test } from "node:test";
import { BootRecord } from "../../src/reconcilers/boot-record.ts";

test("Each boot that fails doubles the pause before the next, up to a minute; five in a row are unhealthy", () => {
  let now = 0;
  const record = new BootRecord(() => now);
  const pauses = [];
  for (let failures = 1; failures <= 8; failures++) {
    assert.equal(record.isUnhealthy("r1"), failures > 5);
    record.failed("r1", `failure ${failures}`);
    assert.equal(record.mayStart("r1"), false);
    pauses.push(record.retryAt("r1") - now);
    now = record.retryAt("r1");
    assert.equal(record.mayStart("r1"), true);
  }
  assert.deepEqual(pauses, [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]);
  assert.equal(record.reason("r1"), "failure 8");
  assert.equal(record.mayStart("another revision"), true);
});

test("One success clears the record", () => {
  const record = new BootRecord(() => 0);
  for (let failures = 0; failures < 5; failures++) record.failed("r1", "it failed");
  record.succeeded("r1");
  assert.deepEqual(
    [record.mayStart("r1"), record.isUnhealthy("r1"), record.reason("r1"), record.isProven("r1")],
    [true, false, "", true],
  );
});
