import assert from "node:assert/strict";
import { test } from "node:test";
import { readConfig } from "../../src/server/config.ts";

test("Nothing listens beyond this machine unless asked", () => {
  assert.equal(readConfig({ SVC_DATA_DIR: "/d" }).host, "127.0.0.1");
});

test("Every wrong key is named at once", () => {
  assert.throws(() => readConfig({ SVC_DATA_DIR: "/d", SVC_PORT: "x", SVC_DURABILITY: "maybe" }), {
    code: "CONFIG_INVALID",
    message: /SVC_PORT.*SVC_DURABILITY/s,
  });
});

test("An empty variable counts as not set", () => {
  assert.equal(readConfig({ SVC_DATA_DIR: "/d", SVC_PORT: "" }).port, 7878);
});

test("Rate limits are off, as documented, or as named", () => {
  const limits = (text?: string) => readConfig({ SVC_DATA_DIR: "/d", SVC_RATE_LIMITS: text }).rateLimits;
  assert.equal(limits(), undefined);
  assert.equal(limits("0"), undefined);
  assert.equal(limits("1")?.run, 1000);
  assert.deepEqual([limits("run=5, purge=1")?.run, limits("run=5,purge=1")?.cancel], [5, 100]);
  assert.throws(() => limits("walk=5"), {
    code: "CONFIG_INVALID",
    message: /SVC_RATE_LIMITS.*"walk=5".*the classes are run/,
  });
});
