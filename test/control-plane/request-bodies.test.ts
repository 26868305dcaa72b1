/** Bodies of uploads: what their readers are told, and when. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import { type AddressInfo, connect } from "node:net";
import { test } from "node:test";
import { bodyOf } from "../../src/control-plane/http.ts";

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
