// May take 12 minutes.
/** What becomes of jobs when the machine that runs them, its agent, its link or the platform fails: none lost, none finished twice. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { connect, createServer, type Socket } from "node:net";
import { pipeline } from "node:stream";
import { type TestContext, test } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { eventually } from "../eventually.ts";
import { freePort } from "../free-port.ts";
import { hosts, isHere, networkOf, result, run, startJoinable } from "./joined-hosts.ts";

test("A machine that joins runs jobs; an agent that is killed loses none, and the next one takes its workers over", async (t) => {
  const { platform, join, deploy, ran } = await startJoinable(t);
  const { agent, again } = await join("one");
  const { id, url } = await deploy();
  const jobs = await Promise.all(Array.from({ length: 20 }, (_, n) => run(platform, url, n)));
  for (const [n, job] of jobs.entries()) assert.equal((await result(platform, id, job)).output.n, n);
  const status = await platform.svc(["status", "record"]);
  assert.match(status.stdout, /^worker +w-\S+ READY on one$/m, status.stderr);
  const long = await run(platform, url, 100, 8);
  await eventually(() => assert.ok(ran().includes(100)));
  await agent.signal("SIGKILL");
  await isHere(platform, "one", "away");
  const during = await run(platform, url, 101);
  assert.equal((await result(platform, id, during)).retries, undefined, "its workers go on without an agent");
  again();
  await isHere(platform, "one");
  assert.equal((await result(platform, id, long)).retries, undefined);
  const after = await run(platform, url, 102);
  await result(platform, id, after);
  assert.deepEqual(
    ran().toSorted((a, b) => a - b),
    [...Array(20).keys(), 100, 101, 102],
  );
});

test("An agent that is upgraded hands its workers over to the next one in its place, and one that is told to end waits for what runs", async (t) => {
  const { platform, join, deploy, ran } = await startJoinable(t);
  const { agent } = await join("one");
  const { id, url } = await deploy();
  const long = await run(platform, url, 1, 8);
  await eventually(() => assert.deepEqual(ran(), [1]));
  agent.child.kill("SIGUSR2");
  await eventually(() =>
    assert.match(agent.stdout, /"joined"[\s\S]*"event":"joined","host":"one",[^\n]*"workers":[12]\}/),
  );
  assert.ok(agent.isAlive, "whoever looks after the process sees no end");
  const before = await run(platform, url, 2);
  await result(platform, id, before);
  assert.equal((await result(platform, id, long)).retries, undefined);

  const last = await run(platform, url, 3, 4);
  await eventually(() => assert.ok(ran().includes(3)));
  assert.equal(await agent.signal("SIGTERM"), 0);
  assert.match(agent.stdout, /"event":"leaving"[\s\S]*"event":"left"/);
  assert.equal((await result(platform, id, last)).retries, undefined);
  assert.deepEqual(ran(), [1, 2, 3]);
});

test("An agent that is told to end with its platform ends when nothing runs, not when its grace is over", async (t) => {
  const { platform, join, deploy } = await startJoinable(t);
  // Longer than this test waits.
  const { agent } = await join("one", { args: ["--grace", "600s"] });
  // A worker has shown that the code starts, and waits for jobs.
  await deploy();
  await eventually(async () => assert.equal((await hosts(platform))[0]!.workers.length, 1));
  // The platform does not get to telling it.
  process.kill(platform.pid, "SIGSTOP");
  agent.child.kill("SIGTERM");
  await eventually(() => assert.match(agent.stdout, /"event":"leaving","workers":[12],/));
  await platform.kill();
  await eventually(() => assert.match(agent.stdout, /"event":"away"[\s\S]*"event":"left"/));
  assert.match(agent.stdout, /"event":"ended",[^\n]*"exited with code 0"/);
  assert.equal(await agent.ended, 0);
});

test("A running job on a host outlives the platform: one execution, one result", async (t) => {
  const { platform, join, deploy, ran } = await startJoinable(t, {
    SVC_WORKER_LISTEN: `tls://127.0.0.1:${await freePort()}`,
  });
  await join("one");
  const { id, url } = await deploy();
  const job = await run(platform, url, 7, 6);
  await eventually(() => assert.ok(ran().includes(7)));
  await platform.kill();
  const next = await platform.restart();
  assert.equal((await result(next, id, job)).retries, undefined);
  await isHere(next, "one");
  const [host] = await hosts(next);
  assert.ok(host!.workers.length > 0, "its workers are counted on it again");
  await result(next, id, await run(next, `${next.url}/v2/${id}`, 8));
  assert.deepEqual(ran(), [7, 8]);
});

test("The jobs of a machine that is removed run elsewhere, and its agent ends with what it started", async (t) => {
  const { platform, join, deploy, ran } = await startJoinable(t);
  const { agent } = await join("one");
  const { id, url } = await deploy();
  const job = await run(platform, url, 5, 3);
  await eventually(() => assert.ok(ran().includes(5)));
  const two = await join("two");
  await platform.query('mutation { removeHost(name: "one") }');
  assert.notEqual(await agent.ended, null);
  assert.match(agent.stderr + agent.stdout, /was removed/);
  assert.doesNotMatch(agent.stdout, /"away"/, "nobody dials again");
  assert.equal((await result(platform, id, job)).output.n, 5);
  assert.deepEqual(
    (await hosts(platform)).map(({ name }) => name),
    ["two"],
  );
  assert.ok(two.agent.isAlive);
});

test("Machines join by IPv6, and through a proxy that passes TLS on as it is", async (t) => {
  const env = { SVC_HOST: "::1", SVC_WORKER_LISTEN: "tls://[::1]:0" };
  const { platform, join, deploy, ran } = await startJoinable(t, env);
  const { port } = new URL(platform.url);
  const direct = await join("six", { url: `http://[::1]:${port}` });
  const { id } = await deploy();
  await result(platform, id, await run(platform, `/v2/${id}`, 1));
  assert.equal(await direct.agent.signal("SIGINT"), 0);

  const { port: workerPort } = (await (await fetch(`http://[::1]:${port}/hosts/join`)).json()) as { port: number };
  for (const each of [Number(port), workerPort]) await passOn(t, each);
  await join("four", { url: `http://127.0.0.1:${port}` });
  await result(platform, id, await run(platform, `/v2/${id}`, 2));
  assert.deepEqual(ran(), [1, 2]);
});

/** What comes to this port by IPv4 goes on to the same port by IPv6. */
async function passOn(t: TestContext, port: number): Promise<void> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    const onward = connect(port, "::1");
    for (const end of [socket, onward]) sockets.add(end);
    pipeline(socket, onward, socket, () => {});
  });
  server.listen(port, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
}

