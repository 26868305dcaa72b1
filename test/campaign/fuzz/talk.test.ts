/** Each way to talk tells a server that does wrong: one that finds nothing in it would find nothing anywhere. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { type TestContext, test } from "node:test";
import { seededRandom } from "../seeded-random.ts";
import { Mutator } from "./mutate.ts";
import { MANNERS, talk } from "./talk.ts";

const TRIES = 20;
const BYTES = Buffer.from("GET /nothing/0-1 HTTP/1.1\r\n\r\nGET /nothing/0-2 HTTP/1.1\r\n\r\n");

const answer = (status: string, body: string) => `HTTP/1.1 ${status}\r\ncontent-length: ${body.length}\r\n\r\n${body}`;
const nothingAt = (tag: number) => answer("404 Not Found", `{"detail":"There is nothing at GET /nothing/0-${tag}."}`);

/** Answers whatever comes with the same words, and says nothing more. */
async function badServer(t: TestContext, words: string, ends = true): Promise<number> {
  const sockets = new Set<Socket>();
  const server = createServer({ allowHalfOpen: true }, (socket) => {
    sockets.add(socket.on("error", () => {}));
    socket.once("data", () => (ends ? socket.end(words) : socket.write(words)));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return (server.address() as AddressInfo).port;
}

/** What was found in so many conversations of that kind. */
async function found(manner: string, port: number, answerMaxMs: number, tries = TRIES): Promise<string> {
  const all: (string | undefined)[] = [];
  for (let seed = 0; seed < tries; seed++)
    all.push(await talk(BYTES, manner, new Mutator(seededRandom(seed)), { port, answerMaxMs }));
  return all.filter((wrong) => wrong !== undefined).join("\n");
}

// One that reads nothing is there for what it leaves behind, which fuzz.ts looks for.
const reading = Object.entries(MANNERS).filter(([manner]) => manner !== "closed with all answers unread");
for (const [manner, { leaves }] of reading) {
  test(`${manner}: answers of 500, answers out of their order and hanging are found`, async (t) => {
    assert.match(await found(manner, await badServer(t, answer("500 No", "{}")), 30_000), /^HTTP\/1\.1 500 No/);
    const swapped = await badServer(t, nothingAt(2) + nothingAt(1));
    assert.match(await found(manner, swapped, 30_000), /answer 1 came behind answer 2/);
    if (!leaves) {
      assert.match(await found(manner, await badServer(t, nothingAt(1), false), 100, 1), /hangs; so far/);
      assert.equal(await found(manner, await badServer(t, nothingAt(1) + nothingAt(2)), 30_000), "");
    }
  });
}

test("a server that is gone is found", async (t) => {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  t.diagnostic(`port ${port}`);
  assert.match(await found("at once", port, 30_000, 1), /nothing listens/);
});
