/** An engine that takes connections and does not answer: a played one, with the client that the driver has. */
import assert from "node:assert/strict";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import type { Socket } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { mock, type TestContext, test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import Docker from "dockerode";
import { CONTAINER_CALL_MAX_MS } from "../../src/domain/limits.ts";
import type { StartHead } from "../../src/domain/worker-protocol.ts";
import { PullContainer } from "../../src/drivers/docker/pull-container.ts";
import { WorkerGroup } from "../../src/drivers/docker/worker-group.ts";

const SHARE = { memoryBytes: 2 ** 30, vcpus: 1 };
const PLAN = {
  ...{ name: "svc-test", imageId: "sha256:1", network: "svc", runtime: "", labels: {} },
  ...{ mounts: [], extraHosts: [], share: SHARE, gpus: false },
};
const EVENTS = { exited: () => assert.fail(), printed: () => assert.fail() };
const UPGRADED = "HTTP/1.1 101 UPGRADED\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n";

// For the whole file: what one test left may be cleared in the next.
mock.timers.enable({ apis: ["setTimeout"] });

/** Answers all but the call that is `held`, until it is let go. Time passes when the test says so. */
async function playedEngine(t: TestContext, held: string) {
  const dir = mkdtempSync(path.join(tmpdir(), "svc-engine-"));
  const calls: string[] = [];
  const sockets = new Set<Socket>();
  let letGo = () => {};
  const heard = (method = "", url = "", answer: () => void) => {
    const call = `${method} ${url.replace(/^\/v[\d.]+/, "").replace(/\?.*/, "")}`;
    calls.push(call);
    if (call === held) letGo = answer;
    else answer();
  };
  const server = createServer((request, response) => {
    request.resume();
    heard(request.method, request.url, () => {
      if (request.url?.includes("/wait")) return;
      if (!request.url?.includes("/create")) response.writeHead(204).end();
      else response.writeHead(201, { "content-type": "application/json" }).end(JSON.stringify({ Id: "c1" }));
    });
  });
  server.on("upgrade", ({ method, url }, socket) => {
    socket.on("error", () => {});
    heard(method, url, () => socket.write(UPGRADED));
  });
  server.on("connection", (socket) => sockets.add(socket));
  const socketPath = path.join(dir, "engine.sock");
  await new Promise<void>((resolve) => server.listen(socketPath, resolve));
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
    rmSync(dir, { recursive: true });
  });
  const called = async (call: string) => {
    while (!calls.includes(call)) await turn();
  };
  /** It does not answer for as long as is waited for it. */
  const hangs = async () => {
    await called(held);
    mock.timers.tick(CONTAINER_CALL_MAX_MS);
  };
  return { engine: new Docker({ socketPath }), called, hangs, letGo: () => letGo() };
}

const MAKING = ["POST /containers/create", "POST /containers/c1/attach", "POST /containers/c1/start"];
const SILENT = { code: "ENGINE_UNREACHABLE", message: /cannot be started: it does not answer/ };

for (const held of MAKING) {
  test(`An engine that does not answer "${held}" gives the start up, and what it makes later is removed`, async (t) => {
    const { engine, called, hangs, letGo } = await playedEngine(t, held);
    const faults: unknown[] = [];
    let over = 0;
    const nothing = () => {};
    const group = new WorkerGroup({
      ...{ engine, zygote: "z", share: SHARE, socket: "/run/svc.sock" },
      own: (_what, work) => void work.catch((error) => faults.push(error)),
      events: {
        ...{ survived: nothing, started: nothing, exited: nothing, bootFailed: nothing, log: nothing },
        over: () => over++,
      },
    });
    group.launch(Promise.resolve(), { ...PLAN, python: "python3", user: "0:0", hostUsers: false });
    const started = group.start({ worker: "w-1" } as StartHead);
    started.catch(nothing);
    await hangs();
    await assert.rejects(started, SILENT);
    assert.deepEqual([over, [...group.workers], faults], [1, [], []], "the next start makes another container");
    letGo();
    await called("DELETE /containers/c1");
    await group.remove();
  });
}

for (const held of MAKING.filter((call) => !call.includes("attach"))) {
  test(`The same of a container that is an image's own program: "${held}"`, async (t) => {
    const { engine, called, hangs, letGo } = await playedEngine(t, held);
    const container = new PullContainer("w-1", EVENTS, assert.fail);
    const launched = container.launch(engine, { ...PLAN, entrypoint: [], command: [], env: {} });
    launched.catch(() => {});
    await hangs();
    await assert.rejects(launched, SILENT);
    letGo();
    await called("DELETE /containers/c1");
  });
}

test("A platform that stops does not wait for an engine that does not answer a removal", async (t) => {
  const { engine, hangs } = await playedEngine(t, "DELETE /containers/c1");
  const container = new PullContainer("w-1", EVENTS, (_what, work) => {
    work.catch(() => {}); // What it prints, and its end, are of no interest here.
  });
  await container.launch(engine, { ...PLAN, entrypoint: [], command: [], env: {} });
  const removed = container.remove();
  await hangs();
  await removed;
});