for (const [ms, words] of [
  [5_000, "5 s repeats no job"],
  [60_000, "60 s loses no job and gives no result twice"],
] as const) {
  test(`A link that is cut for ${words}`, async (t) => {
    const network = await networkOf(t);
    if (network === undefined) return t.skip("network namespaces cannot be made here");
    const env = { SVC_HOST: "0.0.0.0", SVC_WORKER_LISTEN: "tls://0.0.0.0:0" };
    const { platform, join, deploy, ran } = await startJoinable(t, env);
    await join("one", { url: `http://${network.address}:${new URL(platform.url).port}`, netns: network.id });
    const { id, url } = await deploy();
    const jobs = await Promise.all(Array.from({ length: 10 }, (_, n) => run(platform, url, n, 1)));
    await eventually(() => assert.ok(ran().length > 1));
    await network.cut();
    await delay(ms); // The fault itself lasts so long.
    await network.mend();
    const done = await Promise.all(jobs.map((job) => result(platform, id, job)));
    assert.deepEqual(
      done.map(({ output }) => output.n),
      [...Array(10).keys()],
    );
    if (ms < 10_000)
      assert.deepEqual(
        ran().toSorted((a, b) => a - b),
        [...Array(10).keys()],
      );
    await isHere(platform, "one");
  });
}
