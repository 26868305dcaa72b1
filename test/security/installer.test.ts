/** What the platform installs by itself comes from an index: the installer is confined, and what it installs runs nothing. */
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { homedir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { BaseLayers } from "../../src/drivers/base-layers.ts";
import { Interpreters } from "../../src/drivers/interpreter.ts";
import { makeWheels, offlineEnv } from "../build/wheels.ts";
import { project, startPlatform, tempDir } from "../e2e/platform.ts";
import { ASKS, makeHostileInstaller } from "./hostile-installer.ts";

const isRoot = process.getuid?.() === 0;

test("an installer that was taken over reads nothing of the platform and writes only what is installed", {
  timeout: 300_000,
}, async (t) => {
  const home = mkdtempSync(path.join(homedir(), ".svc-test-"));
  t.after(() => rmSync(home, { recursive: true, force: true }));
  writeFileSync(path.join(home, "of-the-user"), "a key");
  const { bin, outside, mark } = makeHostileInstaller(tempDir(t), home);
  const platform = await startPlatform(t, { PATH: `${bin}:${process.env.PATH}`, SOME_SECRET: "x" });
  const deployed = await platform.svc(["deploy"], { cwd: project(t, { "main.py": ASKS }) });
  assert.equal(deployed.code, 0, deployed.stdout + deployed.stderr);
  const [endpoint] = await platform.endpoints();
  const { json, text } = await platform.call(`${endpoint!.url}/runsync`, { body: { input: {} } });
  assert.equal(json.status, "COMPLETED", text);
  const { pods } = (
    await platform.query<{ myself: { endpoints: { pods: { isolation: string }[] }[] } }>(
      "{ myself { endpoints { pods { isolation } } } }",
    )
  ).myself.endpoints[0]!;
  if (!pods[0]!.isolation.includes("namespaces")) return t.skip(`no namespaces here: ${pods[0]!.isolation}`);

  const { uid, capabilities, ...attacks } = json.output as Record<string, string>;
  assert.ok(Object.keys(attacks).length >= 12, text);
  for (const [name, became] of Object.entries(attacks)) assert.match(became, /^refused/, name);
  assert.match(capabilities!, /^[0,]+$/);
  assert.equal(Number(uid), isRoot ? 99_999 : process.getuid?.());
  assert.deepEqual(readdirSync(outside), [], "what compiles the package was not led there");
  assert.deepEqual(
    readdirSync("/proc").filter((pid) => /^\d+$/.test(pid) && commandOf(pid).includes(mark)),
    [],
    "what it started has ended with it",
  );
  const base = path.join(platform.dataDir, "base");
  assert.deepEqual(
    readdirSync(base).filter((name) => name.startsWith(".")),
    [],
    "its home is gone",
  );
});

function commandOf(pid: string): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, "utf8");
  } catch {
    return ""; // It ended in this moment.
  }
}

/** Each of them writes `ran` when any code of it runs, or `escaped` when its files leave their folder. */
test("nothing of a package runs while it is installed, and no file of it leaves its folder", {
  timeout: 300_000,
}, async (t) => {
  const dir = tempDir(t);
  const [wheels, sources, traversal] = ["wheels", "sources", "traversal"].map((name) => path.join(dir, name));
  const [ran, escaped] = [path.join(dir, "ran"), path.join(dir, "escaped")];
  const code = `open(${JSON.stringify(ran)}, "w").close()\n`;
  const files = {
    "numpy/__init__.py": code,
    "numpy.pth": `import os; ${code}`,
    "sitecustomize.py": code,
    "usercustomize.py": code,
    "setup.py": code,
    "pip/__init__.py": code,
  };
  makeWheels(wheels!, [{ name: "numpy", version: "1.0", files }]);
  makeWheels(traversal!, [
    { name: "numpy", version: "1.0", files: { "numpy/__init__.py": "", "../../../escaped": "", [escaped]: "" } },
  ]);
  const source = path.join(dir, "numpy-1.0");
  for (const folder of [source, sources!]) mkdirSync(folder);
  for (const name of ["setup.py", "backend.py"]) writeFileSync(path.join(source, name), code);
  writeFileSync(
    path.join(source, "pyproject.toml"),
    '[build-system]\nrequires = []\nbuild-backend = "backend"\nbackend-path = ["."]\n',
  );
  writeFileSync(path.join(source, "PKG-INFO"), "Metadata-Version: 1.0\nName: numpy\nVersion: 1.0\n");
  execFileSync("tar", ["-czf", path.join(sources!, "numpy-1.0.tar.gz"), "-C", dir, "numpy-1.0"]);

  const interpreter = await new Interpreters(undefined).default();
  const install = (index: string) =>
    new BaseLayers(path.join(dir, "base"), offlineEnv(index)).ensure(["numpy"], interpreter, () => {});
  await assert.rejects(install(sources!), { code: "DEPENDENCIES_FAILED" });
  await assert.rejects(install(traversal!), { code: "DEPENDENCIES_FAILED" });
  assert.deepEqual(readdirSync(path.join(dir, "base")), []);
  const target = await install(wheels!);
  assert.ok(existsSync(path.join(target, "numpy.pth")));
  assert.ok(!existsSync(ran), "code of a package ran");
  for (const file of [escaped, path.join(dir, "base/escaped")]) assert.ok(!existsSync(file), file);
});
