import assert from "node:assert/strict";
import { test } from "node:test";
import { deploy, ENV, manifest, plan, resource, rows, sample } from "./builds.ts";
import { startPlatform, type TestPlatform } from "./platform.ts";

test("a layer that is missing is named by the plan and refused by the deploy", async (t) => {
  const platform = await startPlatform(t);
  const missing = "ab".repeat(32);
  const build = manifest(await platform.upload(Buffer.from("s")), {
    hello: resource("hello", { dependencyLayer: missing }),
  });
  assert.deepEqual((await plan(platform, build)).missingLayers, [missing]);
  const { errors } = await deploy(platform, build);
  assert.equal(errors?.[0]?.extensions.code, "LAYER_MISSING");
  assert.ok(errors[0]!.message.includes(missing));
  assert.deepEqual((await rows(platform)).apps, []);
});

test("a build over the artifact limit is refused", async (t) => {
  const platform = await startPlatform(t, { artifactMaxBytes: 100 });
  const [source, layer] = [await platform.upload(Buffer.alloc(60)), await platform.upload(Buffer.alloc(61))];
  const { errors } = await deploy(platform, manifest(source, { hello: resource("hello", { dependencyLayer: layer }) }));
  assert.equal(errors?.[0]?.extensions.code, "ARTIFACT_TOO_LARGE");
  assert.match(errors[0]!.message, /--exclude/);
});

test("all problems of a build are named at once, by the plan and by the deploy", async (t) => {
  const platform = await startPlatform(t);
  const build = manifest("cd".repeat(32), {
    "My Endpoint": resource("my-endpoint"),
    constructor: resource("constructor", { workersMin: 9, workersMax: 40, envNames: ["TOKEN"] }),
    web: resource("web", { is_load_balanced: true, instanceIds: "cpu9-1-1" }),
  });
  const options = { app: "Shop!", env: { web: { "A-B": "1" }, ghost: {} } };
  const broken = { ...build, routes: {} };
  const { problems } = await plan(platform, broken, options);
  const expected = [
    /"Shop!" cannot name an app.*"shop"/,
    /"My Endpoint" cannot name an endpoint.*"my-endpoint"/,
    /"constructor".*TOKEN is declared but has no value/,
    /"web".*cpu9-1-1/,
    /"web" is load-balanced but has no routes/,
    /"A-B" is not a valid name/,
    /ghost/,
    /workers quota \(30\)/,
  ];
  for (const pattern of expected)
    assert.ok(
      problems.some((one) => pattern.test(one)),
      `${pattern} in ${problems.join("\n")}`,
    );
  const { errors } = await deploy(platform, broken, options);
  assert.equal(errors?.length, 1);
  for (const problem of problems) assert.ok(errors[0]!.message.includes(problem), problem);
});

test("a manifest that is not one is refused with the place of each fault", async (t) => {
  const platform = await startPlatform(t);
  const build = manifest("ab", {
    hello: { ...resource("hello"), workersMax: "3" as never, handler: "../../etc/passwd" },
  });
  const { problems, changes } = await plan(platform, build, { env: { hello: { A: 1 as never } } });
  assert.deepEqual(changes, []);
  for (const place of [
    "manifest.resources.hello.workersMax",
    "manifest.resources.hello.handler",
    "manifest.sourceLayer",
    "env.hello.A",
  ]) {
    assert.ok(
      problems.some((one) => one.startsWith(`${place}: `)),
      `${place} in ${problems.join("\n")}`,
    );
  }
  for (const wrong of [build, 3, null, [], {}, manifest("ab".repeat(32), {})]) {
    const { data, errors } = await deploy(platform, wrong);
    assert.ok(data === null || data === undefined);
    assert.equal(errors?.length, 1);
  }
});

test("a deploy that fails half-way changes nothing", async (t) => {
  const platform = await startPlatform(t);
  await deploy(platform, await sample(platform), { env: ENV });
  const before = await rows(platform);
  const next = await sample(platform, "next");
  next.resources.third = resource("third");
  // The write of the last endpoint fails inside the transaction.
  const { transaction } = platform.store;
  Object.assign(platform.store, {
    transaction: <T>(work: (store: TestPlatform["store"]) => Promise<T>) =>
      transaction.call(platform.store, (tx) => {
        const endpoints = { ...tx.endpoints, insert: () => Promise.reject(new Error("disk full")) };
        return work({ ...tx, endpoints: Object.assign(Object.create(tx.endpoints), endpoints) });
      }) as Promise<T>,
  });
  const { errors } = await deploy(platform, next, { env: ENV });
  assert.equal(errors?.[0]?.extensions.code, "INTERNAL");
  assert.deepEqual(await rows(platform), before);
});

test("the quota counts what the deploy removes and replaces", async (t) => {
  const platform = await startPlatform(t);
  const source = await platform.upload(Buffer.from("s"));
  const big = (name: string) => manifest(source, { [name]: resource(name, { workersMax: 20 }) });
  await deploy(platform, big("a"));
  assert.equal((await deploy(platform, big("b"))).errors, undefined, "b takes the place of a");
  const kept = await deploy(platform, big("c"), { keepRemoved: true });
  assert.equal(kept.errors?.[0]?.extensions.code, "QUOTA_EXCEEDED");
  const elsewhere = await deploy(platform, big("c"), { environment: "staging" });
  assert.equal(elsewhere.errors?.[0]?.extensions.code, "QUOTA_EXCEEDED");
  assert.match(elsewhere.errors[0]!.message, /workers quota \(30\).*40/);
});
