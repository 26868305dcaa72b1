import assert from "node:assert/strict";
import { test } from "node:test";
import { endpointHealth, type HealthFacts } from "../../src/workers/endpoint-health.ts";
import { newEndpoint } from "../conformance/store.ts";

const UNTOUCHED: HealthFacts = {
  image: { progress: [], problem: "", running: false },
  isPrepared: false,
  bootProblem: "",
  isProven: true,
  waits: undefined,
  workers: [],
};

function stateOf(facts: Partial<HealthFacts>): string {
  return endpointHealth(newEndpoint(null, { workersMax: 1 }), () => ({ ...UNTOUCHED, ...facts })).state;
}

test("What has shown that it starts takes calls, also while nothing is prepared since the platform started", () => {
  assert.equal(stateOf({}), "READY");
  assert.equal(stateOf({ image: { ...UNTOUCHED.image, running: true } }), "PREPARING", "its first call came");
  assert.equal(stateOf({ image: { ...UNTOUCHED.image, problem: "no room" } }), "BLOCKED");
});

test("New code is not ready before it has shown that it starts", () => {
  assert.equal(stateOf({ isProven: false }), "PREPARING");
  assert.equal(stateOf({ isProven: false, isPrepared: true }), "PREPARING");
});
