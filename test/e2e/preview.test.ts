/** `svc deploy --preview` on a real engine: what runs, who reaches it, and that nothing of it stays. */
import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { randomBytes } from "node:crypto";
import { cpSync } from "node:fs";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { promisify } from "node:util";
import { WebSocket } from "ws";
import { onPath } from "../../src/lib/on-path.ts";
import { runProcess } from "../../src/lib/run-process.ts";
import { dockerForTests } from "../docker.ts";
import { answers, CORPUS_PROJECT } from "./corpus.ts";
import { startPlatform, tempDir } from "./platform.ts";
import { assertNothingLeft, engineHas, type Place, place, SHOP, startPreview } from "./preview.ts";

const docker = await dockerForTests();
const { skip } = docker;

const start = (t: TestContext, where: Place, args: string[] = []) => startPreview(t, where, { args, env: docker.env });

async function post(url: string, body: unknown) {
  const headers = { "content-type": "application/json" };
  const answer = await fetch(url, { method: "POST", headers, body: JSON.stringify(body) });
  const text = await answer.text();
  // biome-ignore lint/suspicious/noExplicitAny: a test looks into any answer
  return { status: answer.status, json: JSON.parse(text) as any };
}

test("A preview: one container for each endpoint, the routes of a deployment, calls by name and by function", {
  skip,
}, async (t) => {
  const shop = place(t);
  const preview = start(t, shop);
  const { api, double } = await preview.ready();
  assert.deepEqual(await engineHas(shop), { containers: 2, networks: 1 });

  await t.test("every printed call works when it is pasted", async () => {
    const calls = preview.stdout().match(/^ {4}curl .*$/gm)!;
    assert.equal(calls.length, 2);
    for (const call of calls) {
      const { stdout } = await promisify(execFile)("/bin/sh", ["-c", `${call} --fail`]);
      assert.match(stdout, /Hello, world|"output":6/);
    }
  });

  await t.test("queue-based: /run and /status as deployed, with and without a key", async () => {
    const { json } = await post(`${double}/run`, { input: { number: 21 } });
    assert.equal(json.status, "IN_QUEUE");
    const status = await fetch(`${double}/status-sync/${json.id}`, { headers: { authorization: "Bearer anything" } });
    assert.equal(((await status.json()) as { output: number }).output, 42);
    assert.equal((await fetch(`${double}/health`)).status, 200);
    assert.equal((await post(`${double}/runsync`, { input: [] })).status, 400);
  });

  await t.test("load-balanced: its routes, its errors, WebSockets", async () => {
    assert.deepEqual(await (await fetch(`${api}/health`)).json(), { status: "ok" });
    assert.equal((await post(`${api}/echo/x`, { text: "a" })).status, 422);
    assert.equal((await fetch(`${api}/nothing`)).status, 404);
    const socket = new WebSocket(`${api!.replace("http", "ws")}/talk`);
    const said = new Promise((resolve) => socket.once("message", (data) => resolve(String(data))));
    socket.once("open", () => socket.send("hello"));
    assert.equal(await said, "back hello");
    socket.terminate();
  });

  await t.test("from one endpoint to another: by its name, and by its function", async () => {
    const inside = double!.replace("localhost", "double");
    assert.ok(preview.stdout().includes(inside), "the name is printed");
    const byName = await post(`${api}/by-name`, { url: `${inside}/runsync`, body: { input: { number: 4 } } });
    assert.equal(byName.json.output, 8, JSON.stringify(byName.json));
    const byFunction = await post(`${api}/by-function`, { number: 5 });
    assert.deepEqual(byFunction.json, { doubled: 10 });
  });

  await t.test("what the endpoints print stands behind their names, what came before too", async () => {
    await preview.said(/^api {4}\| web was imported$/m);
    await preview.said(/^double \| doubling 21$/m);
    await preview.said(/^double \| to stderr$/m);
    assert.doesNotMatch(preview.stdout(), /\u001b/);
  });

  assert.equal(await preview.interrupt(), 0, preview.stderr());
  assert.match(preview.stderr(), /Removed the preview\.\n$/);
  await assertNothingLeft(shop);
  await assert.rejects(fetch(`${api}/health`));
});

