/** What `svc.enter` and `svc.exit` mark, from `svc deploy` to `svc logs`. */
import assert from "node:assert/strict";
import { existsSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { eventually } from "../eventually.ts";
import { hasLogged, project, ROOT, startPlatform } from "./platform.ts";

const model = (ended: string, load: string) => `
import os
import svc
from svc import Endpoint

@Endpoint(name="model", workers=(0, 2), idle_timeout=1)
class Model:
    @svc.enter(shared=True)
    def load(self):
        print("loading weights")
        self.weights, self.loaded_by = [1, 2, 3], os.getpid()
        ${load}

    @svc.enter
    def connect(self):
        print("connecting")
        self.connected_by = os.getpid()

    def predict(self, n: int):
        return [self.weights[n], self.loaded_by != os.getpid(), self.connected_by == os.getpid()]

    @svc.exit
    def close(self):
        print("closing")
        open(${JSON.stringify(ended)}, "a").write("closed\\n")
`;

test("A class loads before its workers are forked, connects in each, and closes when an idle worker goes", async (t) => {
  const platform = await startPlatform(t);
  const ended = path.join(platform.shared, "ended");
  const cwd = project(t, { "worker.py": model(ended, "") });
  const svc = (...args: string[]) => platform.svc(args, { cwd });
  const deploy = await svc("deploy");
  assert.equal(deploy.code, 0, deploy.stderr);
  const [endpoint] = await platform.endpoints();
  const answer = await platform.call(`${endpoint!.url}/runsync`, { body: { input: { n: 1 } } });
  assert.deepEqual(answer.json.output, [2, true, true], answer.text);
  await eventually(() => assert.ok(existsSync(ended)));
  await hasLogged(platform, cwd, ["model"], /loading weights/, /connecting/, /closing/);
  const once = readFileSync(ended, "utf8").split("\n").length;
  assert.ok(once >= 2, "each worker that ended closed");

  writeFileSync(path.join(cwd, "worker.py"), model(ended, 'raise ValueError("no weights here")'));
  const failed = await svc("deploy");
  assert.equal(failed.code, 1);
  assert.match(failed.stderr, /no weights here/);
  assert.doesNotMatch(failed.stderr, /_runtime/);

  const thread = "import threading; threading.Thread(target=threading.Event().wait, daemon=True).start()";
  writeFileSync(path.join(cwd, "worker.py"), model(ended, thread));
  const unshared = await svc("deploy");
  assert.equal(unshared.code, 1);
  assert.match(unshared.stderr, /Model\.load cannot be shared by all workers: a thread is alive after it/);
});

test("The example of docs/reference/classes.md runs as it stands", async (t) => {
  const platform = await startPlatform(t);
  const page = readFileSync(path.join(ROOT, "docs/reference/classes.md"), "utf8");
  const cwd = project(t, { "worker.py": page.match(/```python\n(.*?)```/s)![1]! });
  const deploy = await platform.svc(["deploy"], { cwd });
  assert.equal(deploy.code, 0, deploy.stderr);
  const [endpoint] = await platform.endpoints();
  const answer = await platform.call(`${endpoint!.url}/runsync`, { body: { input: { n: 7 } } });
  assert.equal(answer.json.output, 7, answer.text);

  const options = page.slice(page.indexOf("## Options")).match(/```python\n(.*?)```/s)![1]!;
  const more = `from worker import Model\nNamed = Model.with_options(size="large", name="named")\n`;
  const sized = project(t, { "worker.py": options, "more.py": more }, "sized");
  const again = await platform.svc(["deploy"], { cwd: sized });
  assert.equal(again.code, 0, again.stderr);
  const urls = Object.fromEntries((await platform.endpoints()).map(({ name, url }) => [name, url]));
  const run = async (name: string) =>
    (await platform.call(`${urls[name]}/runsync`, { body: { input: {} } })).json.output;
  assert.deepEqual([await run("model-large"), await run("named"), await run("both")], [1000, 1000, [10, 1000]]);
  await platform.kill();
  const restarted = await platform.restart();
  const after = await restarted.call(`${urls["model-large"]}/runsync`, { body: { input: {} } });
  assert.equal(after.json.output, 1000, "also after a kill of the platform");
});
