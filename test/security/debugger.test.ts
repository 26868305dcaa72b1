/** Node opens a debugger on SIGUSR1, which other programs take as "open your log anew": no key is asked there, and workers share the platform's loopback. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { connect } from "node:net";
import path from "node:path";
import { test } from "node:test";
import { startSvcRun } from "../dev/svc-run.ts";
import { project, startPlatform } from "../e2e/platform.ts";
import { eventually } from "../eventually.ts";
import { freePort } from "../free-port.ts";

function listens(port: number): Promise<boolean> {
  const socket = connect(port, "127.0.0.1");
  return new Promise<boolean>((resolve) => {
    socket.once("connect", () => resolve(true)).once("error", () => resolve(false));
  }).finally(() => socket.destroy());
}

test("a signal opens no debugger of the platform, of its gateways, nor of a command", async (t) => {
  const port = await freePort();
  const env = { NODE_OPTIONS: `--inspect-port=${port}` };
  const platform = await startPlatform(t, { ...env, SVC_GATEWAYS: "1" });
  const code = 'from svc import Endpoint\n\n@Endpoint(name="hello")\ndef hello(): ...\n';
  const command = await startSvcRun(t, platform, project(t, { "worker.py": code }), [], env);
  const record = () => JSON.parse(readFileSync(path.join(platform.dataDir, "platform.json"), "utf8"));
  const gateways = await eventually(() => {
    const { pids } = record().gateways;
    assert.equal(pids.length, 1);
    return pids as number[];
  });
  for (const pid of [platform.pid, ...gateways, command.pid]) {
    process.kill(pid, "SIGUSR1");
    // It would be there long before so many answers are.
    for (let n = 0; n < 50; n++) {
      await fetch(pid === command.pid ? command.url : `${platform.url}/v2/none/health`);
      assert.equal(await listens(port), false);
    }
  }
});