test("Ports are the same at the next run; a taken one gives way to the next with a line; previews leave each other alone", {
  skip,
}, async (t) => {
  const shop = place(t);
  const first = start(t, shop);
  const urls = await first.ready();
  // The same project once more, while the first runs.
  const other = { ...shop, cache: tempDir(t) };
  const second = start(t, other);
  const moved = await second.ready();
  for (const [name, url] of Object.entries(urls)) {
    const port = Number(new URL(url).port);
    const now = Number(new URL(moved[name]!).port);
    assert.notEqual(now, port); // The next one; behind the last comes the first.
    assert.match(second.stderr(), new RegExp(`^${name}: Port ${port} is in use, using ${now} instead$`, "m"));
  }
  assert.doesNotMatch(second.stderr(), /interrupted preview/);
  assert.equal((await post(`${moved.double}/runsync`, { input: { number: 1 } })).json.output, 2);
  assert.equal((await post(`${urls.double}/runsync`, { input: { number: 1 } })).json.output, 2);
  assert.equal(await second.interrupt(), 0);
  assert.equal(await first.interrupt(), 0);

  const again = start(t, shop, ["--json"]);
  await again.said(/\n}\n/);
  const { app, endpoints } = JSON.parse(again.stdout()) as {
    app: string;
    endpoints: { name: string; url: string; port: number; insideUrl: string; examples: { command: string }[] }[];
  };
  assert.equal(app, path.basename(shop.cwd));
  for (const { name, url, port, insideUrl, examples } of endpoints) {
    assert.equal(url, urls[name]);
    assert.equal(insideUrl, `http://${name}:${port}`);
    assert.ok(examples.every(({ command }) => !command.includes("Authorization")));
  }
  assert.equal(await again.interrupt(), 0);
});

test("An endpoint that cannot start ends the preview with its reason and its output, and nothing stays", {
  skip,
}, async (t) => {
  const broken = place(t, {
    ...SHOP,
    "bad.py":
      'from svc import Endpoint\nprint("so far so good")\nraise RuntimeError("not today")\n@Endpoint(name="bad")\ndef bad(): ...\n',
  });
  const preview = start(t, broken);
  assert.equal(await preview.ended(), 1);
  assert.match(preview.stderr(), /error: An endpoint of the preview cannot run\.\n.*bad.*not today/);
  assert.match(preview.stderr(), /Correct what it says and run svc deploy --preview again\.$/m);
  assert.doesNotMatch(preview.stderr(), /\.ts:\d/);
  assert.match(preview.stdout(), /^bad +\| so far so good$/m);
  await assertNothingLeft(broken);
});

test("A preview answers a corpus of requests like a deployment in processes", { skip }, async (t) => {
  const cache = tempDir(t);
  // A copy: the preview writes its build beside the code.
  const cwd = path.join(tempDir(t), `corpus-${randomBytes(4).toString("hex")}`);
  cpSync(CORPUS_PROJECT, cwd, { recursive: true, filter: (file) => path.basename(file) !== ".svc" });
  const preview = start(t, { cwd, cache });
  const urls = await preview.ready();
  const here = await answers(async (endpoint, route, options) => {
    const answer = await fetch(urls[endpoint] + route, options);
    return { status: answer.status, headers: answer.headers, text: await answer.text() };
  });
  await preview.interrupt();

  const platform = await startPlatform(t);
  const deployed = await platform.svc(["deploy"], { cwd, env: { SVC_CACHE_DIR: cache } });
  assert.equal(deployed.code, 0, deployed.stderr);
  const endpoints = await platform.endpoints();
  const there = await answers(async (endpoint, route, options) => {
    const { url } = endpoints.find(({ name }) => name === endpoint)!;
    const headers = { ...options.headers, authorization: `Bearer ${platform.key}` };
    const answer = await fetch(url + route, { ...options, headers });
    return { status: answer.status, headers: answer.headers, text: await answer.text() };
  });
  assert.deepEqual(here, there);
});

test("A firewall between the containers and this machine is noticed and named", {
  skip: skip || noFirewall(),
}, async (t) => {
  const shop = place(t);
  const preview = start(t, shop);
  await preview.said(/Uploading/);
  // It goes on when the firewall is there.
  preview.child.kill("SIGSTOP");
  const networks = await docker.engine.listNetworks({ filters: { label: ["svc.preview"] } });
  const own = networks.find(({ Labels: labels }) => labels?.["svc.preview.owner"]?.startsWith(shop.cache))!;
  const subnet = own.IPAM!.Config![0]!.Subnet!;
  const rule = ["INPUT", "--in-interface", `br-${own.Id.slice(0, 12)}`, "--jump", "DROP"];
  await runProcess("iptables", ["--wait", "--insert", ...rule]);
  t.after(() => runProcess("iptables", ["--wait", "--delete", ...rule]));
  preview.child.kill("SIGCONT");
  await preview.said(/warning: Containers cannot reach this machine at [\d.]+; endpoints cannot call each other\./);
  await preview.said(new RegExp(`sudo ufw allow from ${subnet.replaceAll(".", "\\.")}`));
  await preview.interrupt();
});

function noFirewall(): string | false {
  if (process.getuid?.() !== 0) return "only root can put a firewall in the way";
  return onPath("iptables", `${process.env.PATH}:/usr/sbin`) === undefined ? "iptables is not installed" : false;
}
