import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:net";
import { test } from "node:test";
import { type Listening, listen } from "../../src/dev/listen.ts";

const open = (host: string, port: number, busy: string[] = []): Promise<Listening> =>
  listen({
    host,
    port,
    onBusy: (message) => busy.push(message),
    onRequest: (_req, res) => res.end("here"),
    onUpgrade: (_req, socket) => socket.destroy(),
  });

test("localhost answers on 127.0.0.1, and a busy port is passed over with the message for each", async (t) => {
  const first = await open("localhost", 0);
  t.after(() => first.close());
  const messages: string[] = [];
  const second = await open("localhost", first.port, messages);
  t.after(() => second.close());
  assert.equal(await (await fetch(`http://127.0.0.1:${second.port}`)).text(), "here");
  const passed = Array.from({ length: second.port - first.port }, (_, i) => first.port + i);
  assert.deepEqual(
    messages,
    passed.map((port) => `Port ${port} is in use, using ${port + 1} instead`),
  );
});

test("a port that only the other address of localhost uses is in use", async (t) => {
  const other = createServer().listen(0, "::1");
  const [, failed] = await Promise.race([once(other, "listening"), once(other, "error").then(() => [0, true])]);
  if (failed) return t.skip("this machine has no IPv6");
  t.after(() => other.close());
  const { port } = other.address() as { port: number };
  const messages: string[] = [];
  const server = await open("localhost", port, messages);
  t.after(() => server.close());
  assert.equal(messages[0], `Port ${port} is in use, using ${port + 1} instead`);
});

test("an address that is not this machine's is refused with what to do", async () => {
  await assert.rejects(open("203.0.113.7", 0), {
    code: "CONFIG_INVALID",
    message: /^203\.0\.113\.7 is no address of this machine/,
  });
});
