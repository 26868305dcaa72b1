// May take 12 minutes.
/** A machine joins a real platform, takes part and leaves: over loopback or, as root, from network namespaces. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmdirSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { CTRL_C, openPseudoTerminal } from "../cli/pseudo-terminal.ts";
import { dockerForTests } from "../docker.ts";
import { eventually } from "../eventually.ts";
import { AgentProcess } from "../host/agent-process.ts";
import { PROGRAM } from "../program.ts";
import { project, startPlatform, type TestPlatform, tempDir } from "./platform.ts";

const isRoot = process.platform === "linux" && process.getuid?.() === 0;
const needsRoot = isRoot ? false : "needs root";
/** Workers run on hosts that joined, and nowhere else. */
const HOSTS_ALONE = { SVC_WORKER_LISTEN: "tls://127.0.0.1:0", SVC_LOCAL_WORKERS: "0" };

const docker = await dockerForTests();

const PROJECT = {
  "worker.py": `
import os, time
from svc import Endpoint

@Endpoint(name="where", workers=(0, 3), idle_timeout=60)
def where(seconds=0, until=""):
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not (until and os.path.exists(until)):
        time.sleep(0.02)
    return {"file": os.path.abspath(__file__), "pid": os.getpid()}
`,
};

interface HostRow {
  readonly name: string;
  readonly state: string;
}

/** The command that joins a machine, as the platform prints it. */
async function invitation(platform: TestPlatform): Promise<{ address: string; token: string }> {
  const { code, stdout, stderr } = await platform.svc(["host", "token", "create", "--json"]);
  assert.equal(code, 0, stderr);
  const made = JSON.parse(stdout) as { command: string; token: string };
  const [, address] = /worker join '?(\S+?)'? /.exec(`${made.command} `)!;
  return { address: address!, token: made.token };
}

async function joined(t: TestContext, platform: TestPlatform) {
  const { address, token } = await invitation(platform);
  const dir = path.join(tempDir(t), "box");
  const env = { SVC_HOST_TOKEN: token, SVC_WORKER_PATHS: platform.shared };
  return { agent: await began(t, [address, "--data-dir", dir, "--name", "box"], env), dir };
}

/** An agent that has joined; it ends with the test. */
async function began(t: TestContext, args: readonly string[], env: Readonly<Record<string, string>>, netns = "") {
  const agent = new AgentProcess(args, env, netns);
  t.after(() => agent.end());
  await Promise.race([eventually(() => assert.match(agent.stdout, /Joined/)), agent.ended]);
  assert.ok(agent.isAlive, agent.stderr);
  return agent;
}

async function deployed(t: TestContext, platform: TestPlatform, files: Record<string, string> = PROJECT) {
  const { code, stdout, stderr } = await platform.svc(["deploy", "--env", "production"], { cwd: project(t, files) });
  assert.equal(code, 0, stdout + stderr);
  const [endpoint] = await platform.endpoints();
  const run = async (input: object) =>
    (await platform.call(`/v2/${endpoint!.id}/run`, { body: { input } })).json.id as string;
  const done = (id: string) =>
    eventually(async () => {
      const { json } = await platform.call(`/v2/${endpoint!.id}/status/${id}`);
      assert.ok(["COMPLETED", "FAILED"].includes(json.status), JSON.stringify(json));
      return json;
    });
  return { endpoint: endpoint!, run, done };
}

async function hosts(platform: TestPlatform): Promise<HostRow[]> {
  const { stdout } = await platform.svc(["host", "list", "--json"]);
  return JSON.parse(stdout);
}

