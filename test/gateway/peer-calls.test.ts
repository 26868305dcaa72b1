import assert from "node:assert/strict";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import type { LoadBalancedResponse } from "../../src/domain/request.ts";
import { endpoint, startPlatform, WORKER_TOKEN } from "./support.ts";

const AS_WORKER = { authorization: `Bearer ${WORKER_TOKEN}` };

/** "jobs" and "web" in the worker's own environment. */
const endpoints = {
  find: (id: string) => ({
    ...endpoint(id, id === "web" ? "load-balanced" : "queue"),
    environmentId: "env-staging",
  }),
};

async function settled(condition: () => boolean): Promise<void> {
  while (!condition()) await delay(2);
}

test("a job whose caller is a worker marks its endpoint as waited for, until it is answered", async (t) => {
  const platform = await startPlatform(t, { deps: { endpoints } });
  const call = platform.post("/v2/jobs/runsync", { input: {} }, AS_WORKER);
  await settled(() => (platform.linked?.owner ?? platform.gateway).context.peers.waitFor("jobs"));
  assert.equal((platform.linked?.owner ?? platform.gateway).context.peers.waitFor("other"), false);
  platform.work(() => ({ state: "COMPLETED", output: Buffer.from("1") }));
  assert.equal((await call).json.status, "COMPLETED");
  await settled(() => !(platform.linked?.owner ?? platform.gateway).context.peers.waitFor("jobs"));
});

test("so does a request, and a caller that leaves", async (t) => {
  const abort = new AbortController();
  const forward = () => new Promise<LoadBalancedResponse>(() => {});
  const platform = await startPlatform(t, { deps: { endpoints }, forward });
  const request = fetch(`${platform.url}/lb/web/x`, { headers: AS_WORKER, signal: abort.signal });
  await settled(() => (platform.linked?.owner ?? platform.gateway).context.peers.waitFor("web"));
  abort.abort();
  await assert.rejects(request);
});

test("a call with a key marks nothing", async (t) => {
  const platform = await startPlatform(t, { deps: { endpoints } });
  const call = platform.post("/v2/jobs/runsync?wait=1000", { input: {} });
  let waited = false;
  platform.queue.events.jobQueued(() => {
    waited = (platform.linked?.owner ?? platform.gateway).context.peers.waitFor("jobs");
  });
  await call;
  assert.equal(waited, false);
});
