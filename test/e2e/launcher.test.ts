/** The processes that start workers are killed or stand still, with jobs running and waiting: none is lost. */
import assert from "node:assert/strict";
import { existsSync, mkdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { LauncherProcess } from "../../src/drivers/launcher-process.ts";
import { childrenOf } from "../children-of.ts";
import { hostPid, OWN_PID } from "../host-pid.ts";
import { project, startPlatform, svc, type TestPlatform, tempDir } from "./platform.ts";

const WORKER = (file: string) => `
import time
from svc import Endpoint

@Endpoint(name="record", workers=(0, 2))
def record(n, seconds=0.05):
    with open(${JSON.stringify(file)}, "a") as out:
        out.write(f"{n}\\n")
    time.sleep(seconds)
    return {"n": n}
`;

async function deployed(t: TestContext) {
  const platform = await startPlatform(t);
  const effects = path.join(platform.shared, "effects.txt");
  const deploy = await platform.svc(["deploy"], { cwd: project(t, { "worker.py": WORKER(effects) }) });
  assert.equal(deploy.code, 0, deploy.stderr);
  const [endpoint] = await platform.endpoints();
  const executions = () => (existsSync(effects) ? readFileSync(effects, "utf8").trim().split("\n") : []);
  return { platform, route: `/v2/${endpoint!.id}`, executions };
}

async function submit(platform: TestPlatform, route: string, inputs: readonly object[]): Promise<string[]> {
  const answers = await Promise.all(inputs.map((input) => platform.call(`${route}/run`, { body: { input } })));
  for (const answer of answers) assert.equal(answer.status, 200, answer.text);
  return answers.map(({ json }) => json.id);
}

async function results(platform: TestPlatform, route: string, ids: readonly string[]) {
  const jobs = await Promise.all(ids.map((id) => platform.call(`${route}/status-sync/${id}?wait=60000`)));
  return jobs.map(({ json }) => [json.status, json.output?.n, json.retries ?? 0]);
}

const completed = (count: number) => Array.from({ length: count }, (_, n) => ["COMPLETED", n, 0]);

function launcherPid(platform: TestPlatform): number {
  return JSON.parse(readFileSync(path.join(platform.dataDir, "launcher.json"), "utf8")).pid;
}

async function until<T>(look: () => T | undefined | false, what: string): Promise<T> {
  const end = performance.now() + 60_000;
  for (;;) {
    const found = look();
    if (found) return found;
    assert.ok(performance.now() < end, `it did not come true: ${what}`);
    await delay(20);
  }
}

/** Twenty jobs of which some run; resolves once two do. */
async function busy({ platform, route, executions }: Awaited<ReturnType<typeof deployed>>): Promise<string[]> {
  const inputs = Array.from({ length: 20 }, (_, n) => ({ n, seconds: n < 2 ? 1 : 0.05 }));
  const before = executions().length;
  const ids = await submit(platform, route, inputs);
  await until(() => executions().length > before, "a job runs");
  return ids;
}

test("a killed launcher is replaced: its jobs run again without having failed, those that wait are served, and the log says so", async (t) => {
  const app = await deployed(t);
  const { platform, route } = app;
  for (const round of [1, 2]) {
    const ids = await busy(app);
    const pid = launcherPid(platform);
    process.kill(pid, "SIGKILL");
    assert.deepEqual(await results(platform, route, ids), completed(20), `round ${round}`);
    assert.notEqual(launcherPid(platform), pid);
  }
  const health = await platform.call(`${route}/health`);
  assert.deepEqual([health.json.jobs.inQueue, health.json.jobs.inProgress], [0, 0]);
});

test("a launcher of an earlier platform that is killed is replaced too", async (t) => {
  const app = await deployed(t);
  const ids = await busy(app);
  await app.platform.kill();
  const platform = await app.platform.restart();
  process.kill(launcherPid(platform), "SIGKILL");
  assert.deepEqual(await results(platform, app.route, ids), completed(20));
});

test("a killed nursery or zygote costs no job, and new ones are served", async (t) => {
  const app = await deployed(t);
  const { platform, route } = app;
  for (const target of ["zygote", "nursery"]) {
    const ids = await busy(app);
    // Workers are children of their zygote; the nursery has none that last.
    const children = childrenOf(launcherPid(platform));
    const zygotes = children.filter((pid) => childrenOf(pid).length > 0);
    const killed = target === "zygote" ? zygotes : children.filter((pid) => !zygotes.includes(pid));
    assert.ok(killed.length > 0, target);
    for (const pid of killed) process.kill(pid, "SIGKILL");
    const jobs = await results(platform, route, ids);
    assert.deepEqual(
      jobs.map(([status, n]) => [status, n]),
      completed(20).map(([status, n]) => [status, n]),
      target,
    );
  }
});

test("a launcher that stands still while the platform is started again is waited for: its jobs end once, none is lost", async (t) => {
  const app = await deployed(t);
  const { executions, route } = app;
  const ids = await submit(app.platform, route, [{ n: 0, seconds: 8 }]);
  await until(() => executions().length === 1, "the job runs");
  const pid = launcherPid(app.platform);
  process.kill(pid, "SIGSTOP");
  t.after(() => {
    try {
      process.kill(pid, "SIGCONT");
    } catch {} // it has ended
  });
  await app.platform.kill();
  const platform = await app.platform.restart();
  assert.equal(launcherPid(platform), pid);
  const more = await submit(platform, route, [{ n: 1 }, { n: 2 }]);
  process.kill(pid, "SIGCONT");
  assert.deepEqual(await results(platform, route, [...ids, ...more]), completed(3));
  assert.equal(executions().length, 3);
});

test("a worker that dies while the launcher stands still loses its job to another one: only a launcher that answers vouches", async (t) => {
  const platform = await startPlatform(t);
  const runs = path.join(platform.shared, "runs.txt");
  const worker = `
import os, time
from svc import Endpoint

@Endpoint(name="twice", workers=(2, 2))
def twice():
    with open(${JSON.stringify(runs)}, "a+") as file:
        file.write(${OWN_PID} + "\\n")
        file.seek(0)
        if len(file.readlines()) == 1:
            file.flush()
            time.sleep(600)
    return "done"
`;
  const deploy = await platform.svc(["deploy"], { cwd: project(t, { "worker.py": worker }) });
  assert.equal(deploy.code, 0, deploy.stderr);
  const [endpoint] = await platform.endpoints();
  const route = `/v2/${endpoint!.id}`;
  const ready = async () => (await platform.call(`${route}/health`)).json.workers.idle === 2;
  while (!(await ready())) await delay(20);
  const ids = await submit(platform, route, [{}]);
  const named = await until(() => existsSync(runs) && readFileSync(runs, "utf8").trim(), "the job runs");
  const launcher = launcherPid(platform);
  process.kill(launcher, "SIGSTOP");
  t.after(() => {
    try {
      process.kill(launcher, "SIGCONT");
    } catch {} // it has ended
  });
  process.kill(hostPid(named)!, "SIGKILL");
  const { json: job } = await platform.call(`${route}/status-sync/${ids[0]}?wait=120000`);
  assert.deepEqual([job.status, job.output, job.retries], ["COMPLETED", "done", 1]);
  assert.match(
    readFileSync(`/proc/${launcher}/stat`, "latin1"),
    /\) T /,
    "the launcher stands still, and was not replaced",
  );
});

