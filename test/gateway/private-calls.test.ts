/** Connections of gateways to the owner's private socket, where the kernel refuses to queue more of them. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from "node:http";
import { type AddressInfo, connect, createServer, Socket } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { PassOn } from "../../src/gateway/pass-on.ts";
import { dialPrivately, PRIVATE_SECRET_BYTES, PrivateCalls } from "../../src/gateway/private-calls.ts";

test("A caller that comes when more connections wait at the owner than are queued there waits for its turn", async (t) => {
  const dir = mkdtempSync(path.join(tmpdir(), "svc-calls-"));
  const socketPath = path.join(dir, "calls.sock");
  const secret = Buffer.alloc(PRIVATE_SECRET_BYTES, 1);
  const accepted = Promise.withResolvers<Socket>();
  const calls = new PrivateCalls(accepted.resolve);
  const server = createServer((socket) => calls.greet(socket, secret));
  server.listen({ path: socketPath, backlog: 1 });
  await once(server, "listening");
  // In one turn: nobody is accepted meanwhile.
  const others = Array.from({ length: 8 }, () => connect(socketPath).on("error", () => {}));
  const refused = new Promise((resolve) => others.at(-1)!.on("close", resolve));
  const caller = Object.defineProperty(new Socket(), "remoteAddress", { value: "10.1.2.3" });
  const dialled = dialPrivately(socketPath, secret, caller);
  t.after(() => {
    for (const socket of [...others, caller]) socket.destroy();
    server.close();
    rmSync(dir, { recursive: true });
  });
  await refused;
  assert.match(String(others.at(-1)!.errored), /EAGAIN/, "the kernel refuses some");
  const socket = await dialled;
  t.after(() => socket.destroy());
  assert.equal((await accepted.promise).remoteAddress, "10.1.2.3");
});

test("Nobody is asked for a caller who left while the owner was looked for", async (t) => {
  const server = createHttpServer().listen(0, "127.0.0.1");
  t.after(() => server.close());
  await once(server, "listening");
  const caller = connect((server.address() as AddressInfo).port, "127.0.0.1");
  caller.write("GET /graphql HTTP/1.1\r\nHost: x\r\n\r\n");
  const [req, res] = (await once(server, "request")) as [IncomingMessage, ServerResponse];
  caller.resetAndDestroy();
  await once(res, "close");
  const dial = () => assert.fail("it was dialled for");
  const log = { error: (what: string) => assert.fail(what) };
  await new PassOn(dial, log).pass(req, res);
});
