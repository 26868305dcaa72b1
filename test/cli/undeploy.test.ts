import assert from "node:assert/strict";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { GraphQLError } from "graphql";
import { sandbox } from "./run-svc.ts";
import { schemaServer, type TestEndpoint } from "./schema-server.ts";

const shop = (name: string, environment = "production", more: Partial<TestEndpoint> = {}): TestEndpoint => ({
  id: `ep-${environment}-${name}`,
  name,
  app: "shop",
  environment,
  ...more,
});

/** A project directory named "shop", with a platform that has these endpoints. */
async function setUp(endpoints: TestEndpoint[], more: object = {}) {
  const platform = await schemaServer(endpoints, more);
  const box = await sandbox();
  const cwd = join(box.cwd, "shop");
  await mkdir(cwd);
  const env = { PLATFORM_URL: platform.url, PLATFORM_API_KEY: "svc_k" };
  return { ...platform, svc: (args: string[]) => box.svc(args, { cwd, env }) };
}

describe("svc undeploy", () => {
  test("scales to zero, waits until the workers are gone, then deletes", async () => {
    const { svc, operations } = await setUp([shop("hello", "production", { pods: 2 }), shop("other")]);
    const { code, stdout } = await svc(["undeploy", "hello"]);
    assert.equal(code, 0);
    assert.equal(stdout, "Removed hello (shop/production).\n");
    assert.deepEqual(operations, ["save hello 0 0", "look hello 2", "look hello 1", "look hello 0", "delete hello"]);
  });

  test("--all removes the endpoints of the directory's app only, in every environment", async () => {
    const foreign: TestEndpoint = { id: "x", name: "foreign", app: "other", environment: "production" };
    const { svc, endpoints } = await setUp([shop("a"), shop("b", "staging"), shop("live-a", "dev"), foreign]);
    assert.equal((await svc(["undeploy", "--all", "--force"])).code, 0);
    assert.deepEqual(endpoints, [foreign]);
  });

  test("one that somebody else removes meanwhile is removed; one that fails keeps no other", async () => {
    const deleted: string[] = [];
    const failures: Record<string, string> = { "ep-production-a": "ENDPOINT_NOT_FOUND", "ep-production-b": "CONFLICT" };
    const deleteEndpoint = ({ id }: { id: string }) => {
      deleted.push(id);
      const code = failures[id];
      if (code !== undefined) throw new GraphQLError(`not ${id}`, { extensions: { code } });
      return null;
    };
    const { svc } = await setUp([shop("a"), shop("b"), shop("c", "production", { pods: 1 })], { deleteEndpoint });
    const { code, stderr } = await svc(["undeploy", "--all", "--force"]);
    assert.equal(code, 1);
    assert.match(stderr, /error: not ep-production-b/);
    assert.doesNotMatch(stderr, /not ep-production-a/);
    assert.deepEqual(deleted.sort(), ["ep-production-a", "ep-production-b", "ep-production-c"]);
    failures["ep-production-b"] = "ENDPOINT_NOT_FOUND";
    assert.equal((await svc(["undeploy", "--all", "--force"])).code, 0);
  });

  test("--app and --env narrow --all", async () => {
    const { svc, endpoints } = await setUp([shop("a"), shop("a", "staging")]);
    const { stdout } = await svc(["undeploy", "--all", "--app", "shop", "--env", "staging", "--force", "--json"]);
    assert.deepEqual(JSON.parse(stdout), {
      removed: [{ id: "ep-staging-a", name: "a", app: "shop", environment: "staging" }],
    });
    assert.deepEqual(
      endpoints.map((endpoint) => endpoint.environment),
      ["production"],
    );
  });

  test("--all without a terminal and without --force lists what it would remove and removes nothing", async () => {
    const { svc, operations } = await setUp([shop("a"), shop("b")]);
    const { code, stderr } = await svc(["undeploy", "--all"]);
    assert.equal(code, 2);
    assert.match(stderr, /To be removed \(2\):\n {2}a \(shop\/production\)\n {2}b \(shop\/production\)/);
    assert.match(stderr, /Add --force/);
    assert.deepEqual(operations, []);
  });

  test("a name in several environments is not guessed", async () => {
    const { svc, operations } = await setUp([shop("a"), shop("a", "staging")]);
    const { code, stderr } = await svc(["undeploy", "a"]);
    assert.equal(code, 2);
    assert.match(stderr, /Several endpoints are named "a": shop\/production, shop\/staging/);
    assert.match(stderr, /--env/);
    assert.deepEqual(operations, []);
    assert.equal((await svc(["undeploy", "a", "--env", "staging"])).code, 0);
  });

  test("an unknown name ends with the nearest one", async () => {
    const { svc } = await setUp([shop("hello")]);
    const { code, stderr } = await svc(["undeploy", "helo"]);
    assert.equal(code, 1);
    assert.match(stderr, /There is no endpoint "helo"\.\n {2}Did you mean hello\?/);
  });

  test("list shows every endpoint with its place, state and reason, and --json the same for programs", async () => {
    const { svc } = await setUp([
      shop("hello", "production", { pods: 1 }),
      { id: "x", name: "foreign", app: "other", environment: "dev", reason: "no capacity: 64 GB wanted" },
      { id: "y", name: "bare", app: null, environment: null, kind: "load-balanced" },
    ]);
    const { code, stdout } = await svc(["undeploy", "list"]);
    assert.equal(code, 0);
    assert.match(stdout, /^shop\/production\nENDPOINT .*\nhello +READY +1 of 0-3 +http:\/\/platform/m);
    assert.match(stdout, /^other\/dev\nENDPOINT .*\nforeign +BLOCKED/m);
    assert.match(stdout, /^no app\nENDPOINT .*\nbare +READY/m);
    assert.match(stdout, /^foreign: no capacity: 64 GB wanted$/m);
    const rows = JSON.parse((await svc(["undeploy", "list", "--json"])).stdout) as { name: string; workers: number }[];
    assert.deepEqual(
      rows.map(({ name, workers }) => [name, workers]),
      [
        ["foreign", 0],
        ["hello", 1],
        ["bare", 0],
      ],
    );
  });
});

