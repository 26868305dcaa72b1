import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { project, startPlatform, type TestPlatform } from "./platform.ts";

const CALLERS = 8;

const source = (version: string) => `
from svc import Endpoint

VERSION = ${JSON.stringify(version)}
api = Endpoint(name="api", workers=(2, 3))

@api.get("/version")
def version() -> dict:
    return {"version": VERSION}

@Endpoint(name="queued", workers=(2, 3))
def queued() -> str:
    return VERSION
`;

const SPARE = `
from svc import Endpoint

@Endpoint(name="spare", workers=(1, 1))
def spare() -> int:
    return 1
`;

test("a rolling replacement, a scale-down and an undeploy fail no request under load", {
  timeout: 300_000,
}, async (t) => {
  const platform = await startPlatform(t);
  const dir = project(t, { "worker.py": source("one"), "spare.py": SPARE });
  const deploy = async () => {
    const { code, stdout, stderr } = await platform.svc(["deploy"], { cwd: dir });
    assert.equal(code, 0, stderr);
    return stdout;
  };
  await deploy();
  const endpoints = await platform.endpoints();
  const named = (name: string) => endpoints.find((endpoint) => endpoint.name === name)!;
  const load = await startLoad(t, platform, named("api").url, named("queued").url);
  await load.hears("one");

  await t.test("a deploy without a change says so and replaces no worker", async () => {
    const before = Object.values(await workers(platform)).flat();
    assert.match(await deploy(), /^No changes: app\/production already runs this code and these settings\./);
    const now = Object.values(await workers(platform)).flat();
    assert.deepEqual(
      before.filter((id) => !now.includes(id)),
      [],
    );
  });

  await t.test("after a deploy of new code returns, every call is answered by it", async () => {
    const before = Object.values(await workers(platform)).flat();
    writeFileSync(path.join(dir, "worker.py"), source("two"));
    assert.match(await deploy(), /^Deployed app\/production\./);
    await load.hears("two");
    const now = await workers(platform);
    assert.deepEqual(
      [...now.api!, ...now.queued!].filter((id) => before.includes(id)),
      [],
      "each worker of the earlier code is replaced",
    );
  });

  await t.test("a scale-down drains the workers it takes", async () => {
    const down = "mutation($id: String!) { saveEndpoint(input: {id: $id, workersMin: 1, workersMax: 1}) { id } }";
    for (const name of ["api", "queued"]) await platform.query(down, { id: named(name).id });
    await until(async () => {
      const now = await workers(platform);
      return now.api!.length === 1 && now.queued!.length === 1;
    });
    await load.hears("two");
  });

  await t.test("an undeploy of one endpoint leaves the others alone", async () => {
    const gone = await platform.svc(["undeploy", "spare"], { cwd: dir });
    assert.equal(gone.code, 0, gone.stderr);
    assert.equal((await platform.call(`${named("spare").url}/runsync`, { body: { input: {} } })).status, 404);
    await load.hears("two");
  });

  assert.deepEqual(await load.stop(), []);
});

/** Ids of the running workers, sorted, by endpoint. */
async function workers(platform: TestPlatform): Promise<Record<string, string[]>> {
  const document = "{ myself { endpoints { name pods { id desiredStatus } } } }";
  type Listed = { name: string; pods: { id: string; desiredStatus: string }[] };
  const { myself } = await platform.query<{ myself: { endpoints: Listed[] } }>(document);
  return Object.fromEntries(
    myself.endpoints.map(({ name, pods }) => [
      name,
      pods
        .filter((pod) => pod.desiredStatus === "RUNNING")
        .map((pod) => pod.id)
        .sort(),
    ]),
  );
}

async function until(reached: () => Promise<boolean>): Promise<void> {
  const end = performance.now() + 90_000;
  while (!(await reached())) assert.ok(performance.now() < end, "not reached in 90 s");
}

/** Callers that go on until they are stopped, one call after the other on kept connections. */
async function startLoad(t: TestContext, platform: TestPlatform, api: string, queued: string) {
  const problems: string[] = [];
  const heard = new Set<(version: string) => void>();
  let going = true;
  const caller = async (ask: () => Promise<string>) => {
    while (going) {
      // Who listens only now must hear only answers to calls that begin from now on.
      const listening = [...heard];
      const version = await ask().catch((error) => void problems.push(String(error)));
      if (version !== undefined) for (const hear of listening) hear(version);
    }
  };
  const asks = [
    async () => {
      const { status, json, text } = await platform.call(`${api}/version`);
      assert.equal(status, 200, text);
      return json.version as string;
    },
    async () => {
      const { status, json, text } = await platform.call(`${queued}/runsync`, { body: { input: {} } });
      assert.deepEqual([status, json?.status], [200, "COMPLETED"], text);
      return json.output as string;
    },
  ];
  const callers = asks.flatMap((ask) => Array.from({ length: CALLERS / 2 }, () => caller(ask)));
  const stop = async () => {
    going = false;
    await Promise.all(callers);
    return problems;
  };
  t.after(stop);
  return {
    stop,
    /** Resolves after 200 answers to calls that begin from now on, each of them `version`. */
    hears: (version: string) =>
      new Promise<void>((resolve, reject) => {
        let left = 200;
        const hear = (got: string) => {
          left -= 1;
          if (got === version && left > 0) return;
          heard.delete(hear);
          if (got === version) resolve();
          else reject(new Error(`a call that began later was answered by version ${got}`));
        };
        heard.add(hear);
      }),
  };
}
