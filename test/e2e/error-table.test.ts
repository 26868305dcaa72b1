/**
 * The conditions of the documented table of errors, end to end. The artifact over its limit is in
 * test/build/build.test.ts and test/control-plane/refused-build.test.ts, where the limit can be set.
 */
import assert from "node:assert/strict";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import path from "node:path";
import { before, describe, type TestContext, test } from "node:test";
import { findGpus } from "../../src/drivers/capacity.ts";
import { embeddedOnly } from "../servers.ts";
import { suiteContext } from "../suite-context.ts";
import { project, startPlatform, type TestPlatform, tempDir } from "./platform.ts";

const worker = (name: string, changes: { top?: string; workers?: string; body?: string } = {}) => `${changes.top ?? ""}
from svc import Endpoint

@Endpoint(name="${name}", workers=${changes.workers ?? "(0, 1)"})
def work():
    ${changes.body ?? "return 1"}
`;

describe("the documented errors", () => {
  let platform: TestPlatform;
  const context = suiteContext();

  before(async () => {
    platform = await startPlatform(context, { SVC_WORKER_QUOTA: "30" });
  });

  /** Runs `svc deploy`, with the platform of these tests, on a project of one file. */
  const deploy = (t: TestContext, app: string, source: string, env: Record<string, string> = {}) =>
    platform.svc(["deploy"], { cwd: project(t, { "work.py": source }, app), env });
  const graphql = (query: string, key: string | null) =>
    platform.call(`/graphql${key === null ? "" : `?api_key=${key}`}`, { key: null, body: { query } });

  test("Several environments exist and --env is absent: they are named; --env is the way out", async (t) => {
    const cwd = project(t, { "work.py": worker("several") }, "several");
    for (const env of ["staging", "dev"]) {
      const { code, stderr } = await platform.svc(["deploy", "--env", env], { cwd });
      assert.equal(code, 0, stderr);
    }
    assert.deepEqual(
      await platform.svc(["deploy"], { cwd }).then(({ code, stdout, stderr }) => [code, stdout, stderr]),
      [
        1,
        "",
        "error: Multiple environments found: dev, staging\n  Give --env NAME.\n  svc help MULTIPLE_ENVIRONMENTS\n",
      ],
    );
  });

  test("No function decorated with Endpoint: deploy and build report none found, and what an ignore file hides", async (t) => {
    const none = project(t, { "work.py": "def work(): ...\n" });
    const hidden = project(t, { "work.py": worker("hidden"), ".gitignore": "work.py\n" });
    for (const command of ["build", "deploy"]) {
      const found = await platform.svc([command], { cwd: none });
      assert.equal(found.code, 1);
      assert.match(
        found.stderr,
        /error: No function of the project is decorated with Endpoint\.\nFiles.*:\n {2}work\.py/,
      );
      const ignored = await platform.svc([command], { cwd: hidden });
      assert.equal(ignored.code, 1);
      assert.match(ignored.stderr, /Left out by a rule:\n {2}work\.py {2}by work\.py \(\.gitignore\)/);
    }
  });

  test("API key missing or wrong: an authentication error that names the variable and svc login", async (t) => {
    const way = /\n {2}Set PLATFORM_API_KEY or run svc login\.\n {2}svc help (MISSING|WRONG)_KEY\n$/;
    for (const [key, message] of [
      ["", /^error: No API key is known for /],
      ["svc_wrong", /^error: The API key svc_wrong… is not valid for /],
    ] as const) {
      const { code, stdout, stderr } = await deploy(t, "keyless", worker("keyless"), { PLATFORM_API_KEY: key });
      assert.deepEqual([code, stdout], [1, ""]);
      assert.match(stderr, message);
      assert.match(stderr, way);
    }
    for (const [key, code] of [
      [null, "MISSING_KEY"],
      ["svc_wrong", "WRONG_KEY"],
    ] as const) {
      const { status, json } = await graphql("{ myself { endpoints { id } } }", key);
      assert.deepEqual([status, json.errors[0].extensions.code, json.data], [401, code, undefined]);
    }
  });

  test("Maximum workers above the quota: refused at the plan with nothing uploaded, and by saveEndpoint", async (t) => {
    const quota =
      /Max workers across all endpoints must not exceed your workers quota \(30\).*Reduce `workers` or remove/;
    // With a bucket its folder has what is in use alone.
    const folder = embeddedOnly("layers are in the bucket") ? "layer-cache" : "artifacts";
    const stored = () => readdirSync(path.join(platform.dataDir, folder), { recursive: true }).sort();
    const before = stored();
    const { code, stdout, stderr } = await deploy(t, "greedy", worker("greedy", { workers: "(0, 31)" }));
    assert.deepEqual([code, stdout], [1, ""]);
    assert.match(stderr, quota);
    assert.match(stderr, /\n {2}Nothing was uploaded and nothing was changed\.\n {2}svc help QUOTA_EXCEEDED\n$/);
    assert.doesNotMatch(stderr, /Upload(ing|ed) \d/);
    assert.deepEqual(stored(), before);
    assert.ok(!(await platform.endpoints()).some(({ name }) => name === "greedy"));

    const input = '{name: "greedy", gpuIds: "ANY", templateId: "t", workersMax: 31}';
    const { json } = await graphql(`mutation { saveEndpoint(input: ${input}) { id } }`, platform.key);
    assert.equal(json.errors[0].extensions.code, "QUOTA_EXCEEDED");
    assert.match(json.errors[0].message, quota);
  });

  test("A package that is not in dependencies: module not found, whether imported at the top or in the function", async (t) => {
    const message = (name: string) => `module 'nosuchpackage' not found: add it to dependencies of endpoint '${name}'`;
    const top = await deploy(t, "top", worker("top", { top: "import nosuchpackage" }));
    assert.deepEqual([top.code, top.stdout], [1, ""]);
    assert.match(top.stderr, /warning\[missing-dependency\]: nosuchpackage .*\n {2}--> work\.py:1:1/);
    assert.ok(top.stderr.includes(`Endpoint "top" cannot start: ModuleNotFoundError: ${message("top")}`), top.stderr);

    const lazy = await deploy(t, "lazy", worker("lazy", { body: "import nosuchpackage" }));
    assert.equal(lazy.code, 0, lazy.stderr);
    assert.match(lazy.stderr, /warning\[missing-dependency\]: nosuchpackage .*\n {2}--> work\.py:6:5/);
    const { url } = (await platform.endpoints()).find(({ name }) => name === "lazy")!;
    const { status, json } = await platform.call(`${url}/runsync`, { body: { input: {} } });
    assert.deepEqual([status, json.status], [200, "FAILED"]);
    const error = JSON.parse(json.error);
    assert.deepEqual([error.error_type, error.error_message], ["ModuleNotFoundError", message("lazy")]);
  });

  test("deleteEndpoint with workersMax above 0 fails and deletes nothing", async (t) => {
    const { code, stderr } = await deploy(t, "kept", worker("kept"));
    assert.equal(code, 0, stderr);
    const { id } = (await platform.endpoints()).find(({ name }) => name === "kept")!;
    const remove = () => graphql(`mutation { deleteEndpoint(id: "${id}") }`, platform.key);
    const { json } = await remove();
    assert.equal(json.errors[0].extensions.code, "WORKERS_NOT_ZERO");
    assert.match(json.errors[0].message, /cannot be deleted: workersMin is 0 and workersMax is 1, both must be 0/);
    assert.ok((await platform.endpoints()).some((endpoint) => endpoint.id === id));
    await graphql(`mutation { saveEndpoint(input: {id: "${id}", workersMax: 0}) { id } }`, platform.key);
    assert.equal((await remove()).json.errors, undefined);
  });

  test("svc init conflict answered N or empty: the files are not overwritten", async (t) => {
    const cwd = tempDir(t);
    assert.equal((await platform.svc(["init", "mine"], { cwd })).code, 0);
    const file = path.join(cwd, "mine/lb_worker.py");
    writeFileSync(file, "mine");
    for (const input of ["N\n", "\n"]) {
      const { code, stderr } = await platform.svc(["init", "mine"], { cwd, input });
      assert.equal(code, 1);
      assert.match(
        stderr,
        /overwrite these files\? \[y\/N\] \nerror: Nothing was written: the files stay as they are\./,
      );
      assert.equal(readFileSync(file, "utf8"), "mine");
    }
  });
});

