import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { readFileSync, statSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { text } from "node:stream/consumers";
import { type TestContext, test } from "node:test";
import { project, startPlatform } from "./platform.ts";

const WORKER = `
from svc import Endpoint

@Endpoint(name="hello", workers=(0, 1))
def hello(name):
    return f"Hello, {name}!"
`;

async function receiver(t: TestContext) {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`,
    next: async () => {
      const [req, res] = (await once(server, "request")) as [IncomingMessage, ServerResponse];
      return { signature: String(req.headers["x-svc-signature"]), body: await text(req), res };
    },
  };
}

test("a webhook tells the final job, signed with the platform's secret; a SIGKILL of the platform only delays it", async (t) => {
  const platform = await startPlatform(t, { SVC_WEBHOOK_PRIVATE: "1" });
  const deploy = await platform.svc(["deploy"], { cwd: project(t, { "worker.py": WORKER }) });
  assert.equal(deploy.code, 0, deploy.stderr);
  const [endpoint] = await platform.endpoints();
  const hook = await receiver(t);
  const first = hook.next();
  const body = { input: { name: "Ada" }, webhook: hook.url };
  const { json: run } = await platform.call(`${endpoint!.url}/run`, { body });
  const cut = await first;
  const next = hook.next();
  await platform.kill();
  cut.res.destroy();

  await platform.restart();
  const told = await next;
  told.res.end();
  const { delayTime, executionTime, workerId, ...job } = JSON.parse(told.body);
  assert.deepEqual(job, { id: run.id, status: "COMPLETED", output: "Hello, Ada!", ...body });
  assert.ok(Number.isInteger(delayTime) && Number.isInteger(executionTime) && workerId !== "");

  const file = path.join(platform.dataDir, "webhook-secret");
  assert.equal(statSync(file).mode & 0o777, 0o600);
  const seconds = /^t=(\d+),v1=/.exec(told.signature)![1];
  const mac = createHmac("sha256", readFileSync(file, "utf8").trim()).update(`${seconds}.${told.body}`).digest("hex");
  assert.equal(told.signature, `t=${seconds},v1=${mac}`);
});
