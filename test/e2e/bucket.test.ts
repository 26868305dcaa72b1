/** A platform whose layers are in a bucket: replaced, and with the bucket away. */
import assert from "node:assert/strict";
import { existsSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import path from "node:path";
import { after, describe, type TestContext, test } from "node:test";
import { eventually } from "../eventually.ts";
import { findS3, startS3 } from "../s3.ts";
import { project, startPlatform, type TestPlatform } from "./platform.ts";

const found = await findS3();
const skip = "missing" in found && found.missing;
const server = "program" in found ? await startS3(found.program) : undefined;
after(() => server?.stop());

const worker = (answer: string) => `
from svc import Endpoint

@Endpoint(name="first", workers=(1, 1))
def first():
    return "${answer}"

@Endpoint(name="second", workers=(0, 1))
def second():
    return "second ${answer}"
`;

async function deploy(platform: TestPlatform, dir: string) {
  const { code, stdout, stderr } = await platform.svc(["deploy"], { cwd: dir });
  assert.equal(code, 0, stdout + stderr);
}

async function urlOf(platform: TestPlatform, name: string): Promise<string> {
  return (await platform.endpoints()).find((endpoint) => endpoint.name === name)!.url;
}

async function output(platform: TestPlatform, url: string): Promise<unknown> {
  const { status, json, text } = await platform.call(`${url}/runsync`, { body: { input: {} } });
  assert.equal(status, 200, text);
  assert.equal(json.status, "COMPLETED", text);
  return json.output;
}

async function start(t: TestContext, prefix: string) {
  const platform = await startPlatform(t, { ...server!.env, SVC_S3_PREFIX: prefix });
  const dir = project(t, { "worker.py": worker("one") }, prefix);
  await deploy(platform, dir);
  return { platform, dir };
}

describe("with layers in a bucket", { skip }, () => {
  test("a platform that comes back without any layer on its disk runs what was deployed", async (t) => {
    const { platform, dir } = await start(t, "replaced");
    const url = await urlOf(platform, "second");
    assert.equal(await output(platform, url), "second one");
    assert.equal(existsSync(path.join(platform.dataDir, "artifacts")), false);
    await platform.stop();
    for (const folder of ["layers", "layer-cache"]) {
      assert.ok(readdirSync(path.join(platform.dataDir, folder)).length > 0);
      rmSync(path.join(platform.dataDir, folder), { recursive: true });
    }
    const again = await platform.restart();
    assert.equal(await output(again, url), "second one");
    // Killed, it comes back too, and takes what is new.
    await again.kill();
    rmSync(path.join(platform.dataDir, "layer-cache"), { recursive: true });
    const third = await platform.restart();
    writeFileSync(path.join(dir, "worker.py"), worker("two"));
    await deploy(third, dir);
    assert.equal(await output(third, url), "second two");
  });

  test("while the bucket is away calls go on and starts too; a deploy says what is wrong, and works when it is back", async (t) => {
    const { platform, dir } = await start(t, "away");
    const [first, second] = [await urlOf(platform, "first"), await urlOf(platform, "second")];
    let over = false;
    let calls = 0;
    const caller = async () => {
      for (; !over; calls++) assert.equal(await output(platform, first), "one");
    };
    const load = Promise.all([caller(), caller()]);
    load.catch(() => {}); // Awaited below.
    t.after(() => {
      over = true;
      return server!.start();
    });
    await server!.kill();
    writeFileSync(path.join(dir, "worker.py"), worker("two"));
    const refused = await platform.svc(["deploy"], { cwd: dir });
    assert.notEqual(refused.code, 0, refused.stdout);
    assert.match(refused.stderr, /The bucket "layers" at 127\.0\.0\.1:\d+ does not answer: /);
    assert.match(refused.stderr, /BUCKET_AWAY/);
    assert.equal(await output(platform, second), "second one");
    const status = await platform.svc(["status"]);
    assert.match(status.stderr + status.stdout, /warning: The bucket "layers" at .* does not answer/);
    const ready = await platform.call("/readyz", { key: null });
    assert.equal(ready.status, 200);
    assert.deepEqual(ready.json.degraded, ["The bucket cannot be used: deploys fail."]);
    const before = calls;
    await eventually(() => assert.ok(calls > before + 20));

    await server!.start();
    await eventually(async () => {
      const { json } = await platform.call("/readyz", { key: null });
      assert.equal(json.degraded, undefined);
    });
    over = true;
    await load;
    await deploy(platform, dir);
    assert.equal(await output(platform, first), "two");
  });

  test("a platform starts while its bucket is away, and its jobs run when it is back; it does not with a bucket that refuses it", async (t) => {
    const { platform } = await start(t, "restarted");
    const url = await urlOf(platform, "first");
    await platform.stop();
    await server!.kill();
    t.after(() => server!.start());
    for (const folder of ["layers", "layer-cache"]) rmSync(path.join(platform.dataDir, folder), { recursive: true });
    const again = await platform.restart();
    const { json: job } = await again.call(`${url}/run`, { body: { input: {} } });
    assert.equal(job.status, "IN_QUEUE");
    const status = async () => (await again.call(`${url}/status/${job.id}`)).json;
    await eventually(async () => {
      assert.match((await again.svc(["status"])).stdout, /does not answer/);
    });
    assert.equal((await status()).status, "IN_QUEUE");
    await server!.start();
    await eventually(async () => assert.equal((await status()).output, "one"));
    for (const [wrong, words] of [
      [{ SVC_S3_BUCKET: "no-such-bucket" }, /There is no bucket "no-such-bucket"/],
      [{ SVC_S3_ACCESS_KEY_ID: "nobody" }, /The bucket "layers" refuses .*: No user exists/],
      [{ SVC_S3_SECRET_ACCESS_KEY: "wrong" }, /The keys for the bucket "layers" are wrong/],
      [{ SVC_S3_SECRET_ACCESS_KEY: "" }, /SVC_S3_ACCESS_KEY_ID: goes with SVC_S3_SECRET_ACCESS_KEY/],
      [{ SVC_S3_BUCKET: "" }, /SVC_S3_ENDPOINT: counts only with SVC_S3_BUCKET/],
      [{ SVC_S3_ENDPOINT: "s3.example.org" }, /SVC_S3_ENDPOINT: is not an address/],
      [{ SVC_S3_SECRET_ACCESS_KEY: "", SVC_S3_SECRET_ACCESS_KEY_FILE: "/no/such/file" }, /cannot be read/],
    ] as const) {
      await assert.rejects(startPlatform(t, { ...server!.env, ...wrong }), words);
    }
  });
});
