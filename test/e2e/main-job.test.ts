import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { startPlatform, tempDir } from "./platform.ts";

test("init, build, deploy, call, undeploy --all: a Python function becomes a live endpoint and goes again", async (t) => {
  const platform = await startPlatform(t);
  const cwd = tempDir(t);
  const dir = path.join(cwd, "hello");

  const init = await platform.svc(["init", "hello"], { cwd });
  assert.equal(init.code, 0, init.stderr);

  const build = await platform.svc(["build"], { cwd: dir });
  assert.equal(build.code, 0, build.stderr);
  assert.ok(existsSync(path.join(dir, ".svc/artifact.tar.gz")));
  assert.ok(existsSync(path.join(dir, ".svc/svc_manifest.json")));

  const deploy = await platform.svc(["deploy"], { cwd: dir });
  assert.equal(deploy.code, 0, deploy.stderr + deploy.stdout);
  assert.match(deploy.stdout, /load-balanced/i);
  assert.match(deploy.stdout, /queue-based/i);

  const endpoints = await platform.endpoints();
  assert.deepEqual(endpoints.map((endpoint) => endpoint.name).sort(), ["cpu_worker", "gpu_worker", "lb_worker"]);
  const named = (name: string) => endpoints.find((endpoint) => endpoint.name === name)!;

  const health = await platform.call(`${named("lb_worker").url}/health`);
  assert.equal(health.status, 200, health.text);
  for (const key of [null, "svc_wrong"]) {
    assert.equal((await platform.call(`${named("lb_worker").url}/health`, { key })).status, 401);
    const run = await platform.call(`${named("cpu_worker").url}/run`, { key, body: { input: {} } });
    assert.equal(run.status, 401);
    assert.ok(["MISSING_KEY", "WRONG_KEY"].includes(run.json.code));
  }

  // The printed example calls work when pasted into a shell.
  const { runProcess } = await import("../../src/lib/run-process.ts");
  const examples = deploy.stdout.match(/curl [^\n]*(?:\\\n[^\n]*)*/g) ?? [];
  assert.ok(examples.length >= 3, deploy.stdout);
  for (const example of examples) {
    const env = { PATH: process.env.PATH, PLATFORM_API_KEY: platform.key };
    const result = await runProcess("sh", ["-c", `${example} --fail-with-body --silent --show-error`], { env });
    assert.equal(result.code, 0, `${example}\n${result.stdout}${result.stderr}`);
  }

  const undeploy = await platform.svc(["undeploy", "--all", "--force"], { cwd: dir });
  assert.equal(undeploy.code, 0, undeploy.stderr);
  assert.deepEqual(await platform.endpoints(), []);
  assert.equal((await platform.call(`${named("lb_worker").url}/health`)).status, 404);
});
