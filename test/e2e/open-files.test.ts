/** A real platform that may open hardly any further file. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { project, startPlatform } from "./platform.ts";

const skip = process.platform === "linux" ? false : "needs /proc and prlimit";
const SPARE = 30;
const IDLE = 60;

test("a platform without a free file descriptor lives on, loses no job, and heals by itself", { skip }, async (t) => {
  const platform = await startPlatform(t);
  const code = `from svc import Endpoint

@Endpoint(name="large", workers=(1, 1))
def large(size):
    return "x" * size
`;
  const deploy = await platform.svc(["deploy"], { cwd: project(t, { "worker.py": code }) });
  assert.equal(deploy.code, 0, deploy.stderr);
  const [endpoint] = await platform.endpoints();
  const call = (size: number) => platform.call(`/v2/${endpoint!.id}/runsync`, { body: { input: { size } } });
  assert.equal((await call(10)).status, 200);

  const open = readdirSync(`/proc/${platform.pid}/fd`).length;
  execFileSync("prlimit", ["--pid", String(platform.pid), `--nofile=${open + SPARE}:${open + SPARE}`]);
  const { hostname, port } = new URL(platform.url);
  const idle: Socket[] = [];
  t.after(() => {
    for (const socket of idle) socket.destroy();
  });
  for (let n = 0; n < IDLE; n++) idle.push(connect(Number(port), hostname).on("error", () => {}));
  // On the connection that is there already, or on none: whatever is answered, it is no silence and no defect.
  const answers = await Promise.all(Array.from({ length: 4 }, () => call(200_000).catch((error: Error) => error)));
  for (const answer of answers) {
    if (!(answer instanceof Error)) assert.ok([200, 507].includes(answer.status), answer.text);
  }
  // The idle callers stay as long as they like: it heals all the same.
  for (let tries = 0; ; tries++) {
    const answer = await call(200_000).catch(() => undefined);
    if (answer?.status === 200 && answer.json.status === "COMPLETED") break;
    assert.ok(tries < 300, `it does not heal: ${answer?.text}`);
    await delay(100);
  }
  assert.equal(process.kill(platform.pid, 0), true);
});
