import assert from "node:assert/strict";
import { test } from "node:test";
import { FOLLOWER_CHECK_MS } from "../../src/domain/limits.ts";
import { eventually } from "../eventually.ts";
import { deploy, ENV, sample } from "./builds.ts";
import { startPlatform } from "./platform.ts";

async function twoEnvironments(t: Parameters<typeof startPlatform>[0]) {
  const platform = await startPlatform(t);
  const build = await sample(platform);
  const production = (await deploy(platform, build, { env: ENV })).data.deployBuild.endpoints;
  const staging = (await deploy(platform, build, { env: ENV, environment: "staging" })).data.deployBuild.endpoints;
  const create = async (input: object) => {
    const document =
      "mutation($input: KeyInput!) { createKey(input: $input) { secret key { id app environment endpoint } } }";
    return platform.ask(document, { input: { name: "ci", scopes: ["deploy", "invoke"], ...input } });
  };
  return { platform, build, production, staging, create };
}

test("a key bound to an environment sees and changes nothing else", async (t) => {
  const { platform, build, production, staging, create } = await twoEnvironments(t);
  const { data } = await create({ app: "shop", environment: "staging" });
  const { secret, key } = data.createKey;
  assert.deepEqual([key.app, key.environment, key.endpoint], ["shop", "staging", null]);
  const ask = (document: string, variables = {}) => platform.ask(document, variables, secret);

  const seen = await ask("{ myself { endpoints { id } } apps { environments { name } } }");
  assert.deepEqual(
    seen.data.myself.endpoints.map(({ id }: { id: string }) => id).sort(),
    staging.map(({ id }: { id: string }) => id).sort(),
  );
  assert.deepEqual(seen.data.apps, [{ environments: [{ name: "staging" }] }]);
  assert.equal((await ask(`{ endpoint(id: "${production[0].id}") { id } }`)).data.endpoint, null);

  const input = { app: "shop", manifest: build, env: ENV };
  const mutation = "mutation($input: BuildInput!) { deployBuild(input: $input) { buildId } }";
  assert.equal((await ask(mutation, { input: { ...input, environment: "staging" } })).errors, undefined);
  const refused = [
    await ask(mutation, { input: { ...input, environment: "production" } }),
    await ask(mutation, { input: { ...input, environment: "new" } }),
    await ask(`query($input: BuildInput!) { planBuild(input: $input) { problems } }`, {
      input: { ...input, environment: "production" },
    }),
    await ask(`mutation { saveEndpoint(input: {id: "${production[0].id}", workersMax: 1}) { id } }`),
    await ask(`mutation { saveEndpoint(input: {name: "x", templateId: "t", gpuIds: "ANY"}) { id } }`),
    await ask(`mutation { deleteEndpoint(id: "${production[0].id}") }`),
    await ask(`mutation { rollback(app: "shop", environment: "production") { buildId } }`),
    await ask(`mutation { deleteEnvironment(app: "shop", name: "production") }`),
    await ask(`mutation { createEnvironment(app: "shop", name: "third") { name } }`),
    await ask(`mutation { deleteApp(name: "shop") }`),
    await ask(
      `mutation { setSecret(input: {app: "shop", environment: "production", name: "T", value: "v"}) { name } }`,
    ),
    await ask(`mutation { deleteSecret(app: "shop", environment: "production", name: "T") }`),
  ];
  for (const [i, { errors }] of refused.entries()) {
    assert.deepEqual(
      errors?.map(({ extensions }) => extensions.code),
      ["FORBIDDEN"],
      `${i}`,
    );
  }
  const logs = await fetch(`${platform.url}/logs/${production[0].id}`, {
    headers: { authorization: `Bearer ${secret}` },
  });
  assert.equal(logs.status, 403);
  assert.equal((await platform.store.environments.listByApp((await platform.store.apps.list())[0]!.id)).length, 2);
});

test("a key bound to an endpoint reaches it alone", async (t) => {
  const { platform, production, create } = await twoEnvironments(t);
  const [hello, web] = production;
  const { data } = await create({ endpointId: hello.id });
  const { secret, key } = data.createKey;
  assert.deepEqual([key.environment, key.endpoint], ["production", "hello"]);
  const seen = await platform.ask(
    "{ myself { endpoints { id } } apps { environments { endpoints { name } } } }",
    {},
    secret,
  );
  assert.deepEqual(seen.data.myself.endpoints, [{ id: hello.id }]);
  assert.deepEqual(seen.data.apps[0].environments, [{ endpoints: [{ name: "hello" }] }]);
  const save = (id: string) =>
    platform.ask(`mutation { saveEndpoint(input: {id: "${id}", workersMax: 1}) { id } }`, {}, secret);
  assert.equal((await save(hello.id)).errors, undefined);
  assert.equal((await save(web.id)).errors![0]!.extensions.code, "FORBIDDEN");
  await platform.ask(`mutation { saveEndpoint(input: {id: "${hello.id}", workersMin: 0, workersMax: 0}) { id } }`);
  await platform.ask(`mutation { deleteEndpoint(id: "${hello.id}") }`);
  const listed = await platform.ask("{ myself { keys { endpoint } } }");
  assert.deepEqual(
    listed.data.myself.keys.map(({ endpoint }: { endpoint: string | null }) => endpoint),
    [null, hello.id],
    "a key whose endpoint is gone does not look unbound",
  );
  const whole = await platform.ask(
    `mutation { rollback(app: "shop", environment: "production") { buildId } }`,
    {},
    secret,
  );
  assert.equal(whole.errors![0]!.extensions.code, "FORBIDDEN");
});

