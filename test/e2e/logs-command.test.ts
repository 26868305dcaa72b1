/** `svc logs --follow`, and what `svc call --logs` shows, over a restart of the platform. */
import assert from "node:assert/strict";
import { existsSync, statSync, writeFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { eventually } from "../eventually.ts";
import { startCommand } from "../start-command.ts";
import { project, startPlatform } from "./platform.ts";

test("who follows logs goes on over a restart of the platform, and sees each line once", async (t) => {
  const platform = await startPlatform(t);
  const [begun, over] = ["begun", "over"].map((name) => path.join(platform.shared, name)) as [string, string];
  const source = `
import os, time
from svc import Endpoint

@Endpoint(name="say", workers=(0, 1))
def say(text):
    print(text)

@Endpoint(name="held", workers=(0, 1))
def held():
    print("before")
    open(${JSON.stringify(begun)}, "a").write("x")
    while not os.path.exists(${JSON.stringify(over)}):
        time.sleep(0.01)
    print("after")
`;
  const cwd = project(t, { "worker.py": source });
  assert.equal((await platform.svc(["deploy"], { cwd })).code, 0);
  const env = { PLATFORM_URL: platform.url, PLATFORM_API_KEY: platform.key };
  const follows = (...args: string[]) => startCommand(t, args, { cwd, env });
  const one = follows("logs", "say", "--follow");
  const all = follows("logs", "--follow", "--json");
  const say = async (text: string) =>
    assert.equal((await platform.svc(["call", "say", `text=${text}`], { cwd })).code, 0);
  const shows = (text: string) =>
    eventually(() => {
      for (const { said } of [one, all]) assert.ok(said.out.includes(text), `${said.out}\n${said.err}`);
    });
  await say("first");
  await shows("first");
  const call = follows("call", "held", "--logs");
  await eventually(() => assert.ok(existsSync(begun)));
  await eventually(() => assert.match(call.said.err, /│ before/));

  let running = platform;
  for (const [round, end] of (["stop", "kill"] as const).entries()) {
    await running[end]();
    await eventually(() => {
      for (const { said } of [one, all])
        assert.equal(said.err.match(/The platform does not answer any more, and is asked again\./g)?.length, round + 1);
    });
    running = await platform.restart();
    await say(`round ${round}`);
    await shows(`round ${round}`);
  }
  for (const { said, kill, ended } of [one, all]) {
    for (const text of ["first", "round 0", "round 1"]) assert.equal(said.out.split(text).length, 2, said.out);
    kill("SIGINT");
    assert.equal(await ended, 130);
  }
  writeFileSync(over, "");
  assert.equal(await call.ended, 0, call.said.err);
  // A platform that is told to stop at once gives its job back.
  assert.equal(call.said.err.match(/│ before/g)?.length, statSync(begun).size, call.said.err);
  assert.match(call.said.err, /│ after/);
});

test("who follows logs of a platform that was never there is told at once", async (t) => {
  const platform = await startPlatform(t);
  await platform.stop();
  const { code, stderr } = await platform.svc(["logs", "--follow"]);
  assert.equal(code, 1);
  assert.match(stderr, /cannot be reached/);
});
