/** The disk of the volumes hangs, as a mount of another machine does: what needs no volume goes on, and the rest when it is back. */
import assert from "node:assert/strict";
import { execFileSync, spawnSync } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { eventually } from "../eventually.ts";
import { hangingDisk, lackOfHangingDisk } from "../hanging-disk.ts";
import { project, startPlatform, type TestPlatform } from "./platform.ts";

const SOURCE = `
import os
from svc import Endpoint

@Endpoint(name="plain", idle_timeout=1)
def plain():
    home = os.environ.get("HF_HOME")
    if home:
        os.makedirs(home, exist_ok=True)
    return ["code 1", bool(home)]

@Endpoint(name="bare", idle_timeout=1)
def bare():
    return "bare"

@Endpoint(name="kept", volume="models", idle_timeout=1)
def kept(text: str = ""):
    if text:
        with open("/volumes/models/notes", "a") as notes:
            notes.write(text)
    return open("/volumes/models/notes").read()
`;

/** All workers have ended. */
function idle(platform: TestPlatform) {
  return eventually(async () => {
    for (const { url } of await platform.endpoints()) {
      const { workers } = (await platform.call(`${url}/health`)).json;
      assert.deepEqual([workers.idle, workers.running, workers.initializing], [0, 0, 0]);
    }
  });
}

test("A disk of volumes that hangs holds up what has volumes, and nothing else: calls, deploys, stop and start go on, and it heals", async (t) => {
  const lack = await lackOfHangingDisk();
  if (lack !== undefined) return t.skip(lack);
  const { disk, hang, answer } = await hangingDisk(t);
  let platform = await startPlatform(t, { SVC_VOLUMES_DIR: disk });
  const dir = project(t, { "main.py": SOURCE });
  const svc = (...args: string[]) => platform.svc(args, { cwd: dir });
  const call = async (name: string, input: object, how = "runsync") => {
    const { url } = (await platform.endpoints()).find((one) => one.name === name)!;
    return platform.call(`${url}/${how}`, { body: { input } });
  };
  const output = async (name: string, input: object = {}) => {
    const { json } = await call(name, input);
    return json.output ?? json;
  };

  const upload = randomUUID();
  const put = async (text: string, offset: number, complete: boolean) => {
    const headers = { "upload-offset": String(offset), "upload-complete": complete ? "?1" : "?0" };
    const url = new URL(`/volumes/app/production/models/files/parts?upload=${upload}`, platform.url);
    const authorization = `Bearer ${platform.key}`;
    const answered = await fetch(url, { method: "PUT", headers: { ...headers, authorization }, body: text });
    return [answered.status, await answered.text()] as const;
  };

  const deployed = await svc("deploy");
  assert.equal(deployed.code, 0, deployed.stderr);
  assert.deepEqual(await output("plain"), ["code 1", true]);
  assert.equal(await output("bare"), "bare");
  assert.equal(await output("kept", { text: "one" }), "one");
  await idle(platform);

  hang();
  assert.equal(await output("bare"), "bare", "before anybody knows");
  const waiting = (await call("kept", { text: " two" }, "run")).json;
  await eventually(async () => {
    const { stdout, stderr } = await svc("status");
    assert.match(
      stdout + stderr,
      /warning: The disk of the volumes, \S+, does not answer\. Workers without volumes go on/,
    );
    assert.match(stdout, /^kept: The disk of the volumes, \S+, does not answer\. Look after that disk/m);
  });
  assert.deepEqual(await output("plain"), ["code 1", false], "it does without its cache");
  for (const args of [["list"], ["ls", "models"], ["rm", "models", "notes"], ["put", "models", "main.py"]]) {
    const { code, stderr } = await svc("volume", ...args);
    assert.equal(code, 1);
    assert.match(stderr, /The disk of the volumes, \S+, does not answer.*\n.*svc help VOLUMES_AWAY/, args.join(" "));
  }
  writeFileSync(path.join(dir, "main.py"), SOURCE.replace("code 1", "code 2"));
  const again = await svc("deploy");
  assert.match(again.stderr, /kept: The disk of the volumes, \S+, does not answer/);
  await eventually(async () => assert.deepEqual(await output("plain"), ["code 2", false], "a new revision starts"));

  await platform.stop();
  platform = await platform.restart();
  assert.deepEqual(await output("plain"), ["code 2", false]);
  assert.equal((await call("kept", {}, `status/${waiting.id}`)).json.status, "IN_QUEUE");

  answer();
  await eventually(async () => assert.equal((await call("kept", {}, `status/${waiting.id}`)).json.output, "one two"));
  await eventually(async () => {
    await idle(platform);
    assert.deepEqual(await output("plain"), ["code 2", true], "it has its cache again");
  });

  assert.equal((await put("first, ", 0, false))[0], 200);
  hang();
  assert.equal((await put("second", 7, true))[0], 503);
  answer();
  await eventually(async () => assert.equal((await put("second", 7, true))[0], 200, "what had arrived was kept"));
  assert.equal((await svc("volume", "get", "models", "parts", "-")).stdout, "first, second");
  assert.doesNotMatch((await svc("status")).stdout, /does not answer/);
});

