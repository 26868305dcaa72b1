/** Names that others gave: projects of the same family, and endpoints that are found without their source. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { project, ROOT, startPlatform } from "./platform.ts";

test("The example of docs/reference/porting.md is deployed after its sed, with notes, and runs", async (t) => {
  const platform = await startPlatform(t);
  const page = readFileSync(path.join(ROOT, "docs/reference/porting.md"), "utf8");
  const example = page.match(/```python\n(.*?)```/s)![1]!;
  const theirs = example.replace("from svc import", "from runpod_flash import");
  const cwd = project(t, { "worker.py": theirs });
  const before = await platform.svc(["build"], { cwd });
  assert.notEqual(before.code, 0);
  assert.match(before.stderr, /What comes from runpod_flash is not declared for svc[\s\S]*Write from svc import/);
  const sed = page.match(/```sh\n(.*?)\n/s)![1]!;
  execFileSync("sh", ["-c", sed], { cwd });
  const deploy = await platform.svc(["deploy"], { cwd });
  if (/lacks namespaces/.test(deploy.stderr)) return t.skip(`this machine mounts no volumes: ${deploy.stderr}`);
  assert.equal(deploy.code, 0, deploy.stderr);
  const said = deploy.stdout + deploy.stderr;
  for (const note of [
    "datacenter= has no meaning here",
    "size=, datacenter= of a NetworkVolume",
    "workers get the first",
  ])
    assert.ok(said.includes(note), `${note}: ${said}`);
  const urls = Object.fromEntries((await platform.endpoints()).map(({ name, url }) => [name, url]));
  assert.deepEqual(Object.keys(urls).sort(), ["counter", "resize"]);
  const run = async (name: string, input: object) =>
    (await platform.call(`${urls[name]}/runsync`, { body: { input } })).json.output;
  assert.deepEqual(await run("resize", { payload: { width: 8 } }), { mode: "slow", width: 4, has_volume: true });
  assert.equal(await run("counter", { text: "a b c" }), 3);
});
