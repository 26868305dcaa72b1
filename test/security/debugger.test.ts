/** Node opens a debugger on SIGUSR1, which other programs take as "open your log anew": no key is asked there, and workers share the platform's loopback. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import path from "node:path";
import { test } from "node:test";
import { startPlatform } from "../e2e/platform.ts";
import { eventually } from "../eventually.ts";
import { freePort } from "../free-port.ts";

function listens(port: number): Promise<boolean> {
  const socket = connect(port, "127.0.0.1");
  return new Promise<boolean>((resolve) => {
    socket.once("connect", () => resolve(true)).once("error", () => resolve(false));
  }).finally(() => socket.destroy());
}

test("a signal opens no debugger of the platform, nor of its gateways", async (t) => {
  const port = await freePort();
  const platform = await startPlatform(t, { NODE_OPTIONS: `--inspect-port=${port}`, SVC_GATEWAYS: "1" });
  const record = () => JSON.parse(readFileSync(path.join(platform.dataDir, "platform.json"), "utf8"));
  const gateways = await eventually(() => {
    const { pids } = record().gateways;
    assert.equal(pids.length, 1);
    return pids as number[];
  });
  for (const pid of [platform.pid, ...gateways]) {
    process.kill(pid, "SIGUSR1");
    // It would be there long before so many answers are.
    for (let n = 0; n < 50; n++) {
      await platform.call(`${platform.url}/v2/none/health`);
      assert.equal(await listens(port), false);
    }
  }
});
