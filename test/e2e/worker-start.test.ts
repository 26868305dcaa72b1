import assert from "node:assert/strict";
import { test } from "node:test";
import { project, startPlatform } from "./platform.ts";

const PLAIN = `
from svc import Endpoint

@Endpoint(name="plain")
def plain():
    return {}

@Endpoint(name="fresh", boot="OFF")
def fresh():
    return {}
`;

const THREADED = `
import threading
from svc import Endpoint

threading.Thread(target=threading.Event().wait, daemon=True).start()

@Endpoint(name="threaded")
def threaded():
    return {}
`;

test("Status says how each worker was started, why it was no fork, and which limits hold", async (t) => {
  const platform = await startPlatform(t);
  const cwd = project(t, { "plain.py": PLAIN, "threaded.py": THREADED });
  const deploy = await platform.svc(["deploy"], { cwd });
  assert.equal(deploy.code, 0, deploy.stderr);
  const { myself } = await platform.query<{
    myself: { endpoints: { name: string; pods: { boot: string; limits: string }[] }[] };
  }>("{ myself { endpoints { name pods { boot limits } } } }");
  const boot = Object.fromEntries(myself.endpoints.map(({ name, pods }) => [name, pods[0]?.boot]));
  assert.equal(boot.plain, "fork");
  assert.match(boot.fresh!, /^spawn: .*OFF/);
  assert.match(boot.threaded!, /^spawn: .*thread/);
  assert.ok(myself.endpoints.every(({ pods }) => /^(cgroup2|cgroup1|rlimit|none)$/.test(pods[0]!.limits)));
  const status = await platform.svc(["status", "threaded"], { cwd });
  assert.match(status.stdout, /started by spawn: .*thread.*; limits: \w+; isolation: /);
});
