import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { rowsOf } from "../servers.ts";
import { deploy, manifest, plan, resource } from "./builds.ts";
import { startPlatform, type TestPlatform } from "./platform.ts";

const SECRET_ENV = { hello: { TOKEN: { secret: "HF_TOKEN" } } } as never;

async function build(platform: TestPlatform) {
  return manifest(await platform.upload(Buffer.from("s")), { hello: resource("hello", { envNames: ["TOKEN"] }) });
}

function setSecret(platform: TestPlatform, name: string, value: string, environment = "production") {
  return platform.ask("mutation($input: SecretInput!) { setSecret(input: $input) { name createdAt updatedAt } }", {
    input: { app: "shop", environment, name, value },
  });
}

test("a secret is set before the first deploy, used by name, and stored only sealed", async (t) => {
  const platform = await startPlatform(t);
  const { problems } = await plan(platform, await build(platform), { env: SECRET_ENV });
  assert.deepEqual(problems, [
    'Endpoint "hello" uses the secret "HF_TOKEN", which shop/production does not have. Set it: svc secret set HF_TOKEN --app shop --env production',
  ]);
  assert.equal((await setSecret(platform, "HF_TOKEN", "plain-text-value")).errors, undefined);
  const { errors } = await deploy(platform, await build(platform), { env: SECRET_ENV });
  assert.equal(errors, undefined);
  const [endpoint] = await platform.store.endpoints.list();
  assert.deepEqual(endpoint!.env, { TOKEN: { secret: "HF_TOKEN" } });
  const rows = await rowsOf(platform.dir);
  const files = ["platform.db", "platform.db-wal"].map((file) => `${platform.dir}/${file}`);
  const stored = rows ?? files.map((file) => readFileSync(file, "latin1")).join("\n");
  assert.ok(stored.includes("HF_TOKEN") && !stored.includes("plain-text-value"));
  const { data } = await platform.ask(`{ app(name: "shop") { environments { secrets { name } } } }`);
  assert.deepEqual(data.app.environments[0].secrets, [{ name: "HF_TOKEN" }]);
});

test("a new value replaces the workers that have the earlier one, and no others", async (t) => {
  const platform = await startPlatform(t);
  await setSecret(platform, "HF_TOKEN", "one");
  await setSecret(platform, "HF_TOKEN", "one", "staging");
  const two = await build(platform);
  const resources = { ...two.resources, other: resource("other") };
  await deploy(platform, { ...two, resources }, { env: SECRET_ENV });
  await deploy(platform, two, { env: SECRET_ENV, environment: "staging" });
  const revisions = async () => (await platform.store.endpoints.list()).map(({ revision }) => revision);
  const before = await revisions();
  await setSecret(platform, "HF_TOKEN", "two");
  const after = await revisions();
  assert.equal(after.filter((revision, i) => revision !== before[i]).length, 1);
  const unchanged = await deploy(platform, { ...two, resources }, { env: SECRET_ENV });
  assert.equal(unchanged.errors, undefined);
  assert.deepEqual(await revisions(), after, "a deploy without a change replaces nothing");
  const { id } = (await platform.store.endpoints.list()).find(({ name }) => name === "hello")!;
  await platform.ask(`mutation { saveEndpoint(input: {id: "${id}", workersMax: 2}) { id } }`);
  assert.deepEqual(await revisions(), after, "neither does a change of the scaling");
});

test("a secret goes only when no endpoint uses it", async (t) => {
  const platform = await startPlatform(t);
  await setSecret(platform, "HF_TOKEN", "one");
  await deploy(platform, await build(platform), { env: SECRET_ENV });
  const remove = () =>
    platform.ask(`mutation { deleteSecret(app: "shop", environment: "production", name: "HF_TOKEN") }`);
  const used = await remove();
  assert.equal(used.errors![0]!.extensions.code, "CONFLICT");
  assert.match(used.errors![0]!.message, /used by hello/);
  await platform.ask(`mutation { deleteEnvironment(app: "shop", name: "production") }`);
  await setSecret(platform, "HF_TOKEN", "one");
  assert.equal((await remove()).data.deleteSecret, true);
  assert.equal((await remove()).errors![0]!.extensions.code, "NOT_FOUND");
});

test("a secret has a name and a value in bounds", async (t) => {
  const platform = await startPlatform(t);
  assert.equal((await setSecret(platform, "1 TOKEN", "x")).errors![0]!.extensions.code, "INVALID_NAME");
  assert.equal((await setSecret(platform, "TOKEN", "")).errors![0]!.extensions.code, "BAD_INPUT");
  assert.equal((await setSecret(platform, "TOKEN", "x".repeat(65_537))).errors![0]!.extensions.code, "TOO_LARGE");
});

test("variables that no worker could be started with are refused, with their size, when they are set and at a deploy", async (t) => {
  const platform = await startPlatform(t);
  const names = ["A", "B", "C"];
  const env = { hello: Object.fromEntries(names.map((name) => [name, { secret: name }])) } as never;
  for (const name of names) assert.equal((await setSecret(platform, name, "x".repeat(40_000))).errors, undefined);
  const source = await platform.upload(Buffer.from("s"));
  const built = manifest(source, { hello: resource("hello", { envNames: names }) });
  assert.equal((await deploy(platform, built, { env })).errors, undefined);
  const { errors } = await setSecret(platform, "C", "x".repeat(65_000));
  assert.equal(errors?.[0]?.extensions.code, "TOO_LARGE");
  assert.match(errors?.[0]?.message ?? "", /"hello".* 145009 bytes together; at most 131072/);
  const large = { hello: { A: { secret: "A" }, B: { secret: "B" }, C: "y".repeat(60_000) } } as never;
  const [problem] = (await plan(platform, built, { env: large })).problems;
  assert.match(problem ?? "", /"hello".* 140009 bytes together/);
});
