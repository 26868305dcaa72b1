/** Endpoints in containers of a real engine, through the CLI and HTTP. */
import assert from "node:assert/strict";
import { cpSync } from "node:fs";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { LABEL } from "../../src/drivers/docker/labels.ts";
import { platformIdOf } from "../../src/drivers/docker/platform-containers.ts";
import { dockerForTests } from "../docker.ts";
import { answers, CORPUS_PROJECT } from "./corpus.ts";
import { project, startPlatform, svc, type TestPlatform, tempDir } from "./platform.ts";

const docker = await dockerForTests();
const { skip } = docker;

const filtersOf = (dataDir: string) => ({ label: [`svc.platform=${platformIdOf(dataDir)}`] });
const containersOf = (dataDir: string) => docker.engine.listContainers({ all: true, filters: filtersOf(dataDir) });

async function deploy(platform: TestPlatform, dir: string): Promise<Map<string, string>> {
  const deployed = await platform.svc(["deploy"], { cwd: dir });
  assert.equal(deployed.code, 0, deployed.stderr + deployed.stdout);
  return new Map((await platform.endpoints()).map(({ name, url }) => [name, url]));
}

test("The same requests get the same answers from processes and from containers", { skip }, async (t) => {
  const [first, second] = await Promise.all([{}, docker.env].map((env) => corpusAnswers(t, env)));
  assert.ok(Object.keys(first!).length > 20);
  assert.deepEqual(second, first);
});

async function corpusAnswers(t: TestContext, env: Record<string, string>): Promise<Record<string, unknown>> {
  const platform = await startPlatform(t, env);
  const dir = path.join(tempDir(t), "text-analysis");
  cpSync(CORPUS_PROJECT, dir, { recursive: true });
  const urls = await deploy(platform, dir);
  return answers(async (endpoint, route, { method, body, headers }) => {
    const response = await fetch(urls.get(endpoint) + route, {
      method,
      body,
      headers: { ...headers, authorization: `Bearer ${platform.key}` },
    });
    return { status: response.status, headers: response.headers, text: await response.text() };
  });
}

const SLOW = `from svc import Endpoint

@Endpoint(name="slow", idle_timeout=60, workers=(0, 3), scaler_type="REQUEST_COUNT", scaler_value=1)
def slow(seconds: float):
    import os, time
    time.sleep(seconds)
    return {"slept": seconds, "uid": os.getuid()}
`;

test("A running job in a container survives a kill -9 of the platform", { skip }, async (t) => {
  const platform = await startPlatform(t, docker.env);
  const url = (await deploy(platform, project(t, { "slow.py": SLOW }))).get("slow")!;
  const job = await platform.call(`${url}/run`, { body: { input: { seconds: 2 } } });
  const status = (from: TestPlatform, wait: number) =>
    from.call(`${new URL(url).pathname}/status-sync/${job.json.id}?wait=${wait}`);
  while ((await status(platform, 1_000)).json.status === "IN_QUEUE") {}
  // Another container may be looking at the image at that moment.
  const workersOf = async () =>
    (await containersOf(platform.dataDir)).filter(({ Labels }) => LABEL.endpointId in Labels).map(({ Id }) => Id);
  const before = await workersOf();
  assert.equal(before.length, 1);
  await platform.kill();
  const back = await platform.restart();
  const { json } = await status(back, 60_000);
  assert.equal(json.status, "COMPLETED", JSON.stringify(json));
  assert.equal(json.output.slept, 2);
  assert.equal(json.retries, undefined);
  assert.deepEqual(await workersOf(), before);
});

