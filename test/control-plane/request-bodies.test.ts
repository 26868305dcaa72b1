/** Bodies of uploads: what their readers are told, and when. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { test } from "node:test";
import { bodyOf, readJsonObject, sendError, sendJson } from "../../src/control-plane/http.ts";
import { SvcError } from "../../src/domain/errors.ts";
import { ArrivalBudget } from "../../src/lib/arrival-budget.ts";
import { eventually } from "../eventually.ts";

test("Who breaks off before the body is read ends nobody but its own upload: its reader is told when it reads", async (t) => {
  const server = createServer();
  t.after(() => server.close());
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const caller = connect((server.address() as AddressInfo).port, "127.0.0.1");
  caller.write("PUT / HTTP/1.1\r\nhost: here\r\ncontent-length: 1000\r\n\r\na beginning");
  const [request] = (await once(server, "request")) as [IncomingMessage];
  const body = bodyOf(request);
  const gone = new Promise((resolve) => body.on("close", resolve));
  caller.destroy();
  await gone;
  await assert.rejects(body.toArray(), /aborted/);
});

test("Bodies of the management API share a bound; one that stops in the middle makes room for others when it had its time", async (t) => {
  let now = 0;
  const budget = new ArrivalBudget({
    ...{ maxBytes: 100, wholeMaxBytes: 60, arrivesMaxMs: 1_000, bytesPerMs: 1_000, now: () => now },
    full: () => new SvcError("RATE_LIMITED", "full"),
    slow: () => new SvcError("SLOW_REQUEST", "slow"),
  });
  const server = createServer((request, response) => {
    readJsonObject(request, 90, budget).then(
      (value) => sendJson(response, 200, value),
      (error) => sendError(response, error),
    );
  });
  t.after(() => server.close());
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const post = async (isShort = false) => {
    const text = JSON.stringify({ text: "x".repeat(40) });
    // What comes without a length may be long.
    const init: object = { method: "POST", body: isShort ? text : new Blob([text]).stream(), duplex: "half" };
    const answer = await fetch(`http://127.0.0.1:${port}`, init);
    await answer.text();
    return answer.status;
  };
  const slow = connect(port, "127.0.0.1");
  t.after(() => slow.destroy());
  let said = "";
  slow.on("data", (data) => {
    said += data;
  });
  slow.write(`POST / HTTP/1.1\r\nhost: here\r\ncontent-length: 80\r\n\r\n${" ".repeat(60)}`);
  await eventually(() => assert.equal(budget.usedBytes, 60));
  assert.deepEqual([await post(), await post(true)], [429, 200]);
  now = 1_001;
  assert.equal(await post(), 200);
  await eventually(() => assert.match(said, /^HTTP\/1\.1 408 .*"SLOW_REQUEST"/s));
  assert.equal(budget.usedBytes, 0);
  assert.equal(await post(), 200);
});