test("while the launcher stands still no worker is lost and no job fails, and a platform that stops does not wait for it", async (t) => {
  const app = await deployed(t);
  const { platform, route, executions } = app;
  const ids = await submit(platform, route, [{ n: 0, seconds: 1 }]);
  await until(() => executions().length === 1, "the job runs");
  const pid = launcherPid(platform);
  process.kill(pid, "SIGSTOP");
  const more = await submit(platform, route, [{ n: 1 }, { n: 2 }]);
  assert.deepEqual(await results(platform, route, ids), completed(1));
  process.kill(pid, "SIGCONT");
  assert.deepEqual(await results(platform, route, more), [
    ["COMPLETED", 1, 0],
    ["COMPLETED", 2, 0],
  ]);
  process.kill(pid, "SIGSTOP");
  await platform.stop();
  await until(
    () => !existsSync(`/proc/${pid}`) || readFileSync(`/proc/${pid}/stat`, "utf8").includes(") Z "),
    "it is gone",
  );
});

test("a start that fails when all is up leaves no launcher", { timeout: 120_000 }, async (t) => {
  const dataDir = path.join(tempDir(t), "data");
  // Where it says at last that it listens.
  mkdirSync(path.join(dataDir, "platform.json"), { recursive: true, mode: 0o700 });
  const start = await svc(["platform", "start", "--foreground", "--port", "0", "--data-dir", dataDir]);
  assert.equal(start.code, 1, start.stderr);
  assert.ok(existsSync(path.join(dataDir, "launcher.json")), "there was one");
  assert.equal(LauncherProcess.earlier(dataDir), undefined);
});
