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
    [{}, /no build from before the live one that could run/],
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

test("a rollback to a build that goes meanwhile, with its environment, brings nothing back", async (t) => {
  const platform = await startPlatform(t);
  await deploy(platform, await sample(platform), { env: ENV });
  await deploy(platform, await sample(platform, "other"), { env: ENV });
  const { artifacts } = platform;
  const size = artifacts.size.bind(artifacts);
  const gone = async (digest: string) => {
    Object.assign(artifacts, { size });
    await platform.ask('mutation { deleteEnvironment(app: "shop", name: "production") }');
    return size(digest);
  };
  Object.assign(artifacts, { size: gone });
  const { errors } = await rollback(platform);
  assert.equal(errors![0]!.extensions.code, "NOT_FOUND", JSON.stringify(errors));
  assert.match(errors![0]!.message, /shop\/production has no build "/);
  assert.deepEqual((await platform.ask('{ app(name: "shop") { environments { name } } }')).data.app.environments, []);
});

test("a rollback takes the newest earlier build that was ready, and none that is known to have failed", async (t) => {
  const platform = await startPlatform(t);
  const source = await platform.upload(Buffer.from("s"));
  const ids: string[] = [];
  for (const workersMax of [1, 2, 3, 4]) {
    const build = manifest(source, { hello: resource("hello", { workersMax }) });
    const input = workersMax === 4 ? { message: "more workers", gitCommit: "0123abc-dirty" } : {};
    ids.push((await deploy(platform, build, input)).data.deployBuild.buildId);
  }
  const verdict = (state: "ready" | "failed", reason = "") => ({ state, reason, at: 1 });
  await platform.store.builds.judge(ids[2]!, verdict("failed", "hello: it broke"));
  assert.equal((await rollback(platform)).data.rollback.buildId, ids[1], "of the others nothing is known");
  await rollback(platform, { buildId: ids[3] });
  await platform.store.builds.judge(ids[0]!, verdict("ready"));
  assert.equal((await rollback(platform)).data.rollback.buildId, ids[0], "one that was ready comes first");
  await rollback(platform, { buildId: ids[1] });
  await platform.store.builds.judge(ids[0]!, verdict("failed"));
  const { errors } = await rollback(platform);
  assert.match(errors![0]!.message, /no build from before the live one that could run.*rollback --list/s);
  const { data } = await platform.ask(
    `{ app(name: "shop") { environments { builds { message gitCommit keyName verdict reason verdictAt } } } }`,
  );
  const [newest, broken] = data.app.environments[0].builds;
  const none = { message: "", gitCommit: "" };
  const key = (await platform.store.keys.list())[0]!.name;
  assert.deepEqual(newest, {
    ...none,
    keyName: key,
    message: "more workers",
    gitCommit: "0123abc-dirty",
    verdict: "pending",
    reason: "",
    verdictAt: null,
  });
  assert.deepEqual(broken, { ...none, keyName: key, verdict: "failed", reason: "hello: it broke", verdictAt: 1 });
});

test("what is said about a build is bounded", async (t) => {
  const platform = await startPlatform(t);
  const build = await sample(platform);
  const { errors } = await deploy(platform, build, { message: "x".repeat(501), gitCommit: "; rm -rf" });
  assert.match(errors![0]!.message, /more than 500 characters.*gitCommit must be/s);
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
    const build = manifest(source, { hello: resource("hello", { maxConcurrency: 1 + (i % 5) }) });
    assert.equal((await deploy(platform, build, { keepRemoved: true })).errors, undefined);
  }
  const [environment] = await platform.store.environments.listByApp((await platform.store.apps.list())[0]!.id);
  const kept = await platform.store.builds.listByEnvironment(environment!.id);
  assert.equal(kept.length, BUILDS_KEPT + 1);
  assert.ok(kept.some(({ id }) => id === buildId));
});