const GPU = `
from svc import Endpoint, GpuGroup

api = Endpoint(name="api", gpu=GpuGroup.ANY, workers=(0, 1))

@api.get("/health")
def health() -> dict:
    return {}

@Endpoint(name="queued", gpu=GpuGroup.ANY, workers=(0, 1))
def queued():
    return 1
`;

test("No GPU available: a job stays IN_QUEUE; a request of a GPU endpoint gets the time-out, with the reason", {
  skip: (await findGpus(process.env.PATH)).length > 0 && "this machine has a GPU",
}, async (t) => {
  const platform = await startPlatform(t, { SVC_EMULATE_GPU: "0", SVC_REQUEST_TIMEOUT_MS: "500" });
  const { code, stderr } = await platform.svc(["deploy"], { cwd: project(t, { "work.py": GPU }) });
  assert.equal(code, 0, stderr);
  assert.match(
    stderr,
    /warning: queued: No GPU available: .*jobs stay IN_QUEUE and requests time out\..*--emulate-gpu/,
  );
  const endpoints = await platform.endpoints();
  const url = (name: string) => endpoints.find((endpoint) => endpoint.name === name)!.url;

  const accepted = await platform.call(`${url("queued")}/run`, { body: { input: {} } });
  assert.deepEqual([accepted.status, accepted.json.status], [200, "IN_QUEUE"]);
  const later = await platform.call(`${url("queued")}/status-sync/${accepted.json.id}?wait=1000`);
  assert.deepEqual([later.status, later.json.status], [200, "IN_QUEUE"]);
  const sync = await platform.call(`${url("queued")}/runsync?wait=1000`, { body: { input: {} } });
  assert.deepEqual([sync.status, sync.json.status], [200, "IN_QUEUE"]);

  const late = await platform.call(`${url("api")}/health`);
  assert.deepEqual([late.status, late.json.code], [504, "WORKER_WAIT_TIMEOUT"]);
  assert.match(late.json.detail, /within 500 ms\. No GPU available: .*Try again/);
});
