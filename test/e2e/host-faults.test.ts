// May take 12 minutes.
/** What becomes of a host and its jobs when a machine is gone, a platform is upgraded, a database dies, a disk is full, or a front stands between. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { writeFileSync } from "node:fs";
import { request } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { createServer as createTlsServer } from "node:tls";
import { selfSignedCertificate } from "../../src/lib/self-signed-certificate.ts";
import { eventually } from "../eventually.ts";
import { freePort } from "../free-port.ts";
import { AgentProcess } from "../host/agent-process.ts";
import { findPostgres, startPostgres } from "../postgres.ts";
import { changingDisk, whyNoSmallDisk } from "../small-disk.ts";
import { hosts, isHere, networkOf, result, run, startJoinable } from "./joined-hosts.ts";
import { project, tempDir } from "./platform.ts";
import { PULL_PROGRAM } from "./pull-program.ts";

const found = await findPostgres();
const withoutPostgres = "missing" in found && found.missing;
const ownPort = async () => ({ SVC_WORKER_LISTEN: `tls://127.0.0.1:${await freePort()}` });

test("The job of a machine that is gone runs once more on another, and what the machine says of it later is not taken", async (t) => {
  const network = await networkOf(t);
  if (network === undefined) return t.skip("network namespaces cannot be made here");
  const { platform, join, deploy, ran } = await startJoinable(t, {
    SVC_HOST: "0.0.0.0",
    SVC_WORKER_LISTEN: "tls://0.0.0.0:0",
  });
  await join("one", { url: `http://${network.address}:${new URL(platform.url).port}`, netns: network.id });
  const { id, url } = await deploy();
  const job = await run(platform, url, 5, 20);
  await eventually(() => assert.deepEqual(ran(), [5]));
  await network.cut();
  await join("two");
  const done = await result(platform, id, job);
  assert.deepEqual([done.output.n, done.retries], [5, 1]);
  await isHere(platform, "one", "away");
  await network.mend();
  await isHere(platform, "one");
  assert.deepEqual(await result(platform, id, job), done);
  await result(platform, id, await run(platform, url, 6));
  assert.deepEqual(ran(), [5, 5, 6]);
});

test("A program that pulls its jobs on a machine that is gone is counted out, and its job runs on another", async (t) => {
  const network = await networkOf(t);
  if (network === undefined) return t.skip("network namespaces cannot be made here");
  const { platform, join } = await startJoinable(t, {
    SVC_HOST: "0.0.0.0",
    SVC_WORKER_LISTEN: "tls://0.0.0.0:0",
  });
  await join("one", { url: `http://${network.address}:${new URL(platform.url).port}`, netns: network.id });
  const declared =
    'from svc import Endpoint\nEndpoint(name="program", command=["python", "worker.py"], protocol="pull", workers=(0, 1))\n';
  const cwd = project(t, { "main.py": declared, "worker.py": PULL_PROGRAM });
  const { code, stderr } = await platform.svc(["deploy"], { cwd });
  assert.equal(code, 0, stderr);
  const { id, url } = (await platform.endpoints())[0]!;
  const gate = path.join(platform.shared, "gate");
  const job = await platform.call(`${url}/run`, { body: { input: { wait: gate } } });
  await eventually(async () => {
    assert.equal((await platform.call(`${url}/status/${job.json.id}`)).json.status, "IN_PROGRESS");
  });
  await network.cut();
  await join("two");
  writeFileSync(gate, "");
  await result(platform, id, job);
  await eventually(async () => {
    const one = (await hosts(platform)).find(({ name }) => name === "one");
    assert.deepEqual([one?.state, one?.workers], ["away", []]);
  });
  await network.mend();
  await isHere(platform, "one");
});

test("A deploy for which no machine is there says so beside workers of before, and a machine with the label takes it up", async (t) => {
  const { platform, join } = await startJoinable(t);
  await join("one");
  const source = (more: string) =>
    `from svc import Endpoint\n\n\n@Endpoint(name="where", workers=(0, 1), idle_timeout=600${more})\ndef where(n: int) -> int:\n    return n\n`;
  const deploy = (more: string) => platform.svc(["deploy"], { cwd: project(t, { "main.py": source(more) }) });
  assert.equal((await deploy("")).code, 0);
  const endpoint = (await platform.endpoints())[0]!;
  const call = async () => (await platform.call(`${endpoint.url}/runsync`, { body: { input: { n: 1 } } })).json;
  assert.equal((await call()).status, "COMPLETED");
  const moved = await deploy(', hosts="rack-2"');
  assert.equal(moved.code, 0, moved.stderr);
  assert.match(moved.stderr, /There is no machine with the label "rack-2"\. Let one join with it/);
  await join("two", { args: ["--labels", "rack-2"] });
  await eventually(async () => {
    assert.equal((await call()).status, "COMPLETED");
    const two = (await hosts(platform)).find(({ name }) => name === "two");
    assert.equal(two?.workers.length, 1);
  });
  const large = await deploy(', cpu="640-2560"');
  assert.equal(large.code, 1, large.stdout);
  assert.match(large.stderr, /and the largest of 2 machines, (one|two), promises \d+ vCPU and \d+ GB in all/);
});

test("A platform that is told to end, as for an upgrade, lets the jobs of its hosts finish, and the next one has its hosts back", async (t) => {
  const { platform, join, deploy, ran } = await startJoinable(t, await ownPort());
  const { agent } = await join("one");
  const { id, url } = await deploy();
  const job = await run(platform, url, 1, 5);
  await eventually(() => assert.deepEqual(ran(), [1]));
  process.kill(platform.pid, "SIGTERM");
  await eventually(() => assert.throws(() => process.kill(platform.pid, 0)));
  const next = await platform.restart();
  assert.equal((await result(next, id, job)).output.n, 1);
  await isHere(next, "one");
  await result(next, id, await run(next, url, 2));
  assert.deepEqual(ran(), [1, 2]);
  assert.ok(agent.isAlive);
});

test("A host of a platform on PostgreSQL keeps its job while both the platform and the database die, and while the database does", {
  skip: withoutPostgres,
}, async (t) => {
  const server = await startPostgres((found as { bin: string }).bin, { durable: true });
  const env = { ...(await ownPort()), SVC_DATABASE_URL: await server.database("hosts") };
  const { platform, join, deploy, ran } = await startJoinable(t, env);
  t.after(() => server.stop());
  await join("one");
  const { id, url } = await deploy();
  const first = await run(platform, url, 1, 8);
  await eventually(() => assert.deepEqual(ran(), [1]));
  await Promise.all([server.kill("SIGQUIT"), platform.kill()]);
  await server.start();
  const next = await platform.restart();
  assert.equal((await result(next, id, first)).retries, undefined);
  await isHere(next, "one");
  const second = await run(next, url, 2, 5);
  await eventually(() => assert.deepEqual(ran(), [1, 2]));
  await server.kill("SIGQUIT");
  await server.start();
  assert.equal((await result(next, id, second)).retries, undefined);
  await isHere(next, "one");
  assert.deepEqual(ran(), [1, 2]);
});

test("A host whose disk is full says so and goes on with what it has; with room it takes what is new", {
  skip: whyNoSmallDisk,
}, async (t) => {
  const { disk, fill, makeRoom, remove } = changingDisk();
  const { platform, join, deploy } = await startJoinable(t);
  const { agent } = await join("one", { dataDir: disk });
  t.after(remove);
  const { id, url } = await deploy();
  await result(platform, id, await run(platform, url, 1));
  fill();
  const other = project(t, {
    "other.py":
      'from svc import Endpoint\n\n\n@Endpoint(name="other", workers=(0, 1))\ndef other(n: int) -> int:\n    return n\n',
  });
  const refused = await platform.svc(["deploy", "--app", "other"], { cwd: other });
  assert.notEqual(refused.code, 0, refused.stdout);
  assert.match(`${refused.stdout}${refused.stderr}`, /The disk of this host is full/);
  await result(platform, id, await run(platform, url, 2));
  assert.ok(agent.isAlive);
  makeRoom();
  const late = (await platform.endpoints()).find(({ name }) => name === "other")!;
  const waited = await platform.call(`${late.url}/run`, { body: { input: { n: 3 } } });
  assert.equal((await result(platform, late.id, waited)).output, 3, "without another deploy");
});

/** Ends HTTPS with a certificate of its own and passes requests on, as a load balancer does; `change` sees each answer's head and text of /hosts/join. */
async function httpsFront(t: TestContext, to: string) {
  const authority = selfSignedCertificate("localhost");
  const file = path.join(tempDir(t), "authority.pem");
  writeFileSync(file, authority.cert);
  const seen: string[] = [];
  /** The answer to /hosts/join, changed. */
  const change: { date?: string; port?: number } = {};
  const front = createServer(authority, (req, res) => {
    seen.push(`${req.method} ${req.url}`);
    const onward = request(`${to}${req.url}`, { method: req.method, headers: req.headers }, (answer) => {
      const { date, port } = change;
      const headers = { ...answer.headers, ...(date !== undefined && { date }) };
      if (port === undefined || req.url !== "/hosts/join") {
        res.writeHead(answer.statusCode!, headers);
        return void answer.pipe(res);
      }
      delete headers["content-length"];
      let text = "";
      answer.setEncoding("utf8").on("data", (more: string) => {
        text += more;
      });
      answer.on("end", () => res.writeHead(200, headers).end(JSON.stringify({ ...JSON.parse(text), port })));
    });
    onward.on("error", () => res.destroy());
    req.pipe(onward);
  });
  front.listen(0, "127.0.0.1");
  await once(front, "listening");
  t.after(() => front.close().closeAllConnections());
  return {
    url: `https://localhost:${(front.address() as AddressInfo).port}`,
    env: { NODE_EXTRA_CA_CERTS: file },
    seen,
    change,
    authority,
  };
}

