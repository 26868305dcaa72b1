/** A build installs wheels, which run nothing; the source of a package runs its own code and is never built. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { makeWheels, offlineEnv } from "../build/wheels.ts";
import { project, svc, tempDir } from "../e2e/platform.ts";

const worker = (dependency: string) => ({
  "main.py": `from svc import Endpoint

@Endpoint(name="hello", dependencies=[${JSON.stringify(dependency)}])
def hello() -> int:
    return 1
`,
});

/** Serves an sdist whose setup.py writes a file. */
async function evilSource(t: TestContext) {
  const dir = tempDir(t);
  const ran = path.join(dir, "ran");
  const source = path.join(dir, "evil-1.0");
  mkdirSync(source);
  const mark = `open(${JSON.stringify(ran)}, "w").close()\n`;
  writeFileSync(path.join(source, "setup.py"), mark);
  // Asks for no package to be built with, so nothing stands between it and its code.
  writeFileSync(path.join(source, "backend.py"), mark);
  const backend = '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n';
  writeFileSync(path.join(source, "pyproject.toml"), backend);
  writeFileSync(path.join(source, "PKG-INFO"), "Metadata-Version: 1.0\nName: evil\nVersion: 1.0\n");
  execFileSync("tar", ["-czf", path.join(dir, "evil-1.0.tar.gz"), "-C", dir, "evil-1.0"]);
  const bytes = readFileSync(path.join(dir, "evil-1.0.tar.gz"));
  const server = createServer((_req, res) => res.end(bytes)).listen(0, "127.0.0.1");
  t.after(() => server.close());
  await once(server, "listening");
  return { dir, ran, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

test("svc build runs no setup.py of a package that is given by an address", { timeout: 300_000 }, async (t) => {
  const { dir, ran, url } = await evilSource(t);
  const env = {
    ...(offlineEnv(path.join(dir, "wheels")) as Record<string, string>),
    SVC_CACHE_DIR: path.join(dir, "cache"),
  };
  for (const dependency of [
    `evil @ ${url}/evil-1.0.tar.gz`,
    `evil @ ${url}/evil-1.0.tar.gz#x.whl`,
    `evil @ ${url}/evil-1.0.tar.gz?x=.whl`,
    `evil @ file://${dir}/evil-1.0.tar.gz`,
    `evil @ file://${dir}/evil-1.0`,
    `evil @ git+${url}/evil.git`,
  ]) {
    const { code, stderr, stdout } = await svc(["build"], { cwd: project(t, worker(dependency)), env });
    assert.ok(!existsSync(ran), `${dependency} ran its setup.py`);
    assert.notEqual(code, 0, dependency);
    assert.match(stdout + stderr, /address of a wheel|a local file/, dependency);
  }
});

test("nor of one that another package asks for by its address", { timeout: 300_000 }, async (t) => {
  const { dir, ran, url } = await evilSource(t);
  const wheels = path.join(dir, "wheels");
  makeWheels(wheels, [
    { name: "nice", version: "1.0", requires: [`evil @ ${url}/evil-1.0.tar.gz`], files: { "nice.py": "" } },
  ]);
  const env = { ...(offlineEnv(wheels) as Record<string, string>), SVC_CACHE_DIR: path.join(dir, "cache") };
  const { code, stderr, stdout } = await svc(["build"], { cwd: project(t, worker("nice")), env });
  assert.ok(!existsSync(ran), "it ran its setup.py");
  assert.notEqual(code, 0);
  assert.match(stdout + stderr, /only wheels|only-binary|source distributions/i);
});
