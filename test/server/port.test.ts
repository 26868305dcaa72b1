/** The port of callers: whose it is, as a start finds it. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { connect, createServer } from "node:net";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { claimPort, heldAddresses, listenAlone, sharedPort } from "../../src/server/port.ts";
import { freePort } from "../free-port.ts";

const HOST = "127.0.0.1";
const SOURCE = path.resolve(import.meta.dirname, "../../python/src");

/** As the launcher of a platform that is away holds it. */
async function held(t: TestContext, port: number): Promise<void> {
  const code = `
import json, sys
from svc._runtime.confine.held_ports import HeldPorts
ports = HeldPorts()
ports.hold(json.loads(sys.argv[1]))
print("held", flush=True)
sys.stdin.read()`;
  const args = ["-c", code, JSON.stringify(heldAddresses(HOST, port))];
  const child = spawn("python3", args, {
    env: { ...process.env, PYTHONPATH: SOURCE },
    stdio: ["pipe", "pipe", "inherit"],
  });
  t.after(() => {
    child.stdin.end();
    return once(child, "exit");
  });
  await once(child.stdout, "data");
}

/** What listens, like a gateway. */
function listener(t: TestContext) {
  const server = createServer();
  t.after(() => server.close());
  return {
    stopListening: () => void server.close(),
    listen: (host: string, port: number, reusePort = false) =>
      new Promise<{ port: number }>((resolve, reject) => {
        server.once("error", reject).listen({ host, port, reusePort }, () => resolve({ port }));
      }),
  };
}

test("a port that this user's launcher holds is free for this user's platform, and not for who shares nothing", async (t) => {
  const port = await freePort();
  await held(t, port);
  assert.equal(await claimPort(HOST, port), port);
  await assert.rejects(listener(t).listen(HOST, port), { code: "EADDRINUSE" });
  assert.deepEqual(await listenAlone(listener(t), HOST, port), { port });
  await assert.rejects(claimPort(HOST, port), { code: "PORT_IN_USE" });
});

test("a port that was free is kept for those who will share it, and one that was asked for is open to callers", async (t) => {
  const { port, letGo } = await sharedPort(HOST, 0);
  await assert.rejects(listener(t).listen(HOST, port), { code: "EADDRINUSE" });
  await listener(t).listen(HOST, port, true);
  letGo();
  const wanted = await freePort();
  const shared = await sharedPort(HOST, wanted);
  t.after(shared.letGo);
  assert.equal(shared.port, wanted);
  // Nobody takes a call there who has no answer.
  const [error] = (await once(connect(wanted, HOST), "error")) as [NodeJS.ErrnoException];
  assert.equal(error.code, "ECONNREFUSED");
});

test("of two platforms that start at once on one port at most one has it", async (t) => {
  const port = await freePort();
  const starts = await Promise.allSettled([1, 2].map(() => listenAlone(listener(t), HOST, port)));
  const failed = starts.filter(({ status }) => status === "rejected");
  assert.ok(failed.length >= 1, JSON.stringify(starts));
  for (const start of failed) assert.equal((start as PromiseRejectedResult).reason.code, "PORT_IN_USE");
});

test("beside the address where the platform listens the launcher holds that of the other family", () => {
  assert.deepEqual(heldAddresses("localhost", 1), [
    ["127.0.0.1", 1],
    ["::1", 1],
  ]);
  assert.deepEqual(heldAddresses("0.0.0.0", 1), [
    ["0.0.0.0", 1],
    ["::", 1],
  ]);
  assert.deepEqual(heldAddresses("10.0.0.1", 1), [["10.0.0.1", 1]]);
  assert.deepEqual(heldAddresses("some.name", 1), []);
});

test("an address that is not this machine's is a mistake in the configuration, said with the setting", async () => {
  for (const host of ["203.0.113.9", "nosuch.invalid"]) {
    const wrong = claimPort(host, 0);
    await assert.rejects(wrong, { code: "CONFIG_INVALID", message: /is no address of this machine/, help: /SVC_HOST/ });
  }
});
