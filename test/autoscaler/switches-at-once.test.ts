import assert from "node:assert/strict";
import { test } from "node:test";
import { decide } from "../../src/autoscaler/decide.ts";
import type { Sample } from "../../src/autoscaler/sample.ts";
import { QUIET } from "./quiet.ts";

const SAVED: Sample = {
  ...QUIET,
  workers: [{ id: "old", current: false, ready: true, busy: true, idleMs: 0 }],
  switchesAtOnce: true,
};

test("an endpoint that switches at once stops workers of earlier code before a new one is ready", () => {
  const { start, stop } = decide(SAVED);
  assert.deepEqual([start, stop], [0, ["old"]]);
  assert.deepEqual(decide({ ...SAVED, switchesAtOnce: false }).stop, []);
});

test("what waits starts a worker of the new code in the same look", () => {
  const { start, stop } = decide({ ...SAVED, queued: 1 });
  assert.deepEqual([start, stop], [1, ["old"]]);
});
