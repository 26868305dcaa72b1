import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { CONTAINER_CALL_MAX_MS, ENGINE_ANSWER_MAX_MS } from "../../src/domain/limits.ts";
import { connectEngine } from "../../src/drivers/docker/engine.ts";

/** A daemon that answers when the test says so. */
async function daemon(t: TestContext) {
  const dir = mkdtempSync(path.join(tmpdir(), "svc-engine-"));
  const asked = { "/_ping": Promise.withResolvers<ServerResponse>(), "/info": Promise.withResolvers<ServerResponse>() };
  const server = createServer((req, res) => asked[req.url as keyof typeof asked].resolve(res));
  t.after(() => {
    server.close().closeAllConnections();
    rmSync(dir, { recursive: true, force: true });
  });
  const socket = path.join(dir, "docker.sock");
  await once(server.listen(socket), "listening");
  process.env.DOCKER_HOST = `unix://${socket}`;
  t.mock.timers.enable({ apis: ["setTimeout"] });
  return asked;
}

test("a daemon that is busy with its containers is waited for, as it says that it is there", async (t) => {
  const asked = await daemon(t);
  const connected = connectEngine(process.env);
  (await asked["/_ping"].promise).end("OK");
  const info = await asked["/info"].promise;
  t.mock.timers.tick(CONTAINER_CALL_MAX_MS - 1);
  info.setHeader("content-type", "application/json");
  info.end(JSON.stringify({ Architecture: "x86_64", Runtimes: { runc: {} } }));
  const { facts } = await connected;
  assert.deepEqual([facts.architecture, facts.runtimes], ["amd64", ["runc"]]);
});

test("a daemon that takes connections and says nothing is given up", async (t) => {
  const asked = await daemon(t);
  const connected = connectEngine(process.env);
  connected.catch(() => {});
  await asked["/_ping"].promise;
  t.mock.timers.tick(ENGINE_ANSWER_MAX_MS);
  await assert.rejects(connected, { code: "ENGINE_UNREACHABLE", message: /it does not answer/ });
});
