// May take 12 minutes.
/** Containers on machines that joined, with a real engine: what runs where, what workers see, and what becomes of jobs when something ends. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { LABEL } from "../../src/drivers/docker/labels.ts";
import { platformIdOf } from "../../src/drivers/docker/platform-containers.ts";
import { dockerForTests } from "../docker.ts";
import { eventually } from "../eventually.ts";
import { AgentProcess } from "../host/agent-process.ts";
import { changingDisk, whyNoSmallDisk } from "../small-disk.ts";
import { isHere, startJoinable } from "./joined-hosts.ts";
import { hasLogged, project, type TestPlatform, tempDir } from "./platform.ts";
import { imageOfProgram } from "./pull-program.ts";

const docker = await dockerForTests();
const { skip, engine } = docker;

const filtersOf = (dataDir: string) => ({ label: [`${LABEL.platform}=${platformIdOf(dataDir)}`] });

/** Those that run workers; others may be looking at an image at that moment. */
async function containersOf(dataDir: string) {
  const found = await engine.listContainers({ filters: filtersOf(dataDir) });
  return found.filter(({ Labels }) => LABEL.endpointId in Labels);
}

/** A platform that listens where containers reach it, and machines that run containers. */
async function withContainers(t: TestContext, env: Record<string, string> = {}) {
  const { platform, join } = await startJoinable(t, {
    SVC_HOST: "0.0.0.0",
    SVC_WORKER_LISTEN: "tls://0.0.0.0:0",
    ...env,
  });
  const url = `http://${await docker.bridge()}:${new URL(platform.url).port}`;
  const host = (name: string, more: Parameters<typeof join>[1] = {}) =>
    join(name, { url, ...more, env: { ...docker.env, ...more.env } });
  return { platform, join, host, url, ...calls(t, platform) };
}

function calls(t: TestContext, platform: TestPlatform) {
  const deploy = async (files: Record<string, string>) => {
    const cwd = project(t, files);
    const { code, stdout, stderr } = await platform.svc(["deploy"], { cwd });
    assert.equal(code, 0, stdout + stderr);
    return { cwd, url: new Map((await platform.endpoints()).map(({ name, url }) => [name, url])) };
  };
  const call = async (url: string, input: object) => {
    const { json, text } = await platform.call(`${url}/runsync?wait=120000`, { body: { input } });
    assert.equal(json?.status, "COMPLETED", text);
    return json;
  };
  const run = async (url: string, input: object) =>
    (await platform.call(`${url}/run`, { body: { input } })).json.id as string;
  const status = async (url: string, job: string) => (await platform.call(`${url}/status/${job}`)).json;
  const becomes = (url: string, job: string, state: string) =>
    eventually(async () => {
      const now = await status(url, job);
      assert.equal(now.status, state, JSON.stringify(now));
      return now;
    }, 120_000);
  return { deploy, call, run, status, becomes };
}

const INSIDE = (hidden: string) => `
import os, socket, time
from svc import Endpoint

@Endpoint(name="double", workers=(0, 1))
def double(n: int) -> int:
    return n * 2

@Endpoint(name="inside", workers=(0, 2), idle_timeout=600, env={"PASSWORD": "hunter2-of-a-test"})
def inside(n: int, seconds: float = 0):
    print("seen inside", n, flush=True)
    time.sleep(seconds)
    return {
        "password": os.environ["PASSWORD"], "uid": os.getuid(), "doubled": n and double(n), "container": socket.gethostname(),
        "hidden": os.path.exists(${JSON.stringify(hidden)}), "svc": sorted(os.listdir("/run/svc")),
        "writes": [place for place in ("/", "/opt/svc/source", "/run/svc", "/tmp") if writes(place)],
    }

def writes(folder):
    try:
        with open(folder + "/x", "w"): return True
    except OSError: return False
`;

