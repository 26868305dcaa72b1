import assert from "node:assert/strict";
import { test } from "node:test";
import { BUILDS_KEPT } from "../../src/domain/limits.ts";
import type { Manifest } from "../../src/domain/manifest.ts";
import { deploy, ENV, manifest, resource, sample } from "./builds.ts";
import { startPlatform, type TestPlatform } from "./platform.ts";

function rollback(platform: TestPlatform, variables: object = {}, key?: string) {
  const document = `mutation($app: String!, $environment: String!, $buildId: String, $keepRemoved: Boolean) {
    rollback(app: $app, environment: $environment, buildId: $buildId, keepRemoved: $keepRemoved) {
      buildId app environment removed endpoints { id name workersMax buildId }
    }
  }`;
  return platform.ask(document, { app: "shop", environment: "production", ...variables }, key);
}

async function builds(platform: TestPlatform) {
  const { data } = await platform.ask(
    `{ app(name: "shop") { environments { builds { id live createdAt endpoints } } } }`,
  );
  return data.app.environments[0].builds as { id: string; live: boolean; createdAt: number; endpoints: string[] }[];
}

test("a rollback makes the build before the live one live again, with its variables and settings", async (t) => {
  const platform = await startPlatform(t);
  const first = await sample(platform);
  const one = (await deploy(platform, first, { env: ENV })).data.deployBuild;
  const hello = { ...first.resources.hello!, workersMax: 7 };
  const second: Manifest = { ...(await sample(platform, "other")), resources: { hello }, routes: {} };
  const two = (await deploy(platform, second, { env: { hello: { MODE: "slow" } } })).data.deployBuild;
  assert.deepEqual(two.removed, ["web"]);
  const before = (await platform.store.endpoints.list()).find(({ name }) => name === "hello")!;

  const { data, errors } = await rollback(platform);
  assert.equal(errors, undefined);
  assert.deepEqual([data.rollback.buildId, data.rollback.removed], [one.buildId, []]);
  assert.deepEqual(
    data.rollback.endpoints.map((endpoint: { name: string; workersMax: number }) => [
      endpoint.name,
      endpoint.workersMax,
    ]),
    [
      ["hello", 3],
      ["web", 2],
    ],
  );
  const after = (await platform.store.endpoints.find(before.id))!;
  assert.deepEqual([after.env, after.buildId], [ENV.hello, one.buildId]);
  assert.notEqual(after.revision, before.revision, "its workers are replaced");
  assert.deepEqual(
    (await builds(platform)).map(({ id, live, endpoints }) => [id, live, endpoints]),
    [
      [two.buildId, false, ["hello"]],
      [one.buildId, true, ["hello", "web"]],
    ],
  );
  const forward = await rollback(platform, { buildId: two.buildId });
  assert.deepEqual([forward.data.rollback.buildId, forward.data.rollback.removed], [two.buildId, ["web"]]);
  assert.equal((await platform.store.endpoints.find(before.id))!.revision, before.revision);
});

test("a rollback to the live build touches nothing", async (t) => {
  const platform = await startPlatform(t);
  const { buildId } = (await deploy(platform, await sample(platform), { env: ENV })).data.deployBuild;
  const before = await platform.store.endpoints.list();
  assert.equal((await rollback(platform, { buildId })).data.rollback.buildId, buildId);
  assert.deepEqual(await platform.store.endpoints.list(), before);
});

test("a rollback to a build that is not there says which there are and changes nothing", async (t) => {
  const platform = await startPlatform(t);
  const { buildId } = (await deploy(platform, await sample(platform), { env: ENV })).data.deployBuild;
  const cases: [object, RegExp][] = [
    [{}, /no build from before the live one/],
    [{ buildId: "nope" }, new RegExp(`no build "nope"\\. The newest are ${buildId}`)],
    [{ environment: "produktion" }, /no environment "produktion" in the app "shop"\. Did you mean production\?/],
    [{ app: "shoop" }, /no app "shoop"\. Did you mean shop\?/],
  ];
  for (const [variables, message] of cases) {
    const { errors } = await rollback(platform, variables);
    assert.equal(errors![0]!.extensions.code, "NOT_FOUND");
    assert.match(errors![0]!.message, message);
  }
  assert.equal((await builds(platform))[0]!.live, true);
});

test("a build's variables are in no manifest and in no answer", async (t) => {
  const platform = await startPlatform(t);
  await deploy(platform, await sample(platform), { env: { hello: { MODE: "value-to-keep" } } });
  const [build] = await platform.store.builds.listByEnvironment(
    (await platform.store.environments.listByApp((await platform.store.apps.list())[0]!.id))[0]!.id,
  );
  assert.deepEqual(build!.env, { hello: { MODE: "value-to-keep" }, web: {} });
  assert.ok(!JSON.stringify(build!.manifest).includes("value-to-keep"));
  assert.ok(!JSON.stringify(await builds(platform)).includes("value-to-keep"));
});

test("a rollback needs the scope deploy and a build whose quota still fits", async (t) => {
  const platform = await startPlatform(t, { workerQuota: 6 });
  const source = await platform.upload(Buffer.from("s"));
  await deploy(platform, manifest(source, { hello: resource("hello", { workersMax: 5 }) }));
  await deploy(platform, manifest(source, { hello: resource("hello", { workersMax: 1 }) }));
  await deploy(platform, manifest(source, { other: resource("other", { workersMax: 4 }) }), { app: "bank" });
  const { errors } = await rollback(platform);
  assert.equal(errors![0]!.extensions.code, "QUOTA_EXCEEDED");
  const { data } = await platform.ask(`mutation { createKey(input: {name: "r", scopes: ["read"]}) { secret } }`);
  const refused = await rollback(platform, {}, data.createKey.secret);
  assert.equal(refused.errors![0]!.extensions.code, "FORBIDDEN");
});

test("the newest builds are kept, and an older one as long as an endpoint runs it", async (t) => {
  const platform = await startPlatform(t);
  const source = await platform.upload(Buffer.from("s"));
  const old = manifest(source, { old: resource("old") });
  const { buildId } = (await deploy(platform, old)).data.deployBuild;
  for (let i = 0; i <= BUILDS_KEPT; i++) {
    const build = manifest(source, { hello: resource("hello", { workersMax: 1 + (i % 5) }) });
    assert.equal((await deploy(platform, build, { keepRemoved: true })).errors, undefined);
  }
  const [environment] = await platform.store.environments.listByApp((await platform.store.apps.list())[0]!.id);
  const kept = await platform.store.builds.listByEnvironment(environment!.id);
  assert.equal(kept.length, BUILDS_KEPT + 1);
  assert.ok(kept.some(({ id }) => id === buildId));
});
