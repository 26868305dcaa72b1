/** Code that is replaced while a worker of it starts: the worker comes too late, is refused and leaves. */
import assert from "node:assert/strict";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { startSvcRun } from "../dev/svc-run.ts";
import { eventually } from "../eventually.ts";
import { hostPid, OWN_PID } from "../host-pid.ts";
import { project, startPlatform } from "./platform.ts";

/** Else the worker is stopped before it can come, most of the time. */
const STOPS_NONE = pathToFileURL(path.join(import.meta.dirname, "stops-none.ts")).href;

/** Each worker imports it anew. */
const code = (version: string, whileImported: string) => `
import os, signal, time
from svc import Endpoint

${whileImported}

@Endpoint(name="late", workers=(0, 1), boot="OFF")
def late():
    return "${version}"
`;

test("a worker of replaced code that is refused when it comes is no failed start of the code that replaced it", async (t) => {
  const platform = await startPlatform(t, { NODE_OPTIONS: `--import ${STOPS_NONE}` });
  const file = (name: string) => JSON.stringify(path.join(platform.shared, name));
  const stopsItself = `
with open(${file("stopped.part")}, "w") as out:
    out.write(${OWN_PID})
os.rename(${file("stopped.part")}, ${file("stopped")})
os.kill(os.getpid(), signal.SIGSTOP)`;
  const waits = `
open(${file("waits")}, "w").close()
while not os.path.exists(${file("go")}):
    time.sleep(0.01)`;
  const at = (name: string) => path.join(platform.shared, name);

  const cwd = project(t, { "late.py": code("before", stopsItself) });
  const server = await startSvcRun(t, platform, cwd);
  const call = async () =>
    (await fetch(`${server.url}/late/runsync`, { method: "POST", body: '{"input":{}}' })).json() as Promise<{
      status: string;
      output: unknown;
    }>;
  const first = call();
  await eventually(() => assert.ok(existsSync(at("stopped"))));
  const pid = hostPid(readFileSync(at("stopped"), "utf8"))!;
  writeFileSync(path.join(cwd, "late.py"), code("after", waits));
  const second = call();
  await eventually(() => assert.ok(existsSync(at("waits"))));
  const [endpoint] = await platform.endpoints();
  const starting = async () => (await platform.call(`/v2/${endpoint!.id}/health`)).json.workers.initializing;
  await eventually(async () => assert.equal(await starting(), 2));
  process.kill(pid, "SIGCONT");
  await eventually(async () => assert.equal(await starting(), 1));
  await eventually(() => assert.equal(existsSync(`/proc/${pid}`), false));
  writeFileSync(at("go"), "");
  const answers = await Promise.all([first, second]);
  assert.deepEqual(
    answers.map(({ status, output }) => [status, output]),
    [
      ["COMPLETED", "after"],
      ["COMPLETED", "after"],
    ],
  );
});
