/** A layer is somebody's upload: whatever is in it, it reaches nothing outside its own folder and has an end. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readlinkSync, statSync } from "node:fs";
import path from "node:path";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { type TestContext, test } from "node:test";
import { gzipSync } from "node:zlib";
import tar from "tar-stream";
import { unpackBounds, unpackLayer } from "../../src/drivers/unpack-layer.ts";
import { manifest, resource } from "../control-plane/builds.ts";
import { startPlatform, type TestPlatform, tempDir } from "../e2e/platform.ts";
import { eventually } from "../eventually.ts";

interface Entry {
  readonly name: string;
  readonly type?: "file" | "symlink" | "link" | "directory";
  readonly linkname?: string;
  readonly text?: string;
  readonly mode?: number;
}

async function packed(entries: readonly Entry[]): Promise<Buffer> {
  const pack = tar.pack();
  for (const { text = "", ...header } of entries) pack.entry({ type: "file", ...header }, text);
  pack.finalize();
  return gzipSync(await buffer(pack));
}

async function upload(platform: TestPlatform, bytes: Buffer): Promise<string> {
  const digest = createHash("sha256").update(bytes).digest("hex");
  const headers = { authorization: `Bearer ${platform.key}` };
  const put = await fetch(`${platform.url}/layers/${digest}`, { method: "PUT", body: new Uint8Array(bytes), headers });
  assert.equal(put.status, 200);
  return digest;
}

const HANDLER = { name: "handlers/hello.py", text: "def hello():\n    return 1\n" };

test("a deployed layer with chained links writes nothing outside and the endpoint says why it cannot run", {
  timeout: 300_000,
}, async (t) => {
  const platform = await startPlatform(t);
  const target = path.join(platform.dir, "target");
  mkdirSync(target);
  const chains: Record<string, readonly Entry[]> = {
    written: [
      { name: "a/b/c/d/e/f/g/h/x", text: "" },
      { name: "deep", type: "symlink", linkname: "a/b/c/d/e/f/g/h" },
      { name: "root", type: "symlink", linkname: "deep/../../../../../../../../../../../.." },
      { name: `root${target}/evil`, text: "evil" },
    ],
    read: [
      { name: "deps/one/two/x", text: "" },
      { name: "here", type: "symlink", linkname: "deps/one/two" },
      { name: "all", type: "symlink", linkname: "here/../../../.." },
    ],
    packages: [
      { name: "x/y/z", text: "" },
      { name: "down", type: "symlink", linkname: "x/y" },
      { name: "deps", type: "symlink", linkname: "down/../../.." },
    ],
  };
  const sound = await upload(platform, await packed([HANDLER]));
  for (const [name, entries] of Object.entries(chains)) {
    const source = await upload(platform, await packed([HANDLER, ...entries]));
    const input = {
      app: "shop",
      environment: name,
      manifest: manifest(name === "packages" ? sound : source, {
        hello: resource("hello", { workersMin: 1, dependencyLayer: name === "packages" ? source : null }),
      }),
    };
    await platform.query("mutation($input: BuildInput!) { deployBuild(input: $input) { buildId } }", { input });
  }
  await eventually(async () => {
    const { myself } = await platform.query<{
      myself: { endpoints: { environment: string; status: { reason: string } }[] };
    }>("{ myself { endpoints { environment status { reason } } } }");
    for (const { environment, status } of myself.endpoints)
      assert.match(status.reason ?? "", /may not be unpacked/, environment);
    assert.equal(myself.endpoints.length, 3);
  });
  assert.deepEqual(readdirSync(target), []);
  const layers = path.join(platform.dataDir, "layers");
  assert.deepEqual(
    existsSync(layers)
      ? readdirSync(layers)
          .filter((name) => name !== ".boot")
          .filter((name) => name !== sound)
      : [],
    [],
  );
});

async function unpacked(t: TestContext, entries: readonly Entry[], bounds = unpackBounds(1000)): Promise<string> {
  const dir = tempDir(t);
  await unpackLayer(Readable.from([await packed(entries)]), dir, bounds);
  return dir;
}

test("a layer that would become far larger than it is, or has too many files, is refused while it is unpacked", async (t) => {
  const big = { name: "zeros", text: "\0".repeat(3_000_000) };
  await assert.rejects(unpacked(t, [big], { bytesMax: 1_000_000, entriesMax: 10 }), {
    code: "LAYER_CORRUPT",
    message: /more than 1000000 bytes/,
  });
  const many = Array.from({ length: 20 }, (_, i) => ({ name: `d${i}/f` }));
  await assert.rejects(unpacked(t, many, { bytesMax: 1_000_000, entriesMax: 30 }), { message: /more than 30 files/ });
  const deep = { name: `${"d/".repeat(100)}f` };
  await assert.rejects(unpacked(t, [deep], { bytesMax: 1_000_000, entriesMax: 30 }), { message: /more than 30 files/ });
  assert.ok(unpackBounds(7_400_000).bytesMax < 500_000_000, "7.4 MB do not become 3 GB");
});

test("a sound layer keeps its links, and no file gets more than the executable bit", async (t) => {
  const dir = await unpacked(t, [
    { name: "lib/real.so.1.2", text: "x", mode: 0o6777 },
    { name: "lib/real.so.1", type: "symlink", linkname: "real.so.1.2" },
    { name: "lib/real.so", type: "symlink", linkname: "./real.so.1" },
    { name: "bin/tool", type: "symlink", linkname: "../lib/real.so" },
  ]);
  assert.equal(statSync(path.join(dir, "bin/tool")).mode & 0o7777, 0o755);
  assert.equal(readlinkSync(path.join(dir, "lib/real.so")), "./real.so.1");
});

test("a key of one environment gets no layer of another by its digest alone", { timeout: 300_000 }, async (t) => {
  const platform = await startPlatform(t);
  const secret = await packed([HANDLER, { name: "src/secret.py", text: "KEY = 'of the other environment'" }]);
  const digest = await upload(platform, secret);
  const build = manifest(digest, { hello: resource("hello") });
  const deploy = "mutation($input: BuildInput!) { deployBuild(input: $input) { buildId } }";
  const plan = "query($input: BuildInput!) { planBuild(input: $input) { missingLayers } }";
  for (const environment of ["production", "staging"]) {
    const own = manifest(await upload(platform, await packed([HANDLER, { name: environment }])), {
      hello: resource("hello"),
    });
    const input = { app: "shop", environment, manifest: environment === "production" ? build : own };
    await platform.query(deploy, { input });
  }
  const { createKey } = await platform.query<{ createKey: { secret: string } }>(
    `mutation { createKey(input: { name: "k", scopes: ["deploy"], app: "shop", environment: "staging" }) { secret } }`,
  );
  const key = createKey.secret;
  const variables = { input: { app: "shop", environment: "staging", manifest: build } };
  const ask = async (query: string) => (await platform.call("/graphql", { key, body: { query, variables } })).json;
  const layer = `${platform.url}/layers/${digest}`;
  const headers = { authorization: `Bearer ${key}` };
  const put = (body: Buffer) => fetch(layer, { method: "PUT", headers, body: new Uint8Array(body) });

  assert.equal((await fetch(layer, { method: "HEAD", headers })).status, 404);
  assert.deepEqual((await ask(plan)).data.planBuild.missingLayers, [digest]);
  assert.equal((await put(Buffer.from("guess"))).status, 400);
  assert.equal((await ask(deploy)).errors[0].extensions.code, "LAYER_MISSING");
  assert.equal((await put(secret)).status, 200, "who has the bytes may use them");
  assert.equal((await fetch(layer, { method: "HEAD", headers })).status, 200);
  assert.equal((await ask(deploy)).errors, undefined);
});
