import assert from "node:assert/strict";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { connect } from "node:tls";
import { startPlatform, type TestPlatform } from "./platform.ts";

/** The address that workers of other machines dial, as the platform tells it. */
function address({ dataDir }: TestPlatform) {
  const { workersDial } = JSON.parse(readFileSync(path.join(dataDir, "platform.json"), "utf8"));
  const [, port, pin] = /^tls:\/\/127\.0\.0\.1:(\d+)#([0-9a-f]{64})$/.exec(workersDial) ?? [];
  return { port: Number(port), pin };
}

async function presented(port: number): Promise<string> {
  const socket = connect({ port, host: "127.0.0.1", rejectUnauthorized: false });
  await once(socket, "secureConnect");
  const { fingerprint256 } = socket.getPeerCertificate();
  socket.destroy();
  return fingerprint256.replaceAll(":", "").toLowerCase();
}

test("The platform listens for workers of other machines when asked, and keeps its certificate over restarts", async (t) => {
  const first = await startPlatform(t, { SVC_WORKER_LISTEN: "tls://127.0.0.1:0" });
  const before = address(first);
  assert.equal(await presented(before.port), before.pin);
  await first.kill();
  const after = address(await first.restart());
  assert.equal(after.pin, before.pin);
  assert.equal(await presented(after.port), before.pin);
});