test("A machine joins, a deploy is prepared there, calls run there; Ctrl+C lets running work finish and leaves nothing", async (t) => {
  const platform = await startPlatform(t, HOSTS_ALONE);
  const { agent, dir } = await joined(t, platform);
  const { run, done } = await deployed(t, platform);
  const first = await done(await run({}));
  assert.equal(first.status, "COMPLETED", JSON.stringify(first));
  assert.ok(first.output.file.startsWith(dir), first.output.file);
  assert.match(agent.stdout, /Prepares where\n[\s\S]*Prepared where in [\s\S]*Started worker \S+ of where/);
  assert.deepEqual(
    (await hosts(platform)).map(({ name }) => name),
    ["box"],
  );

  const gate = path.join(platform.shared, "gate");
  const running = await run({ seconds: 60, until: gate });
  await eventually(async () => {
    const { json } = await platform.call(`/v2/${(await platform.endpoints())[0]!.id}/status/${running}`);
    assert.equal(json.status, "IN_PROGRESS");
  });
  agent.child.kill("SIGINT");
  await eventually(() => assert.match(agent.stdout, /Leaves: \d workers? may finish within 30 s/));
  writeFileSync(gate, "");
  assert.equal(await agent.ended, 0, agent.stderr);
  assert.match(agent.stdout, /Left: no worker runs here any more/);
  assert.equal((await done(running)).status, "COMPLETED");
  // Without a machine a job waits; it runs when one is back.
  const waiting = await run({});
  const { json } = await platform.call(`/v2/${(await platform.endpoints())[0]!.id}/status/${waiting}`);
  assert.equal(json.status, "IN_QUEUE");
});

test("A host whose disk is full says so and goes on; with room it runs the endpoint", {
  skip: needsRoot,
}, async (t) => {
  const platform = await startPlatform(t, HOSTS_ALONE);
  const disk = mkdtempSync(path.join(tmpdir(), "svc-disk-"));
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=1200m,mode=700", "svc-test", disk]);
  const { address, token } = await invitation(platform);
  const agent = await began(t, [address, "--data-dir", path.join(disk, "host"), "--name", "small"], {
    SVC_HOST_TOKEN: token,
  });
  t.after(() => {
    execFileSync("umount", ["-l", disk]);
    rmdirSync(disk);
  });
  const filler = path.join(disk, "filler");
  try {
    execFileSync("dd", ["if=/dev/zero", `of=${filler}`, "bs=1M"], { stdio: "ignore" });
  } catch {} // as much as fits
  const cwd = project(t, PROJECT);
  const refused = await platform.svc(["deploy", "--env", "production"], { cwd });
  assert.match(`${refused.stdout}${refused.stderr}`, /disk of this host is full/);
  assert.ok(agent.isAlive);
  execFileSync("rm", [filler]);
  // The next build is tried at once.
  const changed = project(t, { "worker.py": `${PROJECT["worker.py"]}\n# changed\n` });
  const again = await platform.svc(["deploy", "--env", "production"], { cwd: changed });
  assert.equal(again.code, 0, again.stdout + again.stderr);
  const [{ id } = { id: "" }] = await platform.endpoints();
  const { json } = await platform.call(`/v2/${id}/runsync`, { body: { input: {} } });
  assert.equal(json.status, "COMPLETED", JSON.stringify(json));
});

