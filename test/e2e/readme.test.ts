/** What the README says is run as it stands there. */
import assert from "node:assert/strict";
import { mkdtempSync, readFileSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { runProcess } from "../../src/lib/run-process.ts";
import { removeFolder } from "../remove-folder.ts";
import { project, ROOT, tempDir } from "./platform.ts";

const readme = readFileSync(path.join(ROOT, "README.md"), "utf8");

/** The shell blocks below a heading, joined. */
function commands(heading: string): string {
  const section = readme.split(/^## /m).find((text) => text.startsWith(heading));
  assert.ok(section, `README.md has a section "${heading}"`);
  return [...section.matchAll(/^```sh\n([\s\S]*?)^```/gm)].map((match) => match[1]).join("\n");
}

/** A shell whose platform, key and caches are the test's own. */
function shell(t: TestContext) {
  const home = mkdtempSync(path.join(tmpdir(), "svc-readme-"));
  const env = {
    PATH: `${path.join(ROOT, "bin")}:${process.env.PATH}`,
    HOME: process.env.HOME,
    SVC_DATA_DIR: path.join(home, "data"),
    SVC_CONFIG_DIR: path.join(home, "config"),
    SVC_EMULATE_GPU: "1",
    NO_COLOR: "1",
  };
  t.after(async () => {
    await runProcess("svc", ["platform", "stop", "--now"], { env, cwd: ROOT });
    await removeFolder(home);
  });
  return { env, run: (cwd: string, script: string) => runProcess("bash", ["-euc", script], { cwd, env }) };
}

test("The five minutes of the README work as written, from svc init to svc platform stop", async (t) => {
  const script = commands("Five minutes")
    .split("\n")
    // The clone is set up already, and its bin folder is on the PATH.
    .filter((line) => !/^(make setup|export PATH=)/.test(line))
    .join("\n");
  assert.match(script, /svc init hello[\s\S]*svc deploy[\s\S]*svc undeploy/);
  // What stands below "Call" is done in between, as it says.
  const python = /^## Call\n[\s\S]*?^```python\n([\s\S]*?)^```/m.exec(readme)?.[1];
  assert.match(python ?? "", /from cpu_worker import summarize/);
  const [deployed, removal] = script.split(/^(?=svc undeploy)/m);
  const cwd = tempDir(t);
  writeFileSync(path.join(cwd, "call.py"), python!);
  const calls = `(export PIP_NO_INDEX=1\n${commands("Call")}\ncp ../call.py . && python call.py)\n`;
  const result = await shell(t).run(cwd, `${deployed}${calls}${removal}`);
  assert.equal(result.code, 0, result.stdout + result.stderr);
  assert.match(result.stdout, /curl .*\/runsync/);
  assert.match(result.stdout, /^\{'count': 3, 'mean': 2\.0,.*\}\n\[\{'count': 1,.*\{'count': 2,/m);
});

test("The first example of the README works: its function, its deploy, its calls from a shell", async (t) => {
  const python = /^```python\n([\s\S]*?)^```/m.exec(readme)?.[1];
  const calls = /^```sh\n([\s\S]*?)^```/m.exec(readme)?.[1];
  assert.ok(python && calls);
  const cwd = project(t, { "word_count.py": python }, "words");
  const [deploy, ...curl] = calls.trim().split("\n");
  const script = [
    deploy,
    "URL=$(svc status --json | python3 -c 'import json, sys; print(json.load(sys.stdin)[0][\"url\"])')",
    "export PLATFORM_API_KEY=$(svc whoami --show-key)",
    ...curl,
  ].join("\n");
  const { run } = shell(t);
  const result = await run(cwd, script);
  assert.equal(result.code, 0, result.stdout + result.stderr);
  assert.match(result.stdout, /"output":\{"words":3\}/);
});
