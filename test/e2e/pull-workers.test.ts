/** Programs that pull their jobs over HTTP, as plain commands of this machine: their life, and what kills them. */
import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { startSvcRun } from "../dev/svc-run.ts";
import { dockerForTests } from "../docker.ts";
import { eventually } from "../eventually.ts";
import { hostPidIn } from "../host-pid.ts";
import { hasLogged, project, startPlatform, type TestPlatform } from "./platform.ts";
import { imageOfProgram, PULL_PROGRAM } from "./pull-program.ts";

const docker = await dockerForTests();

const declared = (more = "") => `
from svc import Endpoint
Endpoint(name="program", command=["python", "worker.py"], protocol="pull"${more})
`;

async function deploy(platform: TestPlatform, cwd: string) {
  const { code, stdout, stderr } = await platform.svc(["deploy"], { cwd });
  assert.equal(code, 0, stdout + stderr);
  return (await platform.endpoints()).find(({ name }) => name === "program")!;
}

async function lives(t: TestContext, env: Readonly<Record<string, string>>): Promise<void> {
  const platform = await startPlatform(t, env);
  const of = (mode: string, workers: number) =>
    declared(`, env={"MODE": "${mode}"}, workers=(0, ${workers}), idle_timeout=1, volume="shared"`);
  const cwd = project(t, { "main.py": of("first", 1), "worker.py": PULL_PROGRAM });
  const inside = (name: string) => `/volumes/shared/${name}`;
  const outside = (name: string) => path.join(platform.dataDir, "volumes/app/production/shared", name);
  const { url, kind } = await deploy(platform, cwd);
  assert.equal(kind, "queue");
  const call = (input: object) => platform.call(`${url}/runsync?wait=120000`, { body: { input } });
  const run = async (input: object) => (await platform.call(`${url}/run`, { body: { input } })).json.id as string;
  const status = async (job: string) => (await platform.call(`${url}/status/${job}`)).json;
  const running = (job: string) => eventually(async () => assert.equal((await status(job)).status, "IN_PROGRESS"));
  const ended = (job: string) =>
    eventually(async () => {
      const now = await status(job);
      assert.equal(now.status, "COMPLETED", JSON.stringify(now));
      return now;
    });

  const first = await call({});
  assert.equal(first.json.status, "COMPLETED", first.text);
  const { mode, in_project } = first.json.output;
  assert.deepEqual([mode, in_project], ["first", true]);
  await hasLogged(platform, cwd, ["program", "--job", first.json.id], /INFO Started\./);

  // Nothing to do: it is told to end, and ends by itself.
  await hasLogged(platform, cwd, ["program"], /has left/);
  await eventually(async () => {
    const { workers } = (await platform.call(`${url}/health`)).json;
    assert.equal(workers.ready + workers.initializing, 0);
  });
  const again = await call({});
  assert.match(again.headers.get("server-timing")!, /boot;dur=[\d.]+, import;dur=[1-9]/, "a cold start is told apart");

  // Another revision comes while a job runs: it ends on its own worker.
  const before = await run({ wait: inside("gate") });
  await running(before);
  writeFileSync(path.join(cwd, "main.py"), of("second", 2));
  const deploying = deploy(platform, cwd);
  await eventually(async () => assert.equal((await call({})).json.output.mode, "second"));
  writeFileSync(outside("gate"), "");
  assert.equal((await ended(before)).output.mode, "first");
  await deploying;

  // The program is killed in the middle of its job: another one does it.
  const job = await run({ wait: inside("lost"), tell: inside("pid") });
  process.kill(await hostPidIn(outside("pid")), "SIGKILL");
  writeFileSync(outside("lost"), "");
  assert.equal((await ended(job)).retries, 1);

  // The platform is killed and comes back: the worker goes on, and its result is taken.
  const survivor = await run({ wait: inside("long") });
  await running(survivor);
  await platform.kill();
  const next = await platform.restart();
  assert.equal((await next.call(`${url}/status/${survivor}`)).json.status, "IN_PROGRESS");
  writeFileSync(outside("long"), "");
  assert.equal((await ended(survivor)).retries, undefined);
}

test("A program pulls its endpoint's jobs: deployed, logged, scaled, replaced and killed, and nothing is lost", (t) =>
  lives(t, {}));

test("So does one in a container that is declared as a command", { skip: docker.skip }, (t) => lives(t, docker.env));

async function runsLocally(t: TestContext, env: Readonly<Record<string, string>>): Promise<void> {
  const platform = await startPlatform(t, env);
  const main = declared(', env={"MODE": "first"}');
  const cwd = project(t, { "main.py": main, "worker.py": PULL_PROGRAM });
  const local = await startSvcRun(t, platform, cwd);
  const call = async () => (await platform.call(`${local.url}/main/runsync`, { body: { input: {} } })).json;
  assert.equal((await call()).output.mode, "first");
  await eventually(() => assert.match(local.output(), /program │ INFO Started\./));

  // Each call has the newest code: of the declaration, and of the program.
  writeFileSync(path.join(cwd, "main.py"), main.replace("first", "second"));
  assert.equal((await call()).output.mode, "second");
  writeFileSync(path.join(cwd, "worker.py"), "import sys\nsys.exit('no weights')\n");
  const broken = await call();
  assert.equal(broken.status, "FAILED");
  const { error_message, error_traceback } = JSON.parse(broken.error);
  assert.match(error_message, /python worker\.py: it exited with code 1 before it asked for a job/);
  assert.match(error_traceback, /no weights/);
  writeFileSync(path.join(cwd, "worker.py"), PULL_PROGRAM);
  assert.equal((await call()).status, "COMPLETED");
  assert.equal(await local.stop(), 0);
  assert.deepEqual(await platform.endpoints(), []);
}

