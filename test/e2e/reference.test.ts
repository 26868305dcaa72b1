/** Examples of the reference that no other test runs, as they stand on their pages. */
import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { runProcess } from "../../src/lib/run-process.ts";
import { BIN } from "../program.ts";
import { project, ROOT, startPlatform, svc } from "./platform.ts";

/** The first block of a page that has `part` in it. */
function example(page: string, part: string): string {
  const text = readFileSync(path.join(ROOT, "docs/reference", page), "utf8");
  const blocks = Array.from(text.matchAll(/^```\w+\n([\s\S]*?)^```/gm), ([, block]) => block!);
  const block = blocks.find((each) => each.includes(part));
  assert.ok(block, `${page} has a block with ${part}`);
  return block;
}

/** What the page on calls imports from infer.py. */
const INFER = `from typing import Iterator
from svc import Endpoint

@Endpoint(name="infer", workers=(0, 2))
def infer(text: str, top: int = 1) -> list[float]:
    return [float(len(text))] * top

@Endpoint(name="tokens")
def tokens(text: str) -> Iterator[str]:
    yield from text.split()

@Endpoint(name="model")
class Model:
    def predict(self, text: str) -> list[float]:
        return [float(len(text))]
`;

test("Examples of the reference run as they stand: routes, signed URLs, WebSockets, calls, retries, schedules, batches, uploads", {
  timeout: 300_000,
}, async (t) => {
  const platform = await startPlatform(t);
  // What a notebook does with it is in notebook.test.ts.
  const cell = example("calling.md", "svc.deploy(double)").replace("svc.deploy(double)\n", "");
  const cwd = project(
    t,
    {
      "items.py": example("load-balanced.md", "put_item") + example("load-balanced.md", "@api.websocket"),
      "hooks.py": example("load-balanced.md", "/hooks/payment"),
      "infer.py": INFER,
      "pipeline.py": example("calling.md", 'name="pipeline"'),
      "worker.py": cell,
      "fetch.py": example("retries.md", "Retries("),
      "report.py": example("schedules.md", "schedule="),
      "lengths.py": example("batching.md", "@svc.batched"),
      "weights.bin": "weights",
      "layer.tar.gz": "layer",
      ".svcignore": "weights.bin\nlayer.tar.gz\n",
    },
    "shop",
  );
  const env = {
    PATH: `${BIN}:${process.env.PATH}`,
    HOME: process.env.HOME,
    PYTHONPATH: path.join(ROOT, "python/src"),
    SVC_CONFIG_DIR: path.join(platform.dir, "config"),
    PLATFORM_URL: platform.url,
    PLATFORM_API_KEY: platform.key,
    CI: "1",
    NO_COLOR: "1",
  };
  const done = async (program: string, args: readonly string[], code = 0) => {
    const result = await runProcess(program, args, { cwd, env });
    assert.equal(result.code, code, result.stdout + result.stderr);
    return result.stdout;
  };
  const shell = (script: string, code = 0) => done("bash", ["-ec", script], code);
  const python = (script: string) => done("python3", ["-c", script]);
  await shell("svc deploy");
  const [, call, failed, retry] = example("retries.md", "svc call fetch").trim().split("\n");
  const deadLetter = shell(call!, 1);

  const urls = Object.fromEntries((await platform.endpoints()).map(({ name, url }) => [name, url]));
  const item = await platform.call(`${urls.api}/items/7`, { body: { name: "cup" } });
  assert.deepEqual(item.json, { item_id: 7, name: "cup", tags: [] });
  const paid = await platform.call(`${urls.shop}/hooks/payment`, { body: {}, key: null });
  assert.equal(paid.json, "noted");
  assert.equal((await platform.call(`${urls.shop}/orders`, { key: null })).status, 401);
  assert.deepEqual((await platform.call(`${urls.shop}/orders`)).json, []);

  const signed = (await shell(example("load-balanced.md", "svc url api"))).trim().split("\n");
  signed.push((await python(`from items import api\n${example("load-balanced.md", "link =")}print(link)`)).trim());
  const chat = new WebSocket(signed.splice(3, 1)[0]!);
  chat.onopen = () => chat.send("hello");
  const [{ data }] = (await once(chat, "message")) as [MessageEvent<string>];
  assert.deepEqual(JSON.parse(data), { room: "lobby", text: "hello" });
  chat.close();
  // The examples' paths are none of the endpoint's routes: the signature is right, and the worker says so.
  for (const url of signed) assert.equal((await fetch(url)).status, 404, url);

  const piped = await platform.call(`${urls.pipeline}/runsync`, { body: { input: { text: "two words" } } });
  assert.deepEqual(piped.json.output, [9], piped.text);
  const many = example("calling.md", "in infer.map").replace("...", "print(result)");
  const mapped = await python(`from infer import infer\nrows = lambda: ["a", "bb"]\n${many}`);
  assert.deepEqual(mapped.trim().split("\n").sort(), ["[1.0]", "[2.0]"]);
  const cells = example("calling.md", "double.map(").replace("await double(21)\n", "");
  assert.equal(await python(`from worker import double\n${cells}print(results[99], job.result())`), "198 42\n");

  const batch = example("batching.md", "svc call lengths").replace("svc deploy\n", "");
  assert.equal(await shell(batch), "10\n");
  const schedule = await shell(example("schedules.md", "svc schedule run").replace("svc deploy\n", ""));
  assert.match(schedule, /^report .*30 6 \* \* MON-FRI[\s\S]*is in the queue[\s\S]*is paused/m);

  assert.match(await shell(example("graphql.md", "/graphql?api_key")), /"name":"lengths"/);
  assert.match(await shell(example("graphql.md", "sha256sum layer")), /"digest"/);
  assert.match(await shell(`svc volume create models\n${example("graphql.md", "curl -T weights")}`), /"complete":true/);

  const [sent, body] = [Math.floor(Date.now() / 1000), '{"id": "a"}'];
  const v1 = createHmac("sha256", "s").update(`${sent}.${body}`).digest("hex");
  const genuine = `${example("job-api.md", "is_genuine")}
print([is_genuine(secret, "t=${sent},v1=${v1}", b'${body}') for secret in ("s", "other")])`;
  assert.equal(await python(genuine), "[True, False]\n");

  assert.match(await shell(example("job-api.md", "X-Flash-App")), /"output":\[5\.0\]/);

  // Its third pause is longer than the 5 s that Node's agent gives a connection on which nothing comes.
  assert.equal(await deadLetter, "");
  assert.match(await shell(failed!), /FAILED/);
  const [letter] = JSON.parse(await shell("svc jobs fetch --failed --json"));
  assert.equal(letter.attempts, 4);
  assert.match(
    await shell(example("rest.md", "/rest/v1/templates")),
    /"templateId":"(\w+)"[\s\S]*"template":\{"id":"\1"/,
  );
  await shell(retry!.replace("JOB_ID", letter.id));

  await shell(example("alerts.md", "svc alert create").replace("svc alert list", ""));
  assert.match(await shell("svc alert list"), /endpoint\.blocked[\s\S]*errors\.rate/);

  writeFileSync(path.join(cwd, "sizes.py"), example("classes.md", "Large = Model.with_options"));
  await shell("mkdir sizes && mv sizes.py sizes/ && cd sizes && svc deploy --app sizes");
  assert.match(await shell("svc call both --app sizes"), /10,\s+1000/);
});

test("Declarations of the reference that need another machine are built", async (t) => {
  const cwd = project(t, {
    "model.py": example("volumes.md", 'name="train"'),
    "chat.py": example("volumes.md", 'name="chat"'),
    "index.py": `from svc import Endpoint\n${example("scaling.md", "cpu=(16, 64)")}`,
  });
  const { code, stdout, stderr } = await svc(["build", "--json"], { cwd });
  assert.equal(code, 0, stderr);
  assert.deepEqual(Object.keys(JSON.parse(stdout).manifest.resources).sort(), ["chat", "index", "predict", "train"]);
});
