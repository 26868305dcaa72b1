import assert from "node:assert/strict";
import { test } from "node:test";
import type { Manifest } from "../../src/domain/manifest.ts";
import { deploy, ENV, manifest, type Options, plan, resource, rows, sample } from "./builds.ts";
import { startPlatform } from "./platform.ts";

test("the first deploy makes the app, the environment, the build and every endpoint", async (t) => {
  const platform = await startPlatform(t);
  const build = await sample(platform);
  const { changes, problems, missingLayers } = await plan(platform, build, { env: ENV });
  assert.deepEqual(
    changes.map(({ action, name, kind }) => [action, name, kind]),
    [
      ["create", "hello", "queue"],
      ["create", "web", "load-balanced"],
    ],
  );
  assert.deepEqual([problems, missingLayers], [[], []]);
  assert.deepEqual((await rows(platform)).apps, [], "a plan changes nothing");

  const { data, errors } = await deploy(platform, build, { env: ENV });
  assert.equal(errors, undefined);
  const { buildId, endpoints, ...rest } = data.deployBuild;
  assert.deepEqual(rest, { app: "shop", environment: "production", removed: [] });
  const [hello, web] = endpoints;
  assert.deepEqual(hello, {
    id: hello.id,
    name: "hello",
    kind: "queue",
    url: `${platform.url}/v2/${hello.id}`,
    buildId,
    workersMax: 3,
    routes: [],
    envNames: ["MODE"],
  });
  assert.equal(web.url, `${platform.url}/lb/${web.id}`);
  assert.deepEqual(web.routes, ["GET /health", "POST /process"]);
  assert.deepEqual((await platform.store.endpoints.find(hello.id))!.env, { MODE: "fast" });

  const shown =
    await platform.ask(`{ app(name: "shop") { name environments { name buildId endpoints { name app environment
    functions status { state } } } } }`);
  const [environment] = shown.data.app.environments;
  assert.equal(environment.buildId, buildId);
  assert.deepEqual(environment.endpoints[0], {
    name: "hello",
    app: "shop",
    environment: "production",
    functions: build.resources.hello!.functions,
    status: { state: "READY" },
  });
});

test("a deploy without a change says so and touches nothing", async (t) => {
  const platform = await startPlatform(t);
  const build = await sample(platform);
  const first = await deploy(platform, build, { env: ENV });
  const before = await rows(platform);
  const { changes } = await plan(platform, build, { env: ENV });
  assert.deepEqual(
    changes.map(({ action, details }) => [action, details]),
    [
      ["unchanged", []],
      ["unchanged", []],
    ],
  );
  const second = await deploy(platform, build, { env: ENV });
  assert.deepEqual(second.data, first.data);
  assert.deepEqual(await rows(platform), before);
});

test("the plan says what differs, and only what must replace workers changes the revision", async (t) => {
  const platform = await startPlatform(t);
  const build = await sample(platform);
  const layer = await platform.upload(Buffer.from("dependencies"));
  await deploy(platform, build, { env: ENV });
  const revisionOf = async () => (await platform.store.endpoints.list()).find(({ name }) => name === "hello")!.revision;
  const hello = build.resources.hello!;
  const source = await platform.upload(Buffer.from("other source"));
  const variants: [Manifest, Options, string[], boolean][] = [
    [
      { ...build, resources: { ...build.resources, hello: { ...hello, workersMax: 5 } } },
      { env: ENV },
      ["workersMax 3 → 5"],
      false,
    ],
    [
      { ...build, resources: { ...build.resources, hello: { ...hello, executionTimeoutMs: 9000, idleTimeout: 5 } } },
      { env: ENV },
      ["idleTimeout 60 → 5", "executionTimeoutMs 600000 → 9000"],
      false,
    ],
    [build, { env: { hello: { MODE: "slow" } } }, ["env"], true],
    [
      { ...build, resources: { ...build.resources, hello: { ...hello, dependencyLayer: layer } } },
      { env: ENV },
      ["dependencies"],
      true,
    ],
    [
      { ...build, resources: { ...build.resources, hello: { ...hello, baseDependencies: ["numpy"] } } },
      { env: ENV },
      ["dependencies"],
      true,
    ],
    [
      { ...build, resources: { ...build.resources, hello: { ...hello, instanceIds: "", gpuIds: "ADA_24" } } },
      { env: ENV },
      ["gpuIds none → ADA_24", "instanceIds cpu3c-1-2 → none"],
      true,
    ],
    [{ ...build, sourceLayer: source }, { env: ENV }, ["code"], true],
  ];
  for (const [variant, options, details, replaces] of variants) {
    await deploy(platform, build, { env: ENV });
    const before = await revisionOf();
    const change = (await plan(platform, variant, options)).changes.find(({ name }) => name === "hello")!;
    assert.deepEqual([change.action, change.details], ["update", details]);
    const { data, errors } = await deploy(platform, variant, options);
    assert.equal(errors, undefined);
    assert.equal((await revisionOf()) !== before, replaces, details.join());
    const hello = data.deployBuild.endpoints.find((endpoint: { name: string }) => endpoint.name === "hello");
    assert.equal(hello.buildId === data.deployBuild.buildId, replaces, "workers that stay are those of their build");
  }
});

