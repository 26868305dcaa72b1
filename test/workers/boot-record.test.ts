import assert from "node:assert/strict";
import { test } from "node:test";
import { BootRecord } from "../../src/workers/boot-record.ts";

test("Each boot that fails doubles the pause before the next, up to a minute; five in a row are unhealthy", () => {
  let now = 0;
  const record = new BootRecord(() => now);
  const pauses: number[] = [];
  for (let failures = 1; failures <= 8; failures++) {
    assert.equal(record.isUnhealthy("r1"), failures > 5);
    record.failed("r1", `failure ${failures}`);
    const failedAt = now;
    while (!record.mayStart("r1")) now += 500;
    pauses.push(now - failedAt);
  }
  assert.deepEqual(pauses, [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]);
  assert.equal(record.reason("r1"), "failure 8");
  assert.equal(record.mayStart("another revision"), true);
});

test("One success clears the record", () => {
  const record = new BootRecord(() => 0);
  for (let failures = 0; failures < 5; failures++) record.failed("r1", "it failed");
  record.forget("r1");
  assert.deepEqual([record.mayStart("r1"), record.isUnhealthy("r1"), record.reason("r1")], [true, false, ""]);
});
