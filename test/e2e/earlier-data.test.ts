/** Data directories of earlier versions, as those left them, open with the version that is here. */
import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { VERSION } from "../../src/domain/version.ts";
import { eventually } from "../eventually.ts";
import { EARLIER, hasLaterTables, inDatabase, openEarlier } from "./earlier-data/open.ts";

for (const commit of EARLIER) {
  test(`A data directory of ${commit} opens: its build runs, its jobs, secrets and keys are there`, async (t) => {
    const { dataDir, about, run } = await openEarlier(t, commit);
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
  const { dataDir, run } = await openEarlier(t, EARLIER[0]!);
  for (const [what, step, undo] of [
    ["the queue's tables", "PRAGMA user_version = 1000", "PRAGMA user_version = 3"],
    ["the store's tables", "INSERT INTO kysely_migration VALUES ('9999-of-the-future', '')", ""],
  ] as const) {
    inDatabase(dataDir, (database) => database.exec(step));
    writeFileSync(path.join(dataDir, "version"), "99.1.0\n");
    const { code, stdout, stderr } = await run(["platform", "start"]);
    assert.deepEqual([code, stdout], [1, ""], what);
    assert.match(stderr, /The data directory was used by a newer svc \(99\.1\.0\) and cannot be read by this one \(/);
    assert.match(stderr, /svc platform restore DIR/);
    assert.doesNotMatch(stderr, /^\s+at .*:\d+:\d+|corrupt/m);
    const foreground = await run(["platform", "start", "--foreground"]);
    assert.equal(foreground.code, 1);
    assert.match(foreground.stderr, /newer svc \(99\.1\.0\)/);
    assert.equal(hasLaterTables(dataDir), false, "no step was taken");
    if (undo !== "") inDatabase(dataDir, (database) => database.exec(undo));
  }
});
