/** Connections of which nothing more is wanted: they end, whatever their peers do. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { Readable } from "node:stream";
import { test } from "node:test";
import type { LoadBalancedResponse } from "../../src/domain/request.ts";
import { KEY, RawConnection, startPlatform } from "./support.ts";

const UPGRADE = "Host: x\r\nConnection: upgrade\r\nUpgrade: websocket\r\n";
const AUTH = `Authorization: Bearer ${KEY}\r\n`;

for (const [title, bytes, answer] of [
  ["another version of HTTP", "GET / HTTP/2.0\r\nHost: x\r\n\r\n", /^HTTP\/1.1 400 /],
  ["an upgrade without a key", `GET /lb/web/talk HTTP/1.1\r\n${UPGRADE}\r\n`, /^HTTP\/1.1 401 /],
  ["an upgrade of what is not there", `GET /nothing HTTP/1.1\r\n${UPGRADE}${AUTH}\r\n`, /^HTTP\/1.1 404 /],
  ["an upgrade that the function ends", `GET /lb/web/talk HTTP/1.1\r\n${UPGRADE}${AUTH}\r\n`, /^HTTP\/1.1 101 .*bye$/s],
] as const)
  test(`a peer who never closes is cut: ${title}`, { timeout: 120_000 }, async (t) => {
    const forward = async (): Promise<LoadBalancedResponse> => ({
      status: 101,
      headers: [],
      body: Readable.from([Buffer.from("bye")]),
      workerId: "w-5",
      timing: { queueMs: 0, bootMs: 0, importMs: 0, execMs: 0 },
    });
    const platform = await startPlatform(t, { forward });
    const raw = new RawConnection(platform.port);
    const isCut = new Promise((resolve) => raw.socket.once("close", resolve));
    raw.write(bytes);
    await once(raw.socket, "end");
    assert.match(raw.text, answer);
    // What comes behind the end is dropped, until there is nobody any more.
    const more = setInterval(() => raw.write("more"), 50);
    t.after(() => clearInterval(more));
    await isCut;
    assert.equal((await platform.get("/v2/jobs/health")).status, 200);
  });
