import assert from "node:assert/strict";
import { test } from "node:test";
import { DECISIONS_KEPT } from "../../src/domain/limits.ts";
import { DecisionLog } from "../../src/workers/decision-log.ts";

test("the newest decisions are kept, and one that repeats itself counts once", () => {
  const kept: unknown[] = [];
  const log = new DecisionLog({ recentDecisions: () => [], decided: (...noted) => void kept.push(noted) });
  const decision = (at: number, reason: string) => ({ at, start: 1, stop: 0, reason });
  log.note("a", decision(1, "1 waiting"));
  log.note("a", decision(2, "1 waiting"));
  log.note("b", decision(3, "other"));
  assert.deepEqual(log.of("a"), [{ at: 2, start: 1, stop: 0, reason: "1 waiting", times: 2 }]);
  for (let i = 0; i < DECISIONS_KEPT + 5; i++) log.note("a", decision(i, `${i} waiting`));
  assert.equal(log.of("a").length, DECISIONS_KEPT);
  assert.equal(log.of("a").at(-1)!.reason, `${DECISIONS_KEPT + 4} waiting`);
  assert.deepEqual(kept[1], ["a", { at: 2, start: 1, stop: 0, reason: "1 waiting", times: 2 }]);
  log.forget("a");
  assert.deepEqual(log.of("a"), []);
  assert.equal(log.of("b").length, 1);
});

test("decisions of an earlier run of the platform are there, and go on being counted", () => {
  const before = { at: 1, start: 0, stop: 0, reason: "waits for 2 vCPU", times: 7 };
  const log = new DecisionLog({ recentDecisions: () => [before], decided: () => {} });
  assert.deepEqual(log.of("a"), [before]);
  log.note("a", { at: 9, start: 0, stop: 0, reason: "waits for 2 vCPU" });
  assert.deepEqual(log.of("a"), [{ ...before, at: 9, times: 8 }]);
});