test("svc run has programs that pull: the newest code for each call, what they print, and why they cannot begin", (t) =>
  runsLocally(t, {}));

test("svc run has them in containers too", { skip: docker.skip }, (t) => runsLocally(t, docker.env));

test("A program that cannot begin is told about, and so is an image where there are no containers", async (t) => {
  const platform = await startPlatform(t);
  const cwd = project(t, { "main.py": declared(', env={"BROKEN": "1"}'), "worker.py": PULL_PROGRAM });
  const broken = await platform.svc(["deploy"], { cwd });
  assert.notEqual(broken.code, 0);
  assert.match(broken.stderr, /it exited with code 1 before it asked for a job\s+it cannot begin: no weights/);
  writeFileSync(path.join(cwd, "main.py"), declared("").replace('"python"', '"nowhere"'));
  const missing = await platform.svc(["deploy"], { cwd });
  assert.match(missing.stderr, /'nowhere' cannot be run: No such file or directory/);
  writeFileSync(
    path.join(cwd, "main.py"),
    'from svc import Endpoint\nEndpoint(name="program", image="example/worker:1")\n',
  );
  const image = await platform.svc(["deploy"], { cwd });
  assert.match(image.stderr, /image="example\/worker:1" needs containers/);

  const { saveTemplate } = await platform.query<{ saveTemplate: { id: string } }>(
    'mutation { saveTemplate(input: {name: "t", imageName: "example/worker:1"}) { id } }',
  );
  const { saveEndpoint } = await platform.query<{ saveEndpoint: { id: string } }>(
    'mutation ($id: String!) { saveEndpoint(input: {name: "saved", templateId: $id, instanceIds: "cpu3c-1-2"}) { id } }',
    { id: saveTemplate.id },
  );
  await platform.call(`/v2/${saveEndpoint.id}/run`, { body: { input: {} } });
  await eventually(async () => {
    const { stdout } = await platform.svc(["status", "saved"], { cwd });
    assert.match(stdout, /BLOCKED[\s\S]*image="example\/worker:1" needs containers/);
  });
});

test("An unmodified image runs as an endpoint: declared, and by a template; killed, and over a kill of the platform", {
  skip: docker.skip,
}, async (t) => {
  const image = await imageOfProgram(t, docker);
  let platform = await startPlatform(t, docker.env);
  const { restart } = platform;
  const source = `from svc import Endpoint\nEndpoint(name="program", image="${image}", workers=(0, 1), volume="shared")\n`;
  const cwd = project(t, { "main.py": source });
  const { url } = await deploy(platform, cwd);
  const call = (to: string, input: object) => platform.call(`${to}/runsync?wait=120000`, { body: { input } });
  const status = async (job: string) => (await platform.call(`${url}/status/${job}`)).json;
  const becomes = (job: string, state: string) =>
    eventually(async () => {
      const now = await status(job);
      assert.equal(now.status, state, JSON.stringify(now));
      return now;
    });
  const first = await call(url, {});
  assert.equal(first.json.status, "COMPLETED", first.text);
  assert.equal(first.json.output.mode, "image");
  await hasLogged(platform, cwd, ["program", "--job", first.json.id], /INFO Started\./);

  const local = await startSvcRun(t, platform, cwd);
  const live = await platform.call(`${local.url}/main/runsync`, { body: { input: {} } });
  assert.equal(live.json.output?.mode, "image", live.text);
  assert.equal(await local.stop(), 0);

  // Its container is killed in the middle of a job.
  const containers = () => docker.engine.listContainers({ filters: { label: [`svc.endpoint-name=program`] } });
  const gate = "/runpod-volume/gate";
  const lost = (await platform.call(`${url}/run`, { body: { input: { wait: gate, tell: "/volumes/shared/began" } } }))
    .json.id;
  const shared = path.join(platform.dataDir, "volumes");
  await becomes(lost, "IN_PROGRESS");
  // One that was idle may just be leaving.
  const only = await eventually(async () => {
    const ours = (await containers()).filter(({ Labels }) => Labels["svc.data-dir"] === platform.dataDir);
    assert.equal(ours.length, 1);
    return ours[0]!.Id;
  });
  await docker.engine.getContainer(only).kill();
  const again = await eventually(async () => {
    const now = await status(lost);
    assert.deepEqual([now.status, now.retries], ["IN_PROGRESS", 1]);
    return now;
  });
  assert.ok(again);

  // The platform is killed; the container goes on, and the next platform takes its result.
  await platform.kill();
  platform = await restart();
  const file = path.join(shared, "app", "production", "shared", "gate");
  writeFileSync(file, "");
  const done = await becomes(lost, "COMPLETED");
  assert.equal(done.retries, 1);

  // Its template gives it other arguments than the image's own.
  const program = "import os; os.environ['MODE'] += ' by arguments'; exec(open('worker.py').read())";
  const { saveTemplate } = await platform.query<{ saveTemplate: { id: string } }>(
    "mutation ($input: SaveTemplateInput!) { saveTemplate(input: $input) { id } }",
    {
      input: {
        name: "t",
        imageName: image,
        dockerArgs: JSON.stringify({ cmd: ["-c", program] }),
        env: [{ key: "MODE", value: "saved" }],
      },
    },
  );
  const { saveEndpoint } = await platform.query<{ saveEndpoint: { id: string } }>(
    'mutation ($id: String!) { saveEndpoint(input: {name: "saved", templateId: $id, instanceIds: "cpu3c-1-2"}) { id } }',
    { id: saveTemplate.id },
  );
  const saved = await call(`/v2/${saveEndpoint.id}`, {});
  assert.equal(saved.json.output?.mode, "saved by arguments", saved.text);
});
