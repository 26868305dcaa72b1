/** A malicious function attacks a running platform, in the default tier. */
import assert from "node:assert/strict";
import { chmodSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { homedir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { project, startPlatform } from "../e2e/platform.ts";
import { ATTACKER } from "./attacks.ts";

const SECRET = "text-that-no-worker-may-read";

const isRoot = process.getuid?.() === 0;

test("Malicious code in one endpoint harms only that endpoint", { timeout: 300_000 }, async (t) => {
  const home = homedir();
  const platform = await startPlatform(t);
  const deploy = await platform.svc(["deploy"], { cwd: project(t, { "main.py": ATTACKER }) });
  assert.equal(deploy.code, 0, deploy.stderr + deploy.stdout);
  const { myself } = await platform.query<{ myself: { endpoints: { pods: { isolation: string }[] }[] } }>(
    "{ myself { endpoints { pods { isolation } } } }",
  );
  const isolation = myself.endpoints.flatMap(({ pods }) => pods.map((pod) => pod.isolation)).join("; ");
  if (!isolation.includes("namespaces")) return t.skip(`this machine makes no namespaces for workers: ${isolation}`);
  const urls = new Map((await platform.endpoints()).map(({ name, url }) => [name, url]));
  const call = async (name: string, input: object) => {
    const { json, text } = await platform.call(`${urls.get(name)}/runsync`, { body: { input } });
    assert.equal(json.status, "COMPLETED", text);
    return json.output;
  };
  const bad = (how: string, argument?: unknown): Promise<string> => call("bad", { how, argument });
  const refused = async (how: string, argument?: unknown) =>
    assert.match(await bad(how, argument), /^refused/, `${how} ${argument}`);

  await t.test("what functions need works", async () => assert.equal(await bad("usable"), "done: all"));

  await t.test("the platform's socket cannot be taken over, nor can there be another beside it", async () => {
    const socket = path.join(platform.dataDir, "run/platform.sock");
    await refused("take_socket", socket);
    await refused("socket_beside", socket);
  });

  await t.test("no file of the machine, the platform or the endpoint's own code can be changed", async () => {
    for (const how of ["package", "interpreter", "source"]) await refused(how);
    const files = [
      "/etc/made-by-a-worker",
      "/etc/passwd",
      "/etc/group",
      "/usr/bin/python3",
      "/proc/sys/kernel/core_pattern",
      "/proc/sysrq-trigger",
    ];
    const cgroups = ["/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/cgroup.procs"];
    for (const file of [...files, ...cgroups, path.join(home, "made-by-a-worker")]) await refused("write", file);
    for (const dir of ["/made", "/run/made", "/dev/made", "/sys/fs/cgroup/memory/made", "/sys/fs/cgroup/made"]) {
      await refused("make", dir);
    }
  });

  await t.test("homes, keys, other platforms and build caches are not there", async () => {
    const hidden = mkdtempSync(path.join(home, ".svc-test-"));
    t.after(() => rmSync(hidden, { recursive: true, force: true }));
    const elsewhere = mkdtempSync("/tmp/svc-other-");
    t.after(() => rmSync(elsewhere, { recursive: true, force: true }));
    for (const dir of [hidden, elsewhere]) {
      chmodSync(dir, 0o755);
      mkdirSync(path.join(dir, "svc"));
      writeFileSync(path.join(dir, "svc/secret.key"), SECRET, { mode: 0o644 });
      assert.match(readFileSync(path.join(dir, "svc/secret.key"), "utf8"), new RegExp(SECRET));
      await refused("read", path.join(dir, "svc/secret.key"));
      await refused("through_process_1", path.join(dir, "svc/secret.key"));
    }
    for (const name of ["platform.db", "secret.key", "launcher.json"]) {
      await refused("read", path.join(platform.dataDir, name));
      await refused("escape_by_descriptor", path.join(platform.dataDir, name));
    }
    await refused("read", "/etc/shadow");
    assert.doesNotMatch(await bad("listing", "/home"), /svctest/);
  });

  await t.test("only harmless devices are there", async () => {
    assert.equal(await bad("devices"), "done: full,null,random,tty,urandom,zero");
    await refused("disk");
  });

  await t.test("sockets of services cannot be reached, whether they have a path or a name", async (t) => {
    const places = [mkdtempSync(path.join(home, ".svc-test-"))];
    if (isRoot) places.push(mkdtempSync("/run/svc-test-"));
    for (const dir of places) {
      const file = path.join(dir, "service.sock");
      const server = createServer().listen(file);
      t.after(() => {
        server.close();
        rmSync(dir, { recursive: true, force: true });
      });
      await new Promise((resolve) => server.once("listening", resolve));
      chmodSync(file, 0o777);
      chmodSync(dir, 0o755);
      await refused("dial", file);
    }
    const name = `svc-test-${process.pid}`;
    const server = createServer().listen({ path: `\0${name}` });
    t.after(() => server.close());
    await new Promise((resolve) => server.once("listening", resolve));
    const said = await bad("dial_abstract", name);
    if (said.startsWith("done")) t.skip("this kernel's Landlock has no rule for abstract sockets (Linux 6.12)");
  });

  await t.test("other processes are neither seen nor killed nor traced", async () => {
    const seen = await bad("processes");
    assert.doesNotMatch(seen, /bin\/svc|platform start|launcher\.py/);
    const [, victim] = (await call("victim", {})) as [number, number];
    for (const pid of [platform.pid, process.pid, 1]) {
      await refused("kill", pid);
      await refused("trace", pid);
    }
    assert.ok(victim > 1);
  });

  await t.test("no way leads to more rights or to another view", async () => {
    await refused("become_root");
    assert.match(await bad("capabilities"), /^done: [0,]+$/);
    await refused("mount", "/tmp");
    await refused("unmount", path.dirname(platform.dataDir));
    for (const how of ["remount", "remount_as_another"]) await refused(how, "/");
  });

  await t.test("nothing of another endpoint is seen, and that one goes on", async () => {
    const [uid] = (await call("victim", {})) as [number, number];
    const folders = (await call("victim", { what: "leave" })) as string[];
    for (const folder of [...folders, "/tmp", "/dev/shm"]) await refused("read", `${folder}/of-the-victim`);
    if (isRoot) {
      assert.ok(uid >= 70_000, `the victim runs as ${uid}`);
    }
    await bad("kill_all"); // All that it sees are its own.
    assert.equal(((await call("victim", {})) as [number, number])[0], uid);
  });
});
