import assert from "node:assert/strict";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { changesNothing } from "../../src/cli/deploy/plan-view.ts";
import { chooseEnvironment } from "../../src/cli/deploy/target.ts";
import type { Plan } from "../../src/client/records.ts";
import { refuseProblems } from "../../src/client/refuse-problems.ts";
import type { SvcError } from "../../src/domain/errors.ts";
import { sandbox } from "./run-svc.ts";
import { schemaServer } from "./schema-server.ts";

const plan = (...actions: Plan["changes"][number]["action"][]): Plan => ({
  changes: actions.map((action) => ({ action, name: action, kind: "queue", details: [] })),
  missingLayers: [],
  problems: [],
});

describe("the environment of a deploy", () => {
  test("none exists: production; exactly one exists: that one", () => {
    assert.equal(chooseEnvironment([]), "production");
    assert.equal(chooseEnvironment(["dev"]), "dev");
  });

  test("several exist and --env is absent: an error that names them, before anything is built", async () => {
    const platform = await schemaServer([
      { id: "1", name: "a", app: "shop", environment: "staging" },
      { id: "2", name: "a", app: "shop", environment: "dev" },
    ]);
    const box = await sandbox();
    const cwd = join(box.cwd, "shop");
    await mkdir(cwd);
    await writeFile(join(cwd, "broken.py"), "def (");
    const env = { PLATFORM_URL: platform.url, PLATFORM_API_KEY: "k" };
    const { code, stderr } = await box.svc(["deploy"], { cwd, env });
    assert.equal(code, 1);
    assert.equal(
      stderr,
      "error: Multiple environments found: dev, staging\n  Give --env NAME.\n  svc help MULTIPLE_ENVIRONMENTS\n",
    );
  });

  test("names that cannot be used are refused with a suggestion, before anything is built", async () => {
    const platform = await schemaServer([]);
    const box = await sandbox();
    const env = { PLATFORM_URL: platform.url, PLATFORM_API_KEY: "k" };
    const badApp = await box.svc(["deploy", "--app", "My Shop!"], { env });
    assert.equal(badApp.code, 1);
    assert.match(badApp.stderr, /"My Shop!" cannot name an app.*\n {2}at --app\n {2}Try --app my-shop\./);
    const badEnv = await box.svc(["deploy", "-e", "Prod"], { env });
    assert.equal(badEnv.code, 1);
    assert.match(badEnv.stderr, /Try --env prod\./);
  });
});

describe("before a deploy uploads anything", () => {
  test("a missing key is reported first", async () => {
    const platform = await schemaServer([]);
    const box = await sandbox();
    const { code, stderr } = await box.svc(["deploy"], { env: { PLATFORM_URL: platform.url } });
    assert.equal(code, 1);
    assert.match(stderr, /No API key is known for .*\n {2}Set PLATFORM_API_KEY or run svc login\./);
  });

  test("what the platform would refuse is an error with every problem", () => {
    const problems = ["Max workers across all endpoints must not exceed your workers quota (30).", "Another."];
    assert.throws(
      () => refuseProblems(problems),
      (error: SvcError) => error.code === "QUOTA_EXCEEDED" && error.message === problems.join("\n"),
    );
    refuseProblems([]);
  });

  test("a plan of unchanged endpoints changes nothing; any other does", () => {
    assert.equal(changesNothing(plan("unchanged", "unchanged")), true);
    assert.equal(changesNothing(plan("unchanged", "remove")), false);
    assert.equal(changesNothing(plan("create")), false);
  });
});
