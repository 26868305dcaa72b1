import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import path from "node:path";
import { test } from "node:test";
import type { LayersBuild } from "../../src/build/build-layers.ts";
import { nameProblems } from "../../src/control-plane/deploy/build-request.ts";
import { configurationHash, liveBuild, liveEnvironment, liveName } from "../../src/dev/live.ts";
import { NAME_MAX_CHARS } from "../../src/domain/limits.ts";
import { isValidName } from "../../src/domain/names.ts";
import { ROOT } from "../e2e/platform-process.ts";

test("live environments are named per user, machine and folder, and are valid whatever the user is called", () => {
  const ann = { user: "Ann", host: "box", projectDir: "/home/ann/shop" };
  assert.match(liveEnvironment(ann), /^live-ann-[0-9a-f]{4}$/);
  assert.equal(liveEnvironment(ann), liveEnvironment({ ...ann }));
  for (const other of [{ user: "Ben" }, { host: "other" }, { projectDir: "/home/ann/other" }])
    assert.notEqual(liveEnvironment({ ...ann, ...other }), liveEnvironment(ann));
  for (const user of ["", "ÄÖ", "DOMAIN\\some.body", "x".repeat(200)]) {
    const name = liveEnvironment({ ...ann, user });
    assert.ok(isValidName(name), name);
  }
});

test("a user whose number has no account is called by the number", {
  skip: process.getuid?.() !== 0 && "only root can be another user",
}, () => {
  const code = `import(${JSON.stringify(path.join(ROOT, "src/dev/live.ts"))}).then(({ userName }) => console.log(userName()))`;
  const said = execFileSync(process.execPath, ["-e", code], { uid: 54_321, gid: 54_321, encoding: "utf8" });
  assert.equal(said.trim(), "user-54321");
});

test("live endpoints carry the prefix; the platform takes it before the longest name there is", () => {
  assert.equal(liveName("hello"), "live-hello");
  const longest = "a".repeat(NAME_MAX_CHARS);
  assert.deepEqual(nameProblems("endpoint", liveName(longest)), []);
  assert.equal(nameProblems("endpoint", liveName(`${longest}a`)).length, 1);
});

const build = {
  manifest: {
    resources: {
      a: { workersMin: 2, workersMax: 4, idleTimeout: 60, publicRoutes: "*" },
      b: { workersMin: 0, workersMax: 1 },
    },
    routes: { b: { "GET /": "root" } },
    sourceLayer: "0".repeat(64),
  },
  env: { a: { MODE: "x" }, b: {} },
} as unknown as LayersBuild;

test("a live build has only the endpoints asked for, as declared but closed and without standing workers", () => {
  const { manifest, env } = liveBuild(build, ["a", "gone"]);
  const live = { workersMin: 0, workersMax: 4, idleTimeout: 60, publicRoutes: "", schedule: null };
  assert.deepEqual(manifest.resources, { "live-a": live });
  assert.deepEqual([manifest.routes, env], [{}, { "live-a": { MODE: "x" } }]);
  assert.deepEqual(liveBuild(build, ["b"]).manifest.routes, { "live-b": { "GET /": "root" } });
});

test("the configuration's hash follows settings, routes and variables, not the code", () => {
  const before = configurationHash(build, "a");
  const other = (changes: object) => configurationHash({ ...build, ...changes } as LayersBuild, "a");
  assert.equal(other({ manifest: { ...build.manifest, sourceLayer: "1".repeat(64) } }), before);
  assert.notEqual(other({ env: { a: { MODE: "y" } } }), before);
});