test("Workers in containers of a host: they call and print as elsewhere, see nothing of the machine, and leave nothing", {
  skip,
}, async (t) => {
  const { platform, host, deploy, call, run, becomes } = await withContainers(t);
  const { agent, dataDir } = await host("box");
  const { cwd, url } = await deploy({ "main.py": INSIDE(dataDir) });
  const inside = url.get("inside")!;
  const { output, id } = await call(inside, { n: 21 });
  const { uid, container, ...rest } = output;
  assert.deepEqual(rest, {
    password: "hunter2-of-a-test",
    doubled: 42,
    hidden: false,
    svc: ["agent.sock"],
    writes: ["/tmp"],
  });
  assert.notEqual(uid, 0);
  await hasLogged(platform, cwd, ["inside", "--job", id], /seen inside 21/);
  const found = await containersOf(dataDir);
  assert.ok(found.some(({ Id }) => Id.startsWith(container)));
  for (const { Id } of found) {
    assert.doesNotMatch(JSON.stringify(await engine.getContainer(Id).inspect()), /hunter2-of-a-test|svc[a-z]_/);
  }
  const shown = await platform.svc(["host", "show", "box"]);
  assert.match(shown.stdout, /Runs +containers, svc/);
  assert.match(shown.stdout, /inside/);

  // What runs may finish, then nothing is left.
  const last = await run(inside, { n: 0, seconds: 3 });
  await becomes(inside, last, "IN_PROGRESS");
  const drained = await platform.svc(["host", "drain", "box"]);
  assert.match(drained.stdout, /No worker runs there any more/);
  assert.equal((await becomes(inside, last, "COMPLETED")).retries, undefined);
  assert.equal(await agent.signal("SIGTERM"), 0, agent.stderr);
  assert.deepEqual(await engine.listContainers({ all: true, filters: filtersOf(dataDir) }), []);
  assert.deepEqual(await engine.listNetworks({ filters: filtersOf(dataDir) }), []);
});

const EFFECTS = `
import time
from svc import Endpoint

@Endpoint(name="record", workers=(0, 1), idle_timeout=600, volume="shared")
def record(n: int, seconds: float = 0):
    with open("/volumes/shared/effects", "a") as out: out.write(f"{n}\\n")
    time.sleep(seconds)
    return n
`;

test("A job in a container outlives its agent, is repeated when the container is killed, and writes to the platform's volume", {
  skip,
}, async (t) => {
  const { platform, host, deploy, run, becomes } = await withContainers(t);
  const args = ["--shared-volumes", path.join(platform.dataDir, "volumes")];
  const { agent, again, dataDir } = await host("box", { args });
  const { cwd, url } = await deploy({ "main.py": EFFECTS });
  const record = url.get("record")!;
  const long = await run(record, { n: 1, seconds: 8 });
  await becomes(record, long, "IN_PROGRESS");
  const [before] = await containersOf(dataDir);
  await agent.signal("SIGKILL");
  await isHere(platform, "box", "away");
  const next = again();
  await isHere(platform, "box");
  assert.equal((await becomes(record, long, "COMPLETED")).retries, undefined);
  const [after] = await containersOf(dataDir);
  assert.equal(after!.Id, before!.Id, "the next agent goes on with the same container");

  // The same process as another program, with a job under way.
  const handed = await run(record, { n: 2, seconds: 5 });
  await becomes(record, handed, "IN_PROGRESS");
  next.child.kill("SIGUSR2");
  await eventually(() => assert.match(next.stdout, /"joined"[\s\S]*"event":"joined"/));
  assert.equal((await becomes(record, handed, "COMPLETED")).retries, undefined);

  const lost = await run(record, { n: 3, seconds: 3 });
  await becomes(record, lost, "IN_PROGRESS");
  await engine.getContainer(after!.Id).kill();
  assert.equal((await becomes(record, lost, "COMPLETED")).retries, 1);
  const effects = await platform.svc(["volume", "ls", "shared"], { cwd });
  assert.match(effects.stdout, /effects/, effects.stderr);
});

const NEEDS = (image: string) => `
import os
from svc import Endpoint

@Endpoint(name="plain", workers=(0, 1))
def plain():
    return os.path.abspath(__file__)

@Endpoint(name="own", image="${image}", workers=(0, 1))
def own():
    return os.path.abspath(__file__)

Endpoint(name="web", command=["python3", "-m", "http.server", "8123"], port=8123, workers=(0, 1))
`;