test("Two machines that can only dial out run an endpoint together", { skip: needsRoot }, async (t) => {
  const names = [`svct${process.pid % 10_000}-a`, `svct${process.pid % 10_000}-b`];
  const subnet = (at: number) => `10.213.${(process.pid + at) % 250}`;
  const gateways: string[] = [];
  for (const [at, name] of names.entries()) {
    const ip = (...args: string[]) => execFileSync("ip", args, { stdio: "pipe" });
    try {
      ip("netns", "add", name);
    } catch (error) {
      return t.skip(`no network namespaces here: ${String((error as { stderr?: Buffer }).stderr).trim()}`);
    }
    t.after(() => execFileSync("ip", ["netns", "del", name]));
    ip("link", "add", `${name}-0`, "type", "veth", "peer", "name", "eth0", "netns", name);
    ip("addr", "add", `${subnet(at)}.1/24`, "dev", `${name}-0`);
    ip("link", "set", `${name}-0`, "up");
    ip("-n", name, "addr", "add", `${subnet(at)}.2/24`, "dev", "eth0");
    ip("-n", name, "link", "set", "eth0", "up");
    ip("-n", name, "link", "set", "lo", "up");
    gateways.push(`${subnet(at)}.1`);
  }
  const platform = await startPlatform(t, {
    ...HOSTS_ALONE,
    SVC_HOST: "0.0.0.0",
    SVC_WORKER_LISTEN: "tls://0.0.0.0:0",
  });
  const { port } = new URL(platform.url);
  const agents = await Promise.all(
    names.map(async (name, at) => {
      const { address, token } = await invitation(platform);
      const own = `http://${gateways[at]}:${port}#${address.split("#")[1]}`;
      const args = [own, "--data-dir", path.join(tempDir(t), name), "--name", name, "--cpus", "1"];
      return began(t, args, { SVC_HOST_TOKEN: token, SVC_CPU_OVERCOMMIT: "1" }, name);
    }),
  );
  const { run, done } = await deployed(t, platform);
  const jobs = await Promise.all(Array.from({ length: 6 }, () => run({ seconds: 3 })));
  const results = await Promise.all(jobs.map(done));
  assert.ok(
    results.every(({ status }) => status === "COMPLETED"),
    JSON.stringify(results),
  );
  const used = new Set(results.map(({ output }) => names.find((name) => output.file.includes(`/${name}/`))));
  assert.deepEqual([...used].sort(), names);
  for (const agent of agents) assert.equal(await agent.signal("SIGTERM"), 0, agent.stderr);
});

test("On a terminal it says what runs; a second Ctrl+C ends running work at once", async (t) => {
  const platform = await startPlatform(t, HOSTS_ALONE);
  const { address, token } = await invitation(platform);
  const dir = tempDir(t);
  const env = { PATH: process.env.PATH ?? "", HOME: dir, SVC_HOST_TOKEN: token };
  const command = [
    process.execPath,
    PROGRAM,
    "worker",
    "join",
    address,
    "--data-dir",
    path.join(dir, "host"),
    "--name",
    "box",
  ];
  const terminal = openPseudoTerminal(command, { cwd: dir, env, columns: 80 });
  t.after(() => terminal.close());
  await terminal.shows(/Ctrl\+C leaves\./);
  const { run, done } = await deployed(t, platform);
  await done(await run({}));
  await terminal.shows(/Prepared where in[\s\S]*Started worker/);
  await run({ seconds: 60 });
  await eventually(async () => assert.ok(terminal.text.includes("Started worker")));
  terminal.type(CTRL_C);
  await terminal.shows(/Leaves/);
  terminal.type(CTRL_C);
  assert.equal(await terminal.ended, 0);
  assert.match(terminal.text, /Left: no worker runs here any more\./);
  const shown = terminal.text.slice(terminal.text.indexOf("Ctrl+C leaves."));
  for (const line of shown.split("\n")) assert.ok(line.length <= 100, line);
});

test("A host runs workers in containers", { skip: docker.skip }, async (t) => {
  const platform = await startPlatform(t, {
    ...HOSTS_ALONE,
    SVC_HOST: "0.0.0.0",
    SVC_WORKER_LISTEN: "tls://0.0.0.0:0",
  });
  const { port } = new URL(platform.url);
  const { address, token } = await invitation(platform);
  // Containers reach this machine by an address of its own, not by loopback.
  const [own] = execFileSync("hostname", ["-I"]).toString().trim().split(" ");
  const dir = path.join(tempDir(t), "host");
  const args = [
    `http://${own}:${port}#${address.split("#")[1]}`,
    "--data-dir",
    dir,
    "--name",
    "box",
    "--driver",
    "docker",
  ];
  const agent = await began(t, args, { ...docker.env, SVC_HOST_TOKEN: token });
  const { run, done } = await deployed(t, platform);
  const result = await done(await run({}));
  assert.equal(result.status, "COMPLETED", JSON.stringify(result));
  assert.match(result.output.file, /^\/opt\/svc\//);
  assert.equal(await agent.signal("SIGTERM"), 0, agent.stderr);
  assert.ok(readFileSync(path.join(dir, "host.json"), "utf8").includes("box"));
});
