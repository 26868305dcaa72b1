// May take 15 minutes.
/** Pages that say how to do something are done as they stand, from top to bottom, on one platform. */
import assert from "node:assert/strict";
import { globSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { runProcess } from "../../src/lib/run-process.ts";
import { ROOT, startPlatform, type TestPlatform, tempDir } from "../e2e/platform.ts";
import { findPostgres, startPostgres } from "../postgres.ts";
import { BIN } from "../program.ts";
import { findS3, startS3 } from "../s3.ts";
import { missing, type Page, readPage, scriptOf } from "./page.ts";

const FOLDERS = "docs/{start,tutorials,build,operate,explanation}/*.md";
const ONLY = process.env.SVC_TEST_PAGE ?? "";

/** What a page's commands have besides; why it cannot be followed here. */
async function beside(t: TestContext, page: Page): Promise<Record<string, string> | string> {
  const database = page.postgres ? await besidePostgres(t) : {};
  if (!page.s3 || typeof database === "string") return database;
  const found = await findS3();
  if ("missing" in found) return found.missing;
  const server = await startS3(found.program);
  t.after(() => server.stop());
  const { endpoint, settings, keys } = server;
  return {
    ...database,
    TEST_S3_BUCKET: settings.name,
    TEST_S3_ENDPOINT: endpoint,
    TEST_S3_ID: keys.id,
    TEST_S3_SECRET: keys.secret,
  };
}

async function besidePostgres(t: TestContext): Promise<Record<string, string> | string> {
  const found = await findPostgres();
  if ("missing" in found) return found.missing;
  const server = await startPostgres(found.bin);
  t.after(() => server.stop());
  return { TEST_POSTGRES_URL: server.url };
}

async function follow(t: TestContext, platform: TestPlatform, name: string, page: Page): Promise<void> {
  const needed = await beside(t, page);
  if (typeof needed === "string") return t.skip(needed);
  const home = tempDir(t);
  const cwd = path.join(home, name);
  mkdirSync(cwd);
  const own = {
    SVC_DATA_DIR: path.join(home, "data"),
    SVC_EMULATE_GPU: "1",
    SVC_PORT: "0",
    BACKUPS: path.join(home, "backups"),
  };
  const env = {
    // Where this machine's users have said how the package index is reached.
    ...(Object.fromEntries(Object.entries(process.env).filter(([key]) => /^(PIP|UV)_|_proxy$/i.test(key))) as Record<
      string,
      string
    >),
    PATH: [BIN, path.dirname(process.execPath), process.env.PATH].join(":"),
    HOME: process.env.HOME,
    PYTHONPATH: path.join(ROOT, "python/src"),
    PYTHONDONTWRITEBYTECODE: "1",
    SVC_CONFIG_DIR: path.join(home, "config"),
    SVC_REPOSITORY: ROOT,
    NO_COLOR: "1",
    CI: "1",
    ...needed,
    ...(page.ownPlatform ? own : { PLATFORM_URL: platform.url, PLATFORM_API_KEY: platform.key }),
  };
  const script = path.join(home, "page.sh");
  writeFileSync(script, scriptOf(page));
  try {
    const { code, stdout, stderr } = await runProcess("bash", ["-c", `exec bash -eu ${script} 2>&1`], { cwd, env });
    if (code !== 0 && /package index cannot be reached/.test(stdout)) return t.skip("no package index here");
    assert.equal(code, 0, stdout + stderr);
    assert.deepEqual(missing(page, stdout), [], stdout);
    assert.doesNotMatch(stdout, /^warning/m, "what a page shows is built without a warning");
  } finally {
    if (page.ownPlatform) await runProcess("svc", ["platform", "stop", "--now"], { cwd, env });
    else await runProcess("svc", ["undeploy", "--all", "--force", "--app", name], { cwd, env });
  }
}

test("Each page's blocks work as they stand, one after the other", { timeout: 840_000 }, async (t) => {
  const platform = await startPlatform(t);
  for (const file of globSync(FOLDERS, { cwd: ROOT }).sort()) {
    const page = readPage(readFileSync(path.join(ROOT, file), "utf8"));
    if (page.steps.length === 0 || !file.includes(ONLY)) continue;
    await t.test(file, (each) => follow(each, platform, path.basename(file, ".md"), page));
  }
});