test("endpoints are keyed by app, environment and name", async (t) => {
  const platform = await startPlatform(t);
  const build = manifest(await platform.upload(Buffer.from("s")), { hello: resource("hello") });
  const ids = new Set<string>();
  for (const options of [{}, { environment: "staging" }, { app: "bank" }, {}, { environment: "staging" }]) {
    ids.add((await deploy(platform, build, options)).data.deployBuild.endpoints[0].id);
  }
  assert.equal(ids.size, 3);
  assert.equal((await platform.store.endpoints.list()).length, 3);
});

test("a setting changed by saveEndpoint shows in the plan, and the code's value comes back", async (t) => {
  const platform = await startPlatform(t);
  const build = manifest(await platform.upload(Buffer.from("s")), { hello: resource("hello") });
  const { id } = (await deploy(platform, build)).data.deployBuild.endpoints[0];
  await platform.ask(
    `mutation { saveEndpoint(input: {id: "${id}", workersMax: 9, templateId: "t", locations: "US"}) { id } }`,
  );
  const saved = (await platform.store.endpoints.find(id))!.revision;
  assert.deepEqual((await plan(platform, build)).changes[0]!.details, ["workersMax 9 → 3"]);
  await deploy(platform, build);
  const { workersMax, templateId, locations } = (await platform.store.endpoints.find(id))!;
  assert.deepEqual([workersMax, templateId, locations], [3, "t", "US"]);
  assert.equal((await platform.store.endpoints.find(id))!.revision, saved, "the way back replaces no worker either");
  const renamed = await platform.ask(`mutation { saveEndpoint(input: {id: "${id}", name: "other"}) { id } }`);
  assert.equal(renamed.errors?.[0]?.extensions.code, "CONFLICT");
});

test("two deploys at once both happen, one after the other", async (t) => {
  const platform = await startPlatform(t);
  const builds = await Promise.all(["one", "two", "three"].map((source) => sample(platform, source)));
  const answers = await Promise.all(builds.map((build) => deploy(platform, build, { env: ENV })));
  for (const { errors } of answers) assert.equal(errors, undefined);
  const { apps, environments, endpoints } = await rows(platform);
  assert.deepEqual([apps.length, environments.length, endpoints.length], [1, 1, 2]);
  for (const endpoint of endpoints) assert.equal(endpoint.buildId, environments[0]!.buildId);
});

test("an endpoint may have the name of something that every object has", async (t) => {
  const platform = await startPlatform(t);
  const source = await platform.upload(Buffer.from("s"));
  const build = manifest(source, { constructor: resource("constructor") });
  const { data, errors } = await deploy(platform, build);
  assert.equal(errors, undefined);
  assert.deepEqual([data.deployBuild.endpoints[0].routes, data.deployBuild.endpoints[0].envNames], [[], []]);
  const { revision } = (await platform.store.endpoints.list())[0]!;
  await deploy(platform, manifest(source, { other: resource("other") }));
  assert.equal((await deploy(platform, build)).errors, undefined);
  assert.equal((await platform.store.endpoints.list())[0]!.revision, revision);
});

test("a manifest may be written out in the document", async (t) => {
  const platform = await startPlatform(t);
  const build = manifest(await platform.upload(Buffer.from("s")), { hello: resource("hello") });
  const literal = JSON.stringify(build).replace(/"([A-Za-z_]+)":/g, "$1:");
  const { data, errors } = await platform.ask(
    `mutation { deployBuild(input: {app: "shop", environment: "production", manifest: ${literal}}) { endpoints { name } } }`,
  );
  assert.equal(errors, undefined);
  assert.deepEqual(data.deployBuild.endpoints, [{ name: "hello" }]);
});

test("a load-balanced endpoint has a host name of its own when a domain is configured", async (t) => {
  const platform = await startPlatform(t, { domain: "example.org" });
  const { data } = await deploy(platform, await sample(platform), { env: ENV });
  const [hello, web] = data.deployBuild.endpoints;
  assert.equal(hello.url, `${platform.url}/v2/${hello.id}`);
  assert.equal(web.url, `https://${web.id}.example.org`);
});
