/** Somebody else can write into the build cache: nothing of that is deployed or run. */
import assert from "node:assert/strict";
import {
  chmodSync,
  copyFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  statSync,
  utimesSync,
  writeFileSync,
} from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { LayerCache } from "../../src/build/layer-cache.ts";
import { project, startPlatform, svc, tempDir } from "../e2e/platform.ts";

const saying = (word: string) => `from svc import Endpoint

@Endpoint(name="hello", workers=(0, 1))
def hello() -> str:
    return "${word}"
`;

test("What somebody else put into the build cache is neither deployed nor run: records, layers, interpreters", {
  timeout: 300_000,
}, async (t) => {
  const platform = await startPlatform(t);
  const cache = tempDir(t);
  const env = { SVC_CACHE_DIR: cache };
  const cwd = project(t, { "main.py": saying("mine") });
  const files = (kind: string) => readdirSync(path.join(cache, kind)).map((name) => path.join(cache, kind, name));
  const run = async (command: string) => {
    const { code, stdout, stderr } = await platform.svc([command], { cwd, env });
    assert.equal(code, 0, stdout + stderr);
  };
  const deployed = async () => {
    await run("deploy");
    const [endpoint] = await platform.endpoints();
    return (await platform.call(`${endpoint!.url}/runsync`, { body: { input: {} } })).json.output;
  };

  await run("build");
  assert.equal(statSync(path.join(platform.dir, "config/cache.key")).mode & 0o777, 0o600);
  for (const layer of files("layers")) {
    const { size, atime, mtime } = statSync(layer);
    writeFileSync(layer, Buffer.alloc(size, 1));
    utimesSync(layer, atime, mtime);
  }
  assert.equal(await deployed(), "mine", "after other bytes in the place of a layer");

  writeFileSync(path.join(cwd, "main.py"), saying("mine again"));
  const before = new Set(files("sources"));
  await run("build");
  const [own] = files("sources").filter((file) => !before.has(file));
  const known = new Set(files("sources"));
  const evilCwd = project(t, { "main.py": saying("evil") });
  const attacker = { ...env, SVC_CONFIG_DIR: tempDir(t) };
  const evil = await svc(["build"], { cwd: evilCwd, env: attacker });
  assert.equal(evil.code, 0, evil.stderr);
  const [forged] = files("sources").filter((file) => !known.has(file));
  copyFileSync(forged!, own!);
  const script = path.join(tempDir(t), "python3");
  writeFileSync(script, `#!/bin/sh\necho run > ${script}.ran\nexec python3 "$@"\n`);
  chmodSync(script, 0o755);
  for (const file of files("interpreters")) {
    writeFileSync(file, JSON.stringify({ executable: script, version: "3.12", platform: "linux" }));
  }
  assert.equal(await deployed(), "mine again", "after another's record in the place of one's own");
  assert.ok(!existsSync(`${script}.ran`));

  const name = [...before][0]!;
  copyFileSync(name, own!);
  await run("build");
  assert.notEqual(readFileSync(own!, "utf8"), readFileSync(name, "utf8"), "one's own record under another key");
});

test("A layer in the cache is taken when its bytes have its digest, whatever its times, and not otherwise", async (t) => {
  const cache = new LayerCache({ cacheDir: tempDir(t), configDir: tempDir(t) });
  const layer = await cache.write([{ name: "file", content: Buffer.from("content") }], 1);
  utimesSync(layer.path, 1, 1);
  assert.ok(await cache.find(layer.digest, layer.sizeBytes));
  writeFileSync(layer.path, Buffer.alloc(layer.sizeBytes));
  assert.equal(await cache.find(layer.digest, layer.sizeBytes), undefined);
});
