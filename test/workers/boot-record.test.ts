import assert from "node:assert/strict";
import { test } from "node:test";
import { BootRecord } from "../../src/workers/boot-record.ts";

const R1 = { id: "e1", revision: "r1" };

test("Each boot that fails doubles the pause before the next, up to a minute; five in a row are unhealthy", () => {
  let now = 0;
  const record = new BootRecord(() => now);
  const pauses: number[] = [];
  for (let failures = 1; failures <= 8; failures++) {
    assert.equal(record.isUnhealthy(R1), failures > 5);
    record.failed(R1, `failure ${failures}`);
    const failedAt = now;
    while (!record.mayStart(R1)) now += 500;
    pauses.push(now - failedAt);
  }
  assert.deepEqual(pauses, [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]);
  assert.equal(record.reason(R1), "failure 8");
  assert.equal(record.mayStart({ ...R1, revision: "r2" }), true);
  assert.equal(record.mayStart({ ...R1, id: "e2" }), true, "the same code in another environment");
});

test("One success clears the record", () => {
  const record = new BootRecord(() => 0);
  for (let failures = 0; failures < 5; failures++) record.failed(R1, "it failed");
  record.forget(R1);
  assert.deepEqual([record.mayStart(R1), record.isUnhealthy(R1), record.reason(R1)], [true, false, ""]);
});
