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
