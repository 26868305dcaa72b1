/** An ordinary user may make no groups of processes with limits: other means bound a worker's memory and processes. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { project, startPlatform } from "../e2e/platform.ts";

const WORKER = `
import os, mmap, time
from svc import Endpoint

@Endpoint(name="bad", workers=(0, 1), cpu="cpu3c-1-2")
def bad(how):
    return globals()[how]()

@Endpoint(name="good", workers=(0, 1))
def good():
    return os.fork and 1

def bomb():
    made = []
    try:
        while len(made) < 3000:
            pid = os.fork()
            if pid == 0:
                time.sleep(600)
                os._exit(0)
            made.append(pid)
    except OSError:
        pass
    for pid in made:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
    return len(made)

def share():
    """Memory that no limit of the process itself counts."""
    shared = mmap.mmap(-1, 3 << 30)
    for at in range(0, 3 << 30, 1 << 20):
        shared[at:at + (1 << 20)] = b"x" * (1 << 20)
    time.sleep(60)
    return "it got it"
`;

test("An ordinary user's worker that forks without end or shares too much memory harms only its own endpoint", {
  skip: process.getuid?.() === 0 && "of an ordinary user",
  timeout: 300_000,
}, async (t) => {
  const platform = await startPlatform(t);
  const deploy = await platform.svc(["deploy"], { cwd: project(t, { "main.py": WORKER }) });
  assert.equal(deploy.code, 0, deploy.stderr);
  const urls = new Map((await platform.endpoints()).map(({ name, url }) => [name, url]));
  const run = async (name: string, input: object) => {
    const submitted = await platform.call(`${urls.get(name)}/run`, { body: { input } });
    const job = await platform.call(`${urls.get(name)}/status-sync/${submitted.json.id}?wait=90000`);
    return job.json;
  };
  const status = await platform.svc(["status", "bad"], { cwd: platform.dir });
  if (!/namespaces/.test(status.stdout)) return t.skip(`this machine makes no user namespaces: ${status.stdout}`);
  await t.test("processes", async () => {
    const job = await run("bad", { how: "bomb" });
    assert.equal(job.status, "FAILED", JSON.stringify(job));
    assert.match(job.error, /killed: limit of 1024 processes/);
    assert.equal((await run("good", {})).output, 1);
  });
  await t.test("memory", async () => {
    const job = await run("bad", { how: "share" });
    assert.equal(job.status, "FAILED", JSON.stringify(job));
    assert.match(job.error, /killed: memory limit 2 GB of cpu3c-1-2/);
    assert.equal((await run("good", {})).output, 1);
  });
});
