// May take 12 minutes.
/** Hosts and platforms of different versions, as npm installs them: what goes on over an upgrade of either, and what is refused in words. */
import assert from "node:assert/strict";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { eventually } from "../eventually.ts";
import { freePort } from "../free-port.ts";
import { AgentProcess } from "../host/agent-process.ts";
import { npmPrefix } from "../other-version.ts";
import { isHere, result, run, startJoinable } from "./joined-hosts.ts";
import { type TestPlatform, tempDir } from "./platform.ts";

/** What it would be one release later, and two: a platform speaks its own protocol and the one before. */
const FIRST = { version: "0.1.7", protocol: 1, oldest: 1 };
const NEXT = { version: "0.2.0", protocol: 2, oldest: 1 };
const LATER = { version: "0.3.0", protocol: 3, oldest: 2 };

async function startWith(t: TestContext, platformVersion: typeof FIRST, hostVersion: typeof FIRST) {
  const [platforms, hosts] = [npmPrefix(t), npmPrefix(t)];
  await platforms.place(platformVersion);
  await hosts.place(hostVersion);
  const port = await freePort();
  const joinable = await startJoinable(t, {
    SVC_WORKER_LISTEN: `tls://127.0.0.1:${port}`,
    SVC_TEST_PROGRAM: platforms.program,
  });
  return { ...joinable, platforms, hosts, onHost: { env: { SVC_TEST_PROGRAM: hosts.program } } };
}

async function shown(platform: TestPlatform): Promise<string> {
  const { stdout, stderr } = await platform.svc(["host", "show", "one"]);
  return stdout + stderr;
}

test("A platform and then its host are upgraded with jobs under way: none is lost or repeated, and the host says its version", async (t) => {
  const { platform, platforms, hosts, join, deploy, ran, onHost } = await startWith(t, FIRST, FIRST);
  const { agent } = await join("one", onHost);
  const { id, url } = await deploy();
  assert.match(await shown(platform), /svc 0\.1\.7/);
  assert.doesNotMatch(await shown(platform), /Problem/);
  const first = await run(platform, url, 1, 12);
  await eventually(() => assert.deepEqual(ran(), [1]));

  // The platform: the job runs on while it is another version that comes up.
  await platforms.install(NEXT);
  await platform.kill();
  const next = await platform.restart();
  assert.equal((await result(next, id, first)).retries, undefined);
  await isHere(next, "one");
  assert.match(await shown(next), /It has svc 0\.1\.7, and the platform 0\.2\.0: install the same on both/);
  await result(next, id, await run(next, url, 2));

  // The host: what runs there is of the version before, what is started from now on may be of either.
  const second = await run(next, url, 3, 8);
  await eventually(() => assert.ok(ran().includes(3)));
  await hosts.install(NEXT);
  agent.child.kill("SIGUSR2");
  await eventually(async () => assert.match(await shown(next), /svc 0\.2\.0/));
  assert.ok(agent.isAlive);
  assert.equal((await result(next, id, second)).retries, undefined);
  assert.doesNotMatch(await shown(next), /Problem/);
  const more = await Promise.all([4, 5, 6].map((n) => run(next, url, n, 2)));
  for (const job of more) assert.equal((await result(next, id, job)).retries, undefined);
  assert.deepEqual(
    ran().toSorted((a, b) => a - b),
    [1, 2, 3, 4, 5, 6],
  );
  assert.equal(await agent.signal("SIGTERM"), 0, agent.stderr);
});

test("A host that is newer than its platform joins while both speak the same, and is told to wait for the platform where they do not", async (t) => {
  const { platform, hosts, join, deploy, ran, onHost } = await startWith(t, FIRST, { ...FIRST, version: "0.1.9" });
  const { agent } = await join("one", onHost);
  const { id, url } = await deploy();
  await result(platform, id, await run(platform, url, 1));
  assert.deepEqual(ran(), [1]);
  assert.match(await shown(platform), /It has svc 0\.1\.9, and the platform 0\.1\.7/);
  assert.equal(await agent.signal("SIGINT"), 0);

  await hosts.place(NEXT);
  const refused = new AgentProcess([`${platform.url}#${"a".repeat(64)}`, "--data-dir", path.join(tempDir(t), "host")], {
    ...onHost.env,
    SVC_HOST_TOKEN: "svch_any",
  });
  assert.equal(await refused.ended, 1, refused.stdout);
  assert.match(
    refused.stderr,
    /This machine's svc 0\.2\.0 and the platform at \S+, svc 0\.1\.7, do not understand each other: this machine's is newer\.[\s\S]*Upgrade the platform first, or install svc 0\.1\.7 on this machine/,
  );
});

test("A host that its platform left two versions behind says what to do, and is back with its new version", async (t) => {
  const { platform, platforms, hosts, join, deploy, ran, onHost } = await startWith(t, FIRST, FIRST);
  const { agent } = await join("one", onHost);
  const { id, url } = await deploy();
  await result(platform, id, await run(platform, url, 1));
  await platforms.place(LATER);
  await platform.kill();
  const later = await platform.restart();
  await eventually(() =>
    assert.match(
      agent.stdout,
      /"away".*svc 0\.1\.7 and the platform at \S+ svc 0\.3\.0, do not understand each other: this machine's is too old\. Install svc 0\.3\.0/,
    ),
  );
  await isHere(later, "one", "away");
  assert.equal(agent.stdout.match(/too old/g)!.length, 1, "said once");

  const late = new AgentProcess([`${later.url}#${"a".repeat(64)}`, "--data-dir", path.join(tempDir(t), "host")], {
    ...onHost.env,
    SVC_HOST_TOKEN: "svch_any",
  });
  assert.equal(await late.ended, 1, late.stdout);
  assert.match(late.stderr, /this machine's is too old\.[\s\S]*Install svc 0\.3\.0 on this machine/);

  await hosts.place(LATER);
  agent.child.kill("SIGUSR2");
  await isHere(later, "one");
  await result(later, id, await run(later, url, 2));
  assert.deepEqual(ran(), [1, 2]);
  assert.equal(await agent.signal("SIGTERM"), 0, agent.stderr);
});
