/** Data directories of earlier versions, as those left them, open with the version that is here. */
import assert from "node:assert/strict";
import { globSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { DatabaseSync } from "node:sqlite";
import { type TestContext, test } from "node:test";
import { VERSION } from "../../src/domain/version.ts";
import { runProcess } from "../../src/lib/run-process.ts";
import { eventually } from "../eventually.ts";
import { svc } from "./platform.ts";

const FOLDER = path.join(import.meta.dirname, "earlier-data");

interface About {
  /** Of a key with all rights, made for this fixture. */
  readonly key: string;
  readonly endpoints: { readonly double: string; readonly later: string };
  readonly jobs: { readonly finished: string; readonly queued: string };
}

async function unpack(t: TestContext, name: string) {
  const dir = mkdtempSync(path.join(tmpdir(), "svc-earlier-"));
  const env = { SVC_DATA_DIR: path.join(dir, "data"), SVC_CONFIG_DIR: path.join(dir, "config"), SVC_PORT: "0" };
  const run = (args: readonly string[], more: Record<string, string> = {}) => svc(args, { env: { ...env, ...more } });
  t.after(async () => {
    await run(["platform", "stop", "--now"]);
    rmSync(dir, { recursive: true, force: true, maxRetries: 5, retryDelay: 100 });
  });
  const { code, stderr } = await runProcess("tar", ["-xzf", path.join(FOLDER, name), "-C", dir, "--no-same-owner"]);
  assert.equal(code, 0, stderr);
  const dataDir = path.join(dir, "data");
  change(dataDir, (database) => {
    // As if it had been left just now: jobs do not live for ever.
    const { at } = database.prepare("SELECT max(created_at) AS at FROM jobs").get() as { at: number };
    const times = ["created_at", "started_at", "finished_at", "expires_at"].map(
      (c) => `${c} = ${c} + ${Date.now() - at}`,
    );
    database.exec(`UPDATE jobs SET ${times.join(", ")}`);
  });
  const about: About = JSON.parse(readFileSync(path.join(dir, "about.json"), "utf8"));
  return { dataDir, about, run };
}

function change(dataDir: string, work: (database: DatabaseSync) => void): void {
  const database = new DatabaseSync(path.join(dataDir, "platform.db"));
  work(database);
  database.close();
}

for (const name of globSync("*.tar.gz", { cwd: FOLDER })) {
  test(`A data directory of ${name.slice(0, -".tar.gz".length)} opens: its build runs, its jobs, secrets and keys are there`, async (t) => {
    const { dataDir, about, run } = await unpack(t, name);
    const started = await run(["platform", "start", "--json"]);
    assert.equal(started.code, 0, started.stderr);
    const { url } = JSON.parse(started.stdout);
    const asked = async (route: string, body?: object) => {
      const headers = { authorization: `Bearer ${about.key}`, "content-type": "application/json" };
      const init = body === undefined ? { headers } : { method: "POST", headers, body: JSON.stringify(body) };
      return (await fetch(`${url}${route}`, init)).json();
    };
    const { double, later } = about.endpoints;
    const finished = await asked(`/v2/${double}/status/${about.jobs.finished}`);
    assert.deepEqual(finished.output, { number: 42, token: "told-in-the-fixture" });
    assert.equal((await asked(`/v2/${later}/status/${about.jobs.queued}`)).status, "IN_QUEUE");
    const called = await asked(`/v2/${double}/runsync`, { input: { number: 4 } });
    assert.deepEqual(called.output, { number: 8, token: "told-in-the-fixture" }, JSON.stringify(called));

    const key = { PLATFORM_API_KEY: about.key };
    assert.match((await run(["secret", "list", "--app", "shop"], key)).stdout, /TOKEN/);
    assert.match((await run(["rollback", "--list", "--app", "shop"], key)).stdout, /live/);
    const query = `mutation { saveEndpoint(input: {id: "${later}", name: "later", workersMin: 0, workersMax: 1}) { id } }`;
    const saved = await asked("/graphql", { query });
    assert.equal(saved.errors, undefined, JSON.stringify(saved.errors));
    await eventually(async () => {
      const job = await asked(`/v2/${later}/status/${about.jobs.queued}`);
      assert.deepEqual([job.status, job.output], ["COMPLETED", "KEPT"]);
    });
    assert.equal(readFileSync(path.join(dataDir, "version"), "utf8"), `${VERSION}\n`);
  });
}

test("A data directory of a newer version is refused in words, and nothing in it is changed", async (t) => {
  const [name] = globSync("*.tar.gz", { cwd: FOLDER });
  const { dataDir, run } = await unpack(t, name!);
  for (const [what, step, undo] of [
    ["the queue's tables", "PRAGMA user_version = 1000", "PRAGMA user_version = 3"],
    ["the store's tables", "INSERT INTO kysely_migration VALUES ('9999-of-the-future', '')", ""],
  ] as const) {
    change(dataDir, (database) => database.exec(step));
    writeFileSync(path.join(dataDir, "version"), "99.1.0\n");
    const { code, stdout, stderr } = await run(["platform", "start"]);
    assert.deepEqual([code, stdout], [1, ""], what);
    assert.match(stderr, /The data directory was used by a newer svc \(99\.1\.0\) and cannot be read by this one \(/);
    assert.match(stderr, /svc platform restore DIR/);
    assert.doesNotMatch(stderr, /^\s+at |corrupt/m);
    const foreground = await run(["platform", "start", "--foreground"]);
    assert.equal(foreground.code, 1);
    assert.match(foreground.stderr, /newer svc \(99\.1\.0\)/);
    change(dataDir, (database) => {
      const columns = database.prepare("PRAGMA table_info(endpoints)").all();
      assert.ok(!columns.some((column) => column.name === "schedule"), "no step was taken");
      if (undo !== "") database.exec(undo);
    });
  }
});
