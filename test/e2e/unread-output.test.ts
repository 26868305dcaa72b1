/** A platform in the foreground, or an agent, whose output nobody reads serves on: its log collector stands still, or its terminal after Ctrl+S. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { childrenOf } from "../children-of.ts";
import { sandbox } from "../cli/run-svc.ts";
import { eventually } from "../eventually.ts";
import { PROGRAM } from "../program.ts";
import { type OutputKind, runUnread } from "../unread-output.ts";
import { invitation, isHere, result, run, startJoinable } from "./joined-hosts.ts";
import { project, tempDir } from "./platform.ts";

const HELLO = `
from svc import Endpoint

@Endpoint(name="hello", workers=(0, 2))
def hello(name: str) -> str:
    return f"hello {name}"
`;

for (const kind of ["pipe", "terminal", "socket"] satisfies OutputKind[]) {
  test(`a platform whose ${kind} nobody reads deploys, replaces what is killed, answers and ends`, async (t) => {
    const box = await sandbox();
    const keyFile = path.join(box.dataDir, "first-key");
    const start = box.command(["platform", "start", "--foreground", "--key-file", keyFile]);
    const platform = await runUnread(t, kind, [process.execPath, ...start], { cwd: box.cwd, env: box.env });
    const of = (file: string) => JSON.parse(readFileSync(path.join(box.dataDir, file), "utf8"));
    const key = await eventually(() => readFileSync(keyFile, "utf8").trim());
    const { url } = of("platform.json");
    const svc = async (args: readonly string[], cwd = box.cwd) => {
      const { code, stdout, stderr } = await box.svc(args, { cwd, env: { PLATFORM_URL: url, PLATFORM_API_KEY: key } });
      assert.equal(code, 0, stderr);
      return stdout;
    };
    await svc(["deploy"], project(t, { "main.py": HELLO }));
    assert.match(await svc(["call", "hello", '{"name": "you"}']), /hello you/);
    // Each is a line of the log: of the launcher itself, and of the platform.
    for (const killed of [() => childrenOf(of("launcher.json").pid), () => [of("launcher.json").pid]]) {
      for (const pid of killed()) process.kill(pid, "SIGKILL");
      assert.match(await svc(["call", "hello", '{"name": "again"}']), /hello again/);
    }
    let said = "";
    platform.read().on("data", (chunk) => {
      said += chunk;
    });
    for (const line of [/Platform at http/, /the launcher .*another one is started/]) {
      await eventually(() => assert.match(said.replace(/^\.+/, ""), line));
    }
    await svc(["platform", "stop"]);
    assert.equal(await platform.end(), 0);
  });
}

test("an agent whose pipe nobody reads joins, runs what comes and leaves", async (t) => {
  const { platform, deploy } = await startJoinable(t);
  const { address, env } = await invitation(platform);
  const join = ["worker", "join", address, "--name", "unread", "--data-dir", path.join(tempDir(t), "host")];
  const agent = await runUnread(t, "pipe", [process.execPath, PROGRAM, ...join], { env: { ...process.env, ...env } });
  await isHere(platform, "unread");
  const { id, url } = await deploy();
  for (const n of [1, 2, 3]) assert.equal((await result(platform, id, await run(platform, url, n))).output.n, n);
  let said = "";
  agent.read().on("data", (chunk) => {
    said += chunk;
  });
  await eventually(() => assert.match(said.replace(/^\.+/, ""), /Started worker w-\S+ of record/));
  process.kill(agent.pid, "SIGINT");
  assert.equal(await agent.end(), 0, said.replace(/^\.+/, ""));
});
