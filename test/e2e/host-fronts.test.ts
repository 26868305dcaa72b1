// May take 12 minutes.
/** What stands between a machine and its platform: NAT, IPv6, and fronts that pass TCP on and cut what is silent. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { eventually } from "../eventually.ts";
import { freePort } from "../free-port.ts";
import { cutOnce, type FrontKind, findFront, silentServer, startFront } from "./fronts.ts";
import { isHere, natOf, networkOf, result, run, startJoinable } from "./joined-hosts.ts";

const ANYWHERE = { SVC_HOST: "0.0.0.0", SVC_WORKER_LISTEN: "tls://0.0.0.0:0" };
/** Longer than the silence after which both ends ask each other, shorter than any front's own. */
const IDLE_S = 8;

for (const kind of ["nginx", "HAProxy"] satisfies FrontKind[]) {
  test(`${kind} passes on what a host needs, and its time limit for silent connections cuts neither agent nor worker`, async (t) => {
    const front = await findFront(kind);
    if ("missing" in front) return t.skip(front.missing);
    const [port, http, workers, silent] = await Promise.all(
      ["127.0.0.1", "127.0.0.2", "127.0.0.2", "127.0.0.2"].map((host) => freePort(host)),
    );
    const { platform, join, deploy, ran } = await startJoinable(t, {
      SVC_WORKER_LISTEN: `tls://127.0.0.1:${port}`,
      SVC_WORKER_PUBLIC: `tls://127.0.0.2:${workers}`,
    });
    const ways = {
      [`127.0.0.2:${http}`]: `127.0.0.1:${new URL(platform.url).port}`,
      [`127.0.0.2:${workers}`]: `127.0.0.1:${port}`,
      [`127.0.0.2:${silent}`]: await silentServer(t),
    };
    await startFront(t, front, ways, IDLE_S);
    const { agent } = await join("one", { url: `http://127.0.0.2:${http}` });
    const { id, url } = await deploy();
    const { workerId } = await result(platform, id, await run(platform, url, 1));
    for (let cut = 0; cut < 2; cut++) await cutOnce(`127.0.0.2:${silent}`);
    const later = await result(platform, id, await run(platform, url, 2));
    assert.equal(later.workerId, workerId, "the same worker, by the same link");
    // A job that says nothing for longer than that.
    const quiet = await run(platform, url, 3, IDLE_S * 1.5);
    assert.equal((await result(platform, id, quiet)).retries, undefined);
    assert.deepEqual(ran(), [1, 2, 3]);
    assert.doesNotMatch(agent.stdout, /"away"/);
  });
}

test("A machine behind NAT joins and works; when the NAT gets another address, its links are dialled anew and the job is not repeated", async (t) => {
  const nat = await natOf(t);
  if (typeof nat === "string") return t.skip(nat);
  const { platform, join, deploy, ran } = await startJoinable(t, ANYWHERE);
  const { agent } = await join("one", {
    url: `http://${nat.address}:${new URL(platform.url).port}`,
    netns: nat.id,
  });
  const { id, url } = await deploy();
  await result(platform, id, await run(platform, url, 1));
  const long = await run(platform, url, 2, 25);
  await eventually(() => assert.deepEqual(ran(), [1, 2]));
  await nat.moves();
  assert.equal((await result(platform, id, long)).retries, undefined);
  await isHere(platform, "one");
  await result(platform, id, await run(platform, url, 3));
  assert.deepEqual(ran(), [1, 2, 3]);
  assert.ok(agent.isAlive);
});

test("A machine of IPv6 alone joins with the address in brackets", async (t) => {
  const network = await networkOf(t, "IPv6");
  if (network === undefined) return t.skip("network namespaces cannot be made here");
  const { platform, join, deploy, ran } = await startJoinable(t, {
    SVC_HOST: "::",
    SVC_WORKER_LISTEN: "tls://[::]:0",
  });
  await join("one", { url: `http://[${network.address}]:${new URL(platform.url).port}`, netns: network.id });
  const { id, url } = await deploy();
  await result(platform, id, await run(platform, url, 1));
  assert.deepEqual(ran(), [1]);
});

test("A port that is closed to a machine is named before it joins, with the way to open it", async (t) => {
  const network = await networkOf(t);
  if (network === undefined) return t.skip("network namespaces cannot be made here");
  const { platform, join } = await startJoinable(t, { SVC_HOST: "0.0.0.0" });
  const { port } = (await (await fetch(`${platform.url}/hosts/join`)).json()) as { port: number };
  // The platform says that it listens on its loopback alone.
  const refused = join("one", {
    url: `http://${network.address}:${new URL(platform.url).port}`,
    netns: network.id,
  });
  await assert.rejects(refused, (error: Error) => {
    const words = `port for other machines, 127\\.0\\.0\\.1:${port}, cannot be reached: connect ECONNREFUSED[\\s\\S]*SVC_WORKER_PUBLIC`;
    assert.match(error.message, new RegExp(words));
    return true;
  });
});