test("What needs containers goes to the machine that runs them, and to none that has processes; without one the reason is said", {
  skip,
}, async (t) => {
  const { platform, join, host, url: reached, deploy, call } = await withContainers(t, { SVC_LOCAL_WORKERS: "1" });
  const files = { "main.py": NEEDS(docker.image) };
  const refused = await platform.svc(["deploy"], { cwd: project(t, files) });
  assert.equal(refused.code, 1, refused.stdout);
  assert.match(refused.stderr, /Endpoint "own": image=\S+ needs containers, and workers here are processes/);
  assert.match(refused.stderr, /Endpoint "web": port=8123 needs a network of its own/);
  assert.match(refused.stderr, /let a machine join it with svc worker join … --driver docker/);

  await join("plain", { url: reached });
  const { agent } = await host("box");
  const { url, cwd } = await deploy(files);
  assert.match((await call(url.get("own")!, {})).output, /^\/opt\/svc\/source\//);
  const page = await platform.call(`${url.get("web")}/`);
  assert.equal(page.status, 200, page.text);
  const box = await platform.svc(["host", "show", "box"]);
  assert.match(box.stdout, /own[\s\S]*web|web[\s\S]*own/);
  const other = await platform.svc(["host", "show", "plain"]);
  assert.doesNotMatch(other.stdout, /\b(own|web)\b/);

  await platform.svc(["host", "drain", "box"]);
  await platform.call(`${url.get("own")}/run`, { body: { input: {} } });
  await eventually(async () => {
    const { stdout } = await platform.svc(["status", "own"], { cwd });
    assert.match(stdout, /box: it is being drained/);
    assert.match(stdout, /plain: it cannot be prepared there \(image=\S+ needs containers/);
  });
  await platform.svc(["host", "drain", "box", "--off"]);
  await call(url.get("own")!, {});
  assert.ok(agent.isAlive);
});

/** A registry that knows one user and no image. */
async function registryFor(t: TestContext, user: string) {
  const seen: string[] = [];
  const server = createServer((request, response) => {
    const { authorization } = request.headers;
    seen.push(`${request.url} ${authorization ?? "nobody"}`);
    const known = authorization === `Basic ${Buffer.from(user).toString("base64")}`;
    if (!known) response.setHeader("www-authenticate", 'Basic realm="test"');
    response.setHeader("content-type", "application/json");
    response.writeHead(!known ? 401 : request.url === "/v2/" ? 200 : 404).end('{"errors":[]}');
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => server.close().closeAllConnections());
  return { seen, name: `127.0.0.1:${(server.address() as AddressInfo).port}/private/words:1` };
}

const SAVE = `mutation ($input: SaveTemplateInput!) { saveTemplate(input: $input) { id } }`;

async function savedEndpoint(platform: TestPlatform, name: string, template: object): Promise<string> {
  const { saveTemplate } = await platform.query<{ saveTemplate: { id: string } }>(SAVE, {
    input: { name, ...template },
  });
  const { saveEndpoint } = await platform.query<{ saveEndpoint: { id: string } }>(
    `mutation ($id: String!) { saveEndpoint(input: {name: "${name}", templateId: $id, instanceIds: "cpu3c-1-2"}) { id } }`,
    { id: saveTemplate.id },
  );
  return `/v2/${saveEndpoint.id}`;
}

test("An image that runs by itself runs on a host: declared, and by a template with its registry's login; over a kill of the agent", {
  skip,
}, async (t) => {
  const image = await imageOfProgram(t, docker);
  const { platform, join, host, url: reached, deploy, call, run, becomes } = await withContainers(t);
  await join("plain", { url: reached });
  const args = ["--shared-volumes", path.join(platform.dataDir, "volumes")];
  const { agent, again, dataDir } = await host("box", { args });
  const source = `from svc import Endpoint\nEndpoint(name="program", image="${image}", workers=(0, 1), volume="shared")\n`;
  const { cwd, url } = await deploy({ "main.py": source });
  const program = url.get("program")!;
  const first = await call(program, {});
  assert.equal(first.output.mode, "image");
  await hasLogged(platform, cwd, ["program", "--job", first.id], /INFO Started\./);

  const gate = "/volumes/shared/gate";
  const long = await run(program, { wait: gate });
  await becomes(program, long, "IN_PROGRESS");
  const [before] = await containersOf(dataDir);
  await agent.signal("SIGKILL");
  await isHere(platform, "box", "away");
  again();
  await isHere(platform, "box");
  writeFileSync(path.join(platform.dataDir, "volumes/app/production/shared/gate"), "");
  assert.equal((await becomes(program, long, "COMPLETED")).retries, undefined);
  assert.deepEqual(
    (await containersOf(dataDir)).map(({ Id }) => Id),
    [before!.Id],
  );

  const saved = await savedEndpoint(platform, "saved", { imageName: image, env: [{ key: "MODE", value: "saved" }] });
  assert.equal((await call(saved, {})).output.mode, "saved");

  // Whose registry asks who pulls: the login goes along, and nowhere else.
  const { seen, name } = await registryFor(t, "ada:secret-of-ada");
  const made = await platform.call("/v1/containerregistryauth", {
    body: { name: "ours", username: "ada", password: "secret-of-ada" },
  });
  assert.equal(made.status, 200, made.text);
  const privately = await savedEndpoint(platform, "private", {
    imageName: name,
    containerRegistryAuthId: made.json.id,
  });
  await platform.call(`${privately}/run`, { body: { input: {} } });
  await eventually(() => assert.ok(seen.some((line) => line.startsWith("/v2/private/words/manifests/1 Basic "))));
  await eventually(async () => {
    const { stdout } = await platform.svc(["status", "private"], { cwd });
    assert.match(stdout, /cannot be pulled/);
    assert.doesNotMatch(stdout, /secret-of-ada/);
  });
});

test("A host with containers whose disk is full says so and goes on with what it has; with room it takes what is new", {
  skip: skip || whyNoSmallDisk,
}, async (t) => {
  const { platform, host, deploy, call } = await withContainers(t);
  const { disk, fill, makeRoom, remove } = changingDisk();
  const { agent } = await host("box", { dataDir: disk });
  t.after(remove);
  const one = (name: string) =>
    `from svc import Endpoint\n\n\n@Endpoint(name="${name}", workers=(0, 1), idle_timeout=1)\ndef ${name}(n: int) -> int:\n    return n\n`;
  const { url } = await deploy({ "main.py": one("first") });
  await call(url.get("first")!, { n: 1 });
  fill();
  const refused = await platform.svc(["deploy", "--app", "other"], { cwd: project(t, { "main.py": one("second") }) });
  assert.notEqual(refused.code, 0, refused.stdout);
  assert.match(`${refused.stdout}${refused.stderr}`, /The disk of this host is full/);
  await call(url.get("first")!, { n: 2 });
  makeRoom();
  const second = (await platform.endpoints()).find(({ name }) => name === "second")!;
  assert.equal((await call(second.url, { n: 3 })).output, 3);
  assert.ok(agent.isAlive);
});

test("A machine joins with containers only when they can reach the platform, and an engine is there", {
  skip,
}, async (t) => {
  const { platform } = await startJoinable(t);
  const { createHostToken: made } = await platform.query<{ createHostToken: { secret: string; fingerprint: string } }>(
    "mutation { createHostToken(input: {}) { secret fingerprint } }",
  );
  const refused = async (env: Record<string, string>) => {
    const args = [`${platform.url}#${made.fingerprint}`, "--data-dir", path.join(tempDir(t), "host"), "--name", "box"];
    const agent = new AgentProcess(args, { ...docker.env, SVC_HOST_TOKEN: made.secret, ...env });
    assert.equal(await agent.ended, 1, agent.stdout);
    return agent.stderr;
  };
  assert.match(await refused({}), /Containers of this machine cannot reach the platform at 127\.0\.0\.1/);
  const both = await refused({ DOCKER_HOST: "unix:///tmp/svc-no-such.sock" });
  assert.match(both, /cannot join yet, for 2 reasons:[\s\S]*The Docker daemon does not run/);
  // Nothing was used up.
  assert.match(await refused({ SVC_DRIVER: "process", SVC_HOST_TOKEN: "svch_other" }), /knows no such token/);
});