test("A disk of volumes that is not mounted, at a start or later, gets nothing made in its place: what needs it waits until it is back", {
  skip: process.getuid?.() === 0 ? false : "needs root to mount a disk",
}, async (t) => {
  const dir = mkdtempSync(path.join(tmpdir(), "svc-mount-"));
  const [behind, disk] = ["behind", "disk"].map((name) => path.join(dir, name)) as [string, string];
  for (const folder of [behind, disk]) mkdirSync(folder);
  const mount = () => execFileSync("mount", ["--bind", behind, disk]);
  const unmount = () => execFileSync("umount", ["-l", disk]);
  mount();
  const remove = () => {
    spawnSync("umount", ["-l", disk]);
    rmSync(dir, { recursive: true });
  };
  t.after(() => t.after(remove)); // after the platform
  let platform = await startPlatform(t, { SVC_VOLUMES_DIR: disk });
  const cwd = project(t, { "main.py": SOURCE });
  const deployed = await platform.svc(["deploy"], { cwd });
  assert.equal(deployed.code, 0, deployed.stderr);
  const call = async (name: string, input: object, how: string) => {
    const { url } = (await platform.endpoints()).find((one) => one.name === name)!;
    return (await platform.call(`${url}/${how}`, { body: { input } })).json;
  };
  assert.equal((await call("kept", { text: "one" }, "runsync")).output, "one");

  const isMissed = async (on: TestPlatform) => {
    const said = /The folder of the volumes, \S+, is not the one that it was: it lacks \S+/;
    await eventually(async () => {
      const { stdout, stderr } = await on.svc(["status"], { cwd });
      assert.match(stdout + stderr, new RegExp(`warning: ${said.source}`));
      assert.match(stdout, new RegExp(`^kept: ${said.source}`, "m"));
    });
    const { code, stderr } = await on.svc(["volume", "ls", "models"], { cwd });
    assert.equal(code, 1);
    assert.match(stderr, said);
    assert.match(stderr, /echo \S+ > \S+\.svc-platform/);
    assert.deepEqual((await call("plain", {}, "runsync")).output, ["code 1", false]);
    assert.deepEqual(readdirSync(disk), []);
  };

  await platform.stop();
  unmount();
  platform = await platform.restart();
  const first = await call("kept", { text: " two" }, "run");
  await isMissed(platform);
  mount();
  await eventually(async () => assert.equal((await call("kept", {}, `status/${first.id}`)).output, "one two"));

  await idle(platform);
  unmount();
  const second = await call("kept", { text: " three" }, "run");
  await isMissed(platform);
  mount();
  await eventually(async () => assert.equal((await call("kept", {}, `status/${second.id}`)).output, "one two three"));
  assert.equal((await platform.svc(["volume", "get", "models", "notes", "-"], { cwd })).stdout, "one two three");
});
