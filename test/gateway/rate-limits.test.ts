import assert from "node:assert/strict";
import { test } from "node:test";
import { RATE_LIMITS_DEFAULT, RateLimiter } from "../../src/gateway/rate-limits.ts";
import { startPlatform } from "./support.ts";

test("the calls of an endpoint's route are limited per ten seconds, and Retry-After says when to come back", async (t) => {
  let now = 1_000_003_000;
  const platform = await startPlatform(t, {
    settings: { rateLimits: { ...RATE_LIMITS_DEFAULT, purge: 2 } },
    deps: { monotonic: () => now },
  });
  const purge = (endpoint = "jobs") => platform.post(`/v2/${endpoint}/purge-queue`);
  assert.equal((await purge()).status, 200);
  assert.equal((await purge()).status, 200);
  const refused = await purge();
  assert.deepEqual([refused.status, refused.json.code], [429, "RATE_LIMITED"]);
  assert.equal(refused.headers.get("retry-after"), "7");
  assert.match(refused.json.detail, /at most 2 purge calls in 10 s/);
  assert.equal((await purge("other")).status, 200, "another endpoint has its own count");
  assert.equal((await platform.get("/v2/jobs/requests")).status, 200, "another route has its own count");
  now += 7000;
  assert.equal((await purge()).status, 200, "a new window begins");
});

test("calls are not limited unless that is configured", async (t) => {
  const platform = await startPlatform(t);
  for (let i = 0; i < 5; i++) assert.equal((await platform.post("/v2/jobs/purge-queue")).status, 200);
});

test("a call without a valid key does not count", async (t) => {
  const platform = await startPlatform(t, { settings: { rateLimits: { ...RATE_LIMITS_DEFAULT, purge: 1 } } });
  for (let i = 0; i < 3; i++) {
    assert.equal((await platform.post("/v2/jobs/purge-queue", {}, { authorization: "Bearer wrong" })).status, 401);
  }
  assert.equal((await platform.post("/v2/jobs/purge-queue")).status, 200);
});

test("the default limits are those of the job API", () => {
  assert.deepEqual(RATE_LIMITS_DEFAULT, {
    run: 1000,
    runsync: 2000,
    status: 2000,
    stream: 2000,
    cancel: 100,
    purge: 2,
    requests: 10,
  });
  const limiter = new RateLimiter(RATE_LIMITS_DEFAULT, () => 0);
  for (let i = 0; i < 1000; i++) limiter.take("e", "run");
  assert.throws(() => limiter.take("e", "run"), { code: "RATE_LIMITED", retryAfterS: 10 });
});