test("Through a front that ends HTTPS by a company's own authority a machine joins, fetches layers and runs jobs; what cannot work is said before", async (t) => {
  const { platform, join, deploy, ran } = await startJoinable(t);
  const front = await httpsFront(t, platform.url);
  const refused = async (more: Record<string, string> = {}) => {
    const args = [front.url, "--name", "late", "--data-dir", path.join(tempDir(t), "host")];
    const agent = new AgentProcess(args, { ...front.env, SVC_HOST_TOKEN: "svch_any", ...more });
    assert.equal(await agent.ended, 1, agent.stdout);
    return agent.stderr;
  };
  front.change.date = new Date(Date.now() + 3_600_000).toUTCString();
  assert.match(await refused(), /clock is 3[56]\d\d s behind[\s\S]*NTP/);
  delete front.change.date;

  // A front that ends TLS before the port for machines, too.
  const ends = createTlsServer(front.authority, (socket) => socket.on("error", () => {}).end());
  ends.listen(0, "127.0.0.1");
  await once(ends, "listening");
  t.after(() => ends.close());
  front.change.port = (ends.address() as AddressInfo).port;
  assert.match(await refused(), /is not the platform with this fingerprint[\s\S]*has to pass TLS on as it is/);
  delete front.change.port;

  const { createHostToken: made } = await platform.query<{
    createHostToken: { secret: string; token: { id: string } };
  }>("mutation { createHostToken(input: {}) { secret token { id } } }");
  await platform.query(`mutation { revokeHostToken(id: "${made.token.id}") }`);
  assert.match(await refused({ SVC_HOST_TOKEN: made.secret }), /does not let this machine in: .*revoked/);

  await join("one", { url: front.url, env: front.env });
  const { id } = await deploy();
  await result(platform, id, await run(platform, `${platform.url}/v2/${id}`, 1));
  assert.deepEqual(ran(), [1]);
  assert.ok(
    front.seen.some((line) => line.startsWith("GET /layers/")),
    front.seen.join("\n"),
  );
});
