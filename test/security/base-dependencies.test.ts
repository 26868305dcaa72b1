/** What the platform installs by itself is chosen from a list: a deploy key is no way to run code outside a worker. */
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { chmodSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { BaseLayers } from "../../src/drivers/base-layers.ts";
import { manifest, resource } from "../control-plane/builds.ts";
import { startPlatform, tempDir } from "../e2e/platform.ts";

async function countingServer(t: TestContext) {
  const asked: string[] = [];
  const server = createServer((req, res) => {
    asked.push(req.url ?? "");
    res.writeHead(404).end();
  }).listen(0, "127.0.0.1");
  t.after(() => server.close());
  await once(server, "listening");
  return { asked, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

test("a deploy cannot make the platform install anything but its base packages", { timeout: 300_000 }, async (t) => {
  const platform = await startPlatform(t);
  const { asked, url } = await countingServer(t);
  const file = path.join(tempDir(t), "written");
  const layer = Buffer.from("source");
  const digest = createHash("sha256").update(layer).digest("hex");
  const headers = { authorization: `Bearer ${platform.key}` };
  const put = await fetch(`${platform.url}/layers/${digest}`, { method: "PUT", body: layer, headers });
  assert.equal(put.status, 200);
  for (const evil of [
    `evil @ ${url}/evil-1.0.tar.gz`,
    `numpy @ ${url}/numpy-1.0-py3-none-any.whl`,
    `numpy@${url}/numpy-1.0.tar.gz`,
    "--no-binary=:all:",
    `--log=${file}`,
    `-r${file}`,
    `--index-url=${url}`,
    `numpy --index-url=${url}`,
    `numpy\n--index-url=${url}`,
    "requests",
    "numpy-evil",
    `${file}`,
    "./numpy",
    "numpy; python_version > '3'",
    `${url}/x.tar.gz`,
    "",
    `numpy==${"1".repeat(10_000)}`,
  ]) {
    const build = manifest(digest, { hello: resource("hello", { baseDependencies: ["numpy", evil] }) });
    const input = { app: "shop", environment: "production", manifest: build };
    for (const operation of ["mutation($input: BuildInput!) { deployBuild(input: $input) { buildId } }"]) {
      const answer = await platform.call("/graphql", { body: { query: operation, variables: { input } } });
      assert.match(answer.json.errors?.[0]?.message ?? "", /baseDependencies\.1: must be one of torch/, evil);
    }
  }
  assert.deepEqual((await platform.endpoints()).length, 0);
  assert.deepEqual(asked, []);
  assert.ok(!existsSync(file));
});

test("the installer gets neither the platform's environment nor a home with anything in it, and no option behind --", async (t) => {
  const dir = tempDir(t);
  const record = path.join(dir, "record.json");
  const uv = path.join(dir, "uv");
  // Writes down how it was called, in place of the real tool.
  writeFileSync(
    uv,
    `#!/usr/bin/env python3
import json, os, sys
json.dump({"args": sys.argv[1:], "env": dict(os.environ), "home": os.listdir(os.environ["HOME"]), "cwd": os.getcwd()}, open(${JSON.stringify(record)}, "w"))
`,
  );
  chmodSync(uv, 0o755);
  const env = {
    PATH: `${dir}:${process.env.PATH}`,
    HOME: "/root-of-nobody",
    UV_DEFAULT_INDEX: "http://127.0.0.1:1/simple",
    SVC_DATA_DIR: dir,
    PLATFORM_API_KEY: "svc_secret",
    AWS_SECRET_ACCESS_KEY: "secret",
  };
  const layers = new BaseLayers(path.join(dir, "base"), env);
  const interpreter = { path: "python3", base: "python3", version: "3.11" };
  await layers.ensure(["numpy>=2", "torch"], interpreter, () => {});
  const seen = JSON.parse(readFileSync(record, "utf8"));
  assert.deepEqual(seen.args.slice(-3), ["--", "numpy>=2", "torch"]);
  assert.equal(seen.env.UV_DEFAULT_INDEX, "http://127.0.0.1:1/simple");
  for (const name of ["SVC_DATA_DIR", "PLATFORM_API_KEY", "AWS_SECRET_ACCESS_KEY"])
    assert.ok(!(name in seen.env), name);
  assert.notEqual(seen.env.HOME, env.HOME);
  assert.equal(seen.cwd, seen.env.HOME);
  assert.deepEqual(
    seen.home.filter((name: string) => ![".pip", ".config"].includes(name)),
    [],
  );
  assert.ok(!existsSync(seen.env.HOME), "it goes with the installation");
  await assert.rejects(
    layers.ensure(["numpy", "--log=/x"], interpreter, () => {}),
    {
      code: "DEPENDENCIES_FAILED",
      message: /does not install "--log=\/x"/,
    },
  );
});