test("a key tells when it was used, to the minute, and a revoked one is refused at once", async (t) => {
  const { platform, create } = await twoEnvironments(t);
  const { data } = await create({});
  const { secret, key } = data.createKey;
  const lastUsed = async () => (await platform.store.keys.list()).find(({ id }) => id === key.id)!.lastUsedAt;
  assert.equal(await lastUsed(), null);
  const before = Date.now();
  await platform.ask("{ myself { version } }", {}, secret);
  // No request waits for that note.
  const first = await eventually(async () => (await lastUsed()) ?? assert.fail("it is not written down yet"));
  assert.ok(first >= before);
  await platform.ask("{ myself { version } }", {}, secret);
  assert.equal(await lastUsed(), first);
  const listed = await platform.ask("{ myself { keys { id lastUsedAt environment } } }");
  assert.deepEqual(
    listed.data.myself.keys.find(({ id }: { id: string }) => id === key.id),
    { id: key.id, lastUsedAt: first, environment: null },
  );
  await platform.ask(`mutation { revokeKey(id: "${key.id}") }`);
  assert.equal((await platform.ask("{ myself { version } }", {}, secret)).status, 401);
});

test("a key cannot be bound in two ways, half, or with the scope admin", async (t) => {
  const { production, create } = await twoEnvironments(t);
  const { errors } = await create({
    app: "shop",
    endpointId: production[0].id,
    environment: "staging",
    scopes: ["admin"],
  });
  assert.match(errors![0]!.message, /not both.*admin cannot be bound/);
  assert.match((await create({ app: "shop" })).errors![0]!.message, /Give app and environment/);
  assert.equal((await create({ app: "shop", environment: "nope" })).errors![0]!.extensions.code, "NOT_FOUND");
  assert.equal((await create({ endpointId: "nope" })).errors![0]!.extensions.code, "ENDPOINT_NOT_FOUND");
});

test("a bound key deploys nothing whose image is built by code that runs as root", async (t) => {
  const { platform, build, create } = await twoEnvironments(t);
  const bound = (await create({ app: "shop", environment: "staging" })).data.createKey.secret;
  const unbound = (await create({})).data.createKey.secret;
  const problems = async (secret: string, changes: object) => {
    const resources = Object.entries(build.resources).map(([name, resource]) => [name, { ...resource, ...changes }]);
    const manifest = { ...build, resources: Object.fromEntries(resources) };
    const input = { app: "shop", environment: "staging", manifest, env: ENV };
    const query = "query($input: BuildInput!) { planBuild(input: $input) { problems } }";
    const mutation = "mutation($input: BuildInput!) { deployBuild(input: $input) { buildId } }";
    const planned = (await platform.ask(query, { input }, secret)).data.planBuild.problems;
    const { errors } = await platform.ask(mutation, { input }, secret);
    assert.equal(errors === undefined, planned.length === 0, "the deploy says what the plan says");
    return planned.join("\n");
  };
  const wanted = [
    { imageSteps: [{ run: "id" }] },
    { imageName: "acme/own:1", imageSteps: [{ apt: ["ffmpeg"] }] },
    { imageName: "acme/own:1", systemDependencies: ["ffmpeg"] },
  ];
  for (const changes of wanted) {
    assert.match(await problems(bound, changes), /bound to the environment .*runs code of the deploy as root/);
    assert.equal(await problems(unbound, changes), "");
  }
  const packages = { imageSteps: [{ apt: ["ffmpeg"] }, { env: { A: "b" } }], systemDependencies: ["git"] };
  assert.equal(await problems(bound, packages), "");
  // The platform trusts no build: what `svc build` refuses it refuses too.
  for (const apt of ["ffmpeg; rm -rf /", "-o Foo", "ffmpeg-", "a\nRUN id"]) {
    assert.match(await problems(unbound, { imageSteps: [{ apt: [apt] }] }), /is no Debian package/);
    assert.match(await problems(unbound, { systemDependencies: [apt] }), /is no Debian package/);
  }
  assert.match(await problems(unbound, { imageSteps: [{ env: { A: "b\nRUN id" } }] }), /holds a line break/);
  assert.match(await problems(unbound, { imageSteps: [{ env: { "A B": "c" } }] }), /cannot name a variable/);
  assert.match(await problems(unbound, { imageSteps: [{ run: " " }] }), /is empty/);
});

test("who follows a log is let go once its key is revoked", async (t) => {
  const { platform, production, create } = await twoEnvironments(t);
  const { secret, key } = (await create({ endpointId: production[0].id })).data.createKey;
  // Only these are held: what the whole process sets and clears meanwhile is none of this test's.
  const looks: (() => void)[] = [];
  const { setInterval: begin } = globalThis;
  t.mock.method(globalThis, "setInterval", (look: () => void, ms: number) => {
    if (ms === FOLLOWER_CHECK_MS) looks.push(look);
    return begin(look, ms);
  });
  const follow = await fetch(`${platform.url}/logs/${production[0].id}?follow=1`, {
    headers: { authorization: `Bearer ${secret}` },
    signal: AbortSignal.timeout(30_000),
  });
  assert.equal(follow.status, 200);
  await platform.ask("mutation ($id: String!) { revokeKey(id: $id) }", { id: key.id });
  assert.equal(looks.length, 1);
  looks[0]!();
  assert.equal(await follow.text(), "");
});
