import assert from "node:assert/strict";
import { test } from "node:test";
import { randomId } from "../../src/control-plane/ids.ts";
import { isReservedId } from "../../src/domain/names.ts";
import { echo, RawConnection, startPlatform, WORKER_TOKEN } from "./support.ts";

const TIMING = { queueMs: 0, bootMs: 0, importMs: 0, execMs: 0 };
const NAME = { "x-flash-app": "shop", "x-flash-environment": "production", "x-flash-endpoint": "jobs" };

test("a call by name reaches the endpoint that the three headers say, on every route of its jobs", async (t) => {
  const platform = await startPlatform(t);
  platform.work(echo);
  const done = await platform.post("/v2/flash/runsync?wait=90000", { input: { text: "a" } }, NAME);
  assert.deepEqual([done.status, done.json.status, done.json.output], [200, "COMPLETED", { text: "a" }]);
  const { json } = await platform.post("/v2/flash/run", { input: {} }, NAME);
  assert.equal(json.status, "IN_QUEUE");
  const followed = await platform.get(`/v2/flash/status-sync/${json.id}`, NAME);
  assert.deepEqual([followed.json.id, followed.json.status], [json.id, "COMPLETED"]);
  // It is the endpoint itself: its id says the same.
  assert.equal((await platform.get(`/v2/jobs/status/${json.id}`)).json.status, "COMPLETED");
});

test("what a call by name cannot find is a 404 that repeats the names, and what it lacks a 400", async (t) => {
  const platform = await startPlatform(t);
  for (const [header, value] of [
    ["x-flash-app", "other"],
    ["x-flash-environment", "staging"],
    ["x-flash-endpoint", "nothing"],
    ["x-flash-endpoint", "../jobs"],
  ]) {
    const { status, json } = await platform.post("/v2/flash/runsync", { input: {} }, { ...NAME, [header!]: value! });
    assert.deepEqual([status, json.code], [404, "ENDPOINT_NOT_FOUND"], json.detail);
    assert.ok(json.detail.includes(JSON.stringify(value)), json.detail);
  }
  for (const header of Object.keys(NAME)) {
    const { status, json } = await platform.post("/v2/flash/runsync", { input: {} }, { ...NAME, [header]: " " });
    assert.deepEqual([status, json.code], [400, "BAD_INPUT"]);
    assert.match(json.detail, /X-Flash-App, X-Flash-Environment, X-Flash-Endpoint/);
  }
  const balanced = await platform.post("/v2/flash/runsync", { input: {} }, { ...NAME, "x-flash-endpoint": "web" });
  assert.equal(balanced.json.code, "WRONG_ENDPOINT_KIND");
});

test("a call by name needs the rights of a call by id, and a bound key learns nothing of other places", async (t) => {
  const platform = await startPlatform(t);
  const as = (key: string, headers = NAME) =>
    platform.post("/v2/flash/run", { input: {} }, { ...headers, authorization: `Bearer ${key}` });
  assert.equal((await as("svc_wrong")).status, 401);
  assert.equal((await as("svc_read-only")).status, 403);
  assert.equal((await as("svc_invoke-only")).status, 200);
  const foreign = await as(WORKER_TOKEN);
  const unknown = await as(WORKER_TOKEN, { ...NAME, "x-flash-endpoint": "nothing" });
  assert.deepEqual([foreign.status, unknown.status], [404, 404]);
  assert.equal(foreign.json.detail.replace('"jobs"', '"nothing"'), unknown.json.detail);
});

test("a load-balanced endpoint is called by name at flash.<domain>", async (t) => {
  const seen: string[] = [];
  const platform = await startPlatform(t, {
    settings: { domain: "svc.example" },
    forward: async ({ endpointId, path, query }) => {
      seen.push(`${endpointId} ${path}?${query}`);
      return { status: 200, headers: [], body: Buffer.from("ok"), workerId: "w-1", timing: TIMING };
    },
  });
  const connection = new RawConnection(platform.port);
  const headers = Object.entries({ ...NAME, "x-flash-endpoint": "web", host: "flash.svc.example" });
  const lines = headers.map(([name, value]) => `${name}: ${value}\r\n`).join("");
  connection.write(`GET /a/b?c=d HTTP/1.1\r\n${lines}authorization: Bearer svc_invoke-only\r\n\r\n`);
  assert.match(await connection.until(/ok$/), /^HTTP\/1.1 200/);
  assert.deepEqual(seen, ["web /a/b?c=d"]);
  connection.socket.destroy();
});

test("paths of the management API below /v2 are no endpoint's, and no endpoint gets an id like them", async (t) => {
  const platform = await startPlatform(t);
  for (const id of ["serverless", "templates", "network-volumes", "catalog"]) {
    assert.equal((await platform.get(`/v2/${id}`)).text, "fallback");
    assert.equal((await platform.post(`/v2/${id}/run`)).text, "fallback");
  }
  for (let i = 0; i < 1000; i++) {
    const id = randomId((bytes) => crypto.getRandomValues(new Uint8Array(bytes)));
    assert.match(id, /^[a-z][a-z0-9]{13}$/);
    assert.ok(!isReservedId(id));
  }
});
