/** Client libraries of the field, unmodified: only their base URL points here; and the pages that say how. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import sdk from "runpod-sdk";
import { runProcess } from "../../src/lib/run-process.ts";
import { CLIENT_PACKAGES, clientPackages } from "../client-packages.ts";
import { project, ROOT, startPlatform } from "./platform.ts";

const WORKERS = `
import asyncio
from svc import Endpoint

@Endpoint(name="hello", workers=(0, 1))
def hello(name="nobody"):
    if name == "":
        raise ValueError("a name is needed")
    return {"greeting": f"Hello, {name}!"}

@Endpoint(name="count", workers=(0, 1))
def count(to):
    for n in range(to):
        yield {"n": n}

@Endpoint(name="sleep", workers=(0, 1))
async def sleep(seconds):
    await asyncio.sleep(seconds)
    return seconds
`;

test("a client library of the field passes run, runSync, status, stream, cancel, health and purge", async (t) => {
  const platform = await startPlatform(t);
  const deploy = await platform.svc(["deploy"], { cwd: project(t, { "worker.py": WORKERS }) });
  assert.equal(deploy.code, 0, deploy.stderr);
  const endpoints = await platform.endpoints();
  const client = sdk(platform.key, { baseUrl: `${platform.url}/v2` });
  const endpoint = (name: string) => client.endpoint(endpoints.find((one) => one.name === name)!.id)!;
  const [hello, count, sleep] = [endpoint("hello"), endpoint("count"), endpoint("sleep")];

  await t.test("runSync gives the output", async () => {
    const job = await hello.runSync({ input: { name: "Ada" } });
    assert.deepEqual(job.output, { greeting: "Hello, Ada!" });
    assert.equal(job.status, "COMPLETED");
    assert.ok(Number.isInteger(job.delayTime) && Number.isInteger(job.executionTime));
    assert.match(job.id, /^sync-/);
    assert.equal((job as unknown as { succeeded: boolean }).succeeded, true);
  });

  await t.test("runSync of a function that raises is FAILED and says why", async () => {
    const job = (await hello.runSync({ input: { name: "" } })) as unknown as Record<string, string>;
    assert.deepEqual([job.status, job.succeeded, job.completed], ["FAILED", false, true]);
    assert.equal(JSON.parse(job.error!).error_message, "a name is needed");
  });

  await t.test("run, status and statusSync follow a job", async () => {
    const { id, status } = await hello.run({ input: { name: "Bob" }, policy: { lowPriority: true } });
    assert.equal(status, "IN_QUEUE");
    const done = (await hello.statusSync(id)) as { output: unknown; status: string };
    assert.deepEqual([done.status, done.output], ["COMPLETED", { greeting: "Hello, Bob!" }]);
    const again = (await hello.status(id)) as unknown as Record<string, unknown>;
    assert.deepEqual([again.id, again.completed, again.succeeded], [id, true, true]);
  });

  await t.test("stream yields each chunk of a generator", async () => {
    const { id } = await count.run({ input: { to: 5 } });
    const chunks: { output: { n: number } }[] = [];
    for await (const chunk of count.stream(id)) chunks.push(chunk);
    assert.deepEqual(
      chunks.map(({ output }) => output.n),
      [0, 1, 2, 3, 4],
    );
  });

  await t.test("cancel reaches a running job; purgeQueue removes those that wait; health counts", async () => {
    const running = await sleep.run({ input: { seconds: 600 } });
    while ((await sleep.status(running.id)).status !== "IN_PROGRESS") await new Promise((r) => setTimeout(r, 10));
    await sleep.run({ input: { seconds: 600 } });
    await sleep.run({ input: { seconds: 600 } });
    const { jobs, workers } = await sleep.health();
    assert.deepEqual([jobs.inProgress, jobs.inQueue, workers.running], [1, 2, 1]);
    assert.deepEqual(await sleep.purgeQueue(), { removed: 2, status: "completed" });
    assert.deepEqual(await sleep.cancel(running.id), { id: running.id, status: "CANCELLED" });
    assert.equal((await sleep.status(running.id)).status, "CANCELLED");
    const next = await sleep.runSync({ input: { seconds: 0 } });
    assert.equal(next.status, "COMPLETED", "the worker is free again");
  });

  await t.test("a wrong key and an unknown endpoint are errors", async () => {
    const stranger = sdk("svc_wrong", { baseUrl: `${platform.url}/v2` });
    await assert.rejects(stranger.endpoint(endpoints[0]!.id)!.runSync({ input: {} }), /401/);
    await assert.rejects(client.endpoint("nothing")!.health(), /404/);
  });
});

const PAGES = path.join(ROOT, "docs/clients");

interface Block {
  readonly language: string;
  readonly text: string;
}

function blocksOf(page: string): Block[] {
  const text = readFileSync(page, "utf8");
  const found = text.matchAll(/^```(\w+)\n([\s\S]*?)^```/gm);
  return Array.from(found, ([, language, block]) => ({ language: language!, text: block! }));
}

test("Each page on a client does what it says: its blocks run as they stand, and print what is below them", async (t) => {
  const platform = await startPlatform(t);
  const [greet] = blocksOf(path.join(PAGES, "README.md"));
  const [chat] = blocksOf(path.join(ROOT, "docs/reference/openai.md"));
  const cwd = project(t, { "greet.py": greet!.text, "chat.py": chat!.text });
  const deploy = await platform.svc(["deploy"], { cwd });
  assert.equal(deploy.code, 0, deploy.stderr);
  const ids = (await platform.endpoints()).map(({ name, id }) => [name.toUpperCase(), id]);
  const env = {
    PATH: process.env.PATH,
    HOME: cwd,
    PLATFORM_URL: platform.url,
    PLATFORM_API_KEY: platform.key,
    RUNPOD_ENDPOINT_BASE_URL: `${platform.url}/v2`,
    RUNPOD_API_KEY: platform.key,
    ...Object.fromEntries(ids),
  };
  const pages = readdirSync(PAGES).filter((page) => page !== "README.md");
  assert.deepEqual(pages.sort(), Object.keys(CLIENT_PACKAGES));
  for (const page of pages) {
    await t.test(page, async (t) => {
      const places = await clientPackages(page);
      if (places === undefined)
        return t.skip("its packages are not installed here, and no package index can be reached");
      const run = ({ language, text }: Block) => {
        if (language === "python") return runProcess(places.python, ["-c", text], { env, cwd });
        if (language === "sh") return runProcess("bash", ["-ec", text], { env, cwd });
        assert.equal(language, "ts");
        const args = ["--input-type=module-typescript", "-e", text];
        return runProcess(process.execPath, args, { env, cwd: places.node });
      };
      let printed: string | undefined;
      for (const block of blocksOf(path.join(PAGES, page))) {
        if (block.language === "text") {
          assert.equal(printed?.replace(/\s+$/gm, ""), block.text.trim());
          continue;
        }
        const { code, stdout, stderr } = await run(block);
        assert.equal(code, 0, stderr);
        printed = stdout;
      }
      assert.notEqual(printed, undefined);
    });
  }
});