describe("listings", () => {
  test("svc status NAME shows one endpoint with its calls", async () => {
    const { svc } = await setUp([shop("hello")]);
    const { stdout } = await svc(["status", "hello"]);
    assert.match(stdout, /^endpoint +hello \(shop\/production\)$/m);
    assert.match(stdout, /^curl http:\/\/platform\/v2\/ep-production-hello\/runsync /m);
  });

  test("an endpoint whose GPU is emulated says so, in the list and alone", async () => {
    const { svc } = await setUp([{ ...shop("draw"), gpuIds: "ADA_24" }, shop("hello")]);
    const list = (await svc(["status"])).stdout;
    assert.match(list, /^draw: GPU emulated: it runs on the CPU of this machine$/m);
    assert.doesNotMatch(list, /^hello: GPU/m);
    assert.match((await svc(["status", "draw"])).stdout, /^runs on +GPU ADA_24 \(GPU emulated/m);
  });

  test("svc env list and svc app list, for people and programs", async () => {
    const { svc } = await setUp([shop("a"), shop("b", "staging"), shop("c", "staging")]);
    assert.match((await svc(["env", "list"])).stdout, /^staging +2 +b-1$/m);
    assert.deepEqual(JSON.parse((await svc(["app", "list", "--json"])).stdout), [
      { name: "shop", environments: ["production", "staging"], endpoints: 3 },
    ]);
    const missing = await svc(["env", "list", "--app", "shopp"]);
    assert.equal(missing.code, 1);
    assert.match(missing.stderr, /There is no app "shopp"\.\n {2}Did you mean shop\?/);
  });

  test("nothing deployed is an empty list, not an error", async () => {
    const { svc } = await setUp([]);
    for (const args of [["status"], ["undeploy", "list"], ["app", "list"], ["env", "list"]]) {
      const plain = await svc(args);
      assert.deepEqual([plain.code, plain.stdout], [0, ""], args.join(" "));
      assert.deepEqual(JSON.parse((await svc([...args, "--json"])).stdout), [], args.join(" "));
    }
  });
});
