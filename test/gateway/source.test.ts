import assert from "node:assert/strict";
import { once } from "node:events";
import { type TestContext, test } from "node:test";
import type { LoadBalancedRequest } from "../../src/domain/request.ts";
import { echo, endpoint, KEY, RawConnection, startPlatform } from "./support.ts";

const NEW = "a".repeat(64);
const OLD = "b".repeat(64);

/** Endpoints that run code of the layer NEW; what reaches load-balanced workers is kept. */
async function start(t: TestContext) {
  const endpoints = new Map(
    [endpoint("jobs", "queue"), endpoint("web", "load-balanced")].map((one) => [one.id, { ...one, buildId: "b-1" }]),
  );
  const seen: LoadBalancedRequest[] = [];
  const platform = await startPlatform(t, {
    forward: (request) => {
      seen.push(request);
      const timing = { queueMs: 0, bootMs: 0, importMs: 0, execMs: 0 };
      return Promise.resolve({ status: 200, headers: [], body: Buffer.from("ok"), workerId: "w-1", timing });
    },
    bootOf: () => ({ startedAt: Date.now() + 1000, bootMs: 9.5, importMs: 20 }),
    deps: {
      endpoints: { find: (id) => endpoints.get(id) },
      sourceOf: async (buildId) => (buildId === "b-1" ? NEW : undefined),
      workers: {
        counts: () => ({ idle: 0, initializing: 0, ready: 0, running: 0, throttled: 0, unhealthy: 0 }),
        health: () => ({ state: "READY", reason: "", progress: [] }),
      },
    },
  });
  return { platform, seen };
}

test("a call that names the source layer the endpoint runs goes on; the header stays with the platform", async (t) => {
  const { platform, seen } = await start(t);
  platform.work(echo);
  const job = await platform.post("/v2/jobs/runsync", { input: { a: 1 } }, { "x-svc-source": NEW });
  assert.deepEqual(job.json.output, { a: 1 });
  assert.equal((await platform.get("/lb/web/x", { "x-svc-source": NEW })).text, "ok");
  assert.ok(!seen[0]!.headers.some(([name]) => name === "x-svc-source"));
});

test("a call that names another source layer is refused with SOURCE_OUTDATED, and nothing runs", async (t) => {
  const { platform, seen } = await start(t);
  for (const route of ["/v2/jobs/run", "/v2/jobs/runsync", "/lb/web/x"]) {
    const { status, json } = await platform.post(route, { input: {} }, { "x-svc-source": OLD });
    assert.deepEqual([status, json.code], [409, "SOURCE_OUTDATED"], route);
  }
  assert.equal((await platform.queue.counts("jobs")).inQueue, 0);
  assert.deepEqual(seen, []);
});

test("a caller that would be refused keeps its body: it is not asked to go on", async (t) => {
  const { platform } = await start(t);
  const head = (source: string) =>
    `POST /lb/web/x HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${KEY}\r\nExpect: 100-continue\r\n` +
    `Transfer-Encoding: chunked\r\nX-Svc-Source: ${source}\r\n\r\n`;
  const refused = new RawConnection(platform.port).write(head(OLD));
  const text = await refused.until(/SOURCE_OUTDATED/);
  assert.ok(text.startsWith("HTTP/1.1 409"), text);
  refused.socket.destroy();
  const accepted = new RawConnection(platform.port).write(head(NEW));
  await accepted.until(/^HTTP\/1\.1 100 Continue/);
  accepted.socket.destroy();
  await once(accepted.socket, "close");
});

test("the answer of /runsync says in Server-Timing where its time went", async (t) => {
  const { platform } = await start(t);
  platform.work(echo);
  const { headers } = await platform.post("/v2/jobs/runsync", { input: {} });
  assert.match(headers.get("server-timing")!, /^queue;dur=\d+, boot;dur=9\.5, import;dur=20, exec;dur=\d+$/);
});