test("A container that is killed, or paused for a while, costs no job of those that run or wait", {
  skip,
}, async (t) => {
  const platform = await startPlatform(t, docker.env);
  const url = (await deploy(platform, project(t, { "slow.py": SLOW }))).get("slow")!;
  const faults: Record<string, (id: string, ids: readonly string[]) => Promise<unknown>> = {
    killed: (id) => docker.engine.getContainer(id).kill(),
    paused: async (id, ids) => {
      await docker.engine.getContainer(id).pause();
      // The platform answers meanwhile.
      const { json } = await platform.call(`${url}/status-sync/${ids.at(-1)}?wait=3000`);
      await docker.engine.getContainer(id).unpause();
      assert.ok(["IN_QUEUE", "IN_PROGRESS"].includes(json.status), JSON.stringify(json));
    },
  };
  for (const [fault, inflict] of Object.entries(faults)) {
    const ids: string[] = [];
    for (let n = 0; n < 10; n++) {
      ids.push((await platform.call(`${url}/run`, { body: { input: { seconds: 0.5 } } })).json.id);
    }
    while ((await platform.call(`${url}/status/${ids[0]}`)).json.status === "IN_QUEUE") {
      await platform.call(`${url}/status-sync/${ids[0]}?wait=1000`);
    }
    const container = (await containersOf(platform.dataDir)).find(
      ({ State, Labels }) => State === "running" && LABEL.endpointId in Labels,
    );
    assert.ok(container, fault);
    await inflict(container.Id, ids);
    const jobs = await Promise.all(ids.map((id) => platform.call(`${url}/status-sync/${id}?wait=120000`)));
    assert.deepEqual(
      jobs.map(({ json }) => [json.status, json.output?.slept]),
      ids.map(() => ["COMPLETED", 0.5]),
      `${fault}: ${JSON.stringify(jobs.map(({ json }) => json))}`,
    );
  }
});

test("A platform that stops leaves no container and no network", { skip }, async (t) => {
  const platform = await startPlatform(t, docker.env);
  const url = (await deploy(platform, project(t, { "slow.py": SLOW }))).get("slow")!;
  const answer = await platform.call(`${url}/runsync`, { body: { input: { seconds: 0 } } });
  assert.notEqual(answer.json.output.uid, 0);
  const networks = () => docker.engine.listNetworks({ filters: filtersOf(platform.dataDir) });
  assert.equal((await networks()).length, 1);
  await platform.stop();
  assert.deepEqual(await containersOf(platform.dataDir), []);
  assert.deepEqual(await networks(), []);
});

const PEERS = `from svc import Endpoint

@Endpoint(name="double")
def double(n: int):
    return n * 2

@Endpoint(name="caller")
def caller(n: int):
    import socket
    return {"doubled": double(n), "host": socket.gethostname()}
`;

test("Endpoints in containers call each other by their functions", { skip }, async (t) => {
  const platform = await startPlatform(t, docker.env);
  const urls = await deploy(platform, project(t, { "peers.py": PEERS }));
  const { json, text } = await platform.call(`${urls.get("caller")}/runsync`, { body: { input: { n: 21 } } });
  assert.equal(json.output?.doubled, 42, text);
  assert.equal((await containersOf(platform.dataDir)).length, 2);
});

test("A burst on one endpoint is worked off by forks in one container", { skip }, async (t) => {
  const platform = await startPlatform(t, docker.env);
  const url = (await deploy(platform, project(t, { "slow.py": SLOW }))).get("slow")!;
  // Longer than a loaded machine takes to fork the third.
  const calls = [1, 2, 3].map(() => platform.call(`${url}/runsync`, { body: { input: { seconds: 5 } } }));
  const workers = new Set((await Promise.all(calls)).map(({ json }) => json.workerId));
  assert.equal(workers.size, 3);
  assert.equal((await containersOf(platform.dataDir)).length, 1);
});

test("An endpoint whose image lacks a listed package says so, and how to get it", { skip }, async (t) => {
  const platform = await startPlatform(t, docker.env);
  const dir = project(t, {
    "net.py": `from svc import Endpoint

@Endpoint(name="net", dependencies=["torch"])
def net():
    import torch
`,
  });
  const deployed = await platform.svc(["deploy"], { cwd: dir });
  assert.notEqual(deployed.code, 0);
  const said = deployed.stdout + deployed.stderr;
  assert.match(said, /lacks torch/);
  assert.match(said, /svc platform images build --packages/);
});

test("A platform that is to use containers does not start without an engine, and says why", async (t) => {
  const dir = tempDir(t);
  const started = await svc(
    ["platform", "start", "--driver", "docker", "--port", "0", "--data-dir", path.join(dir, "data")],
    {
      env: { DOCKER_HOST: "unix:///tmp/svc-no-such.sock", SVC_CONFIG_DIR: path.join(dir, "config") },
    },
  );
  assert.notEqual(started.code, 0);
  assert.match(started.stderr, /The Docker daemon does not run/);
  assert.doesNotMatch(started.stderr, /\n\s+at .*:\d+:\d+/);
});
