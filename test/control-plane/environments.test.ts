import assert from "node:assert/strict";
import { test } from "node:test";
import { removeDrainedEndpoints } from "../../src/upkeep/removed-endpoints.ts";
import { deploy, ENV, manifest, resource, sample } from "./builds.ts";
import { addJob, addWorker, startPlatform, type TestPlatform } from "./platform.ts";

async function listed(platform: TestPlatform): Promise<string[]> {
  const { data } = await platform.ask("{ apps { name environments { name } } }");
  return data.apps.flatMap((app: { name: string; environments: { name: string }[] }) => [
    app.name,
    ...app.environments.map(({ name }) => `${app.name}/${name}`),
  ]);
}

test("an environment is made by its name, with its app; one that exists is a conflict", async (t) => {
  const platform = await startPlatform(t);
  const create = (name: string) =>
    platform.ask('mutation($name: String!) { createEnvironment(app: "shop", name: $name) { name buildId } }', { name });
  assert.deepEqual((await create("staging")).data.createEnvironment, { name: "staging", buildId: null });
  assert.deepEqual(await listed(platform), ["shop", "shop/staging"]);
  assert.equal((await create("staging")).errors![0]!.extensions.code, "CONFLICT");
  assert.equal((await create("No Good")).errors![0]!.extensions.code, "INVALID_NAME");
});

test("a deleted environment goes at once where nothing runs, with jobs, builds, secrets and keys", async (t) => {
  const platform = await startPlatform(t);
  const { endpoints } = (await deploy(platform, await sample(platform), { env: ENV })).data.deployBuild;
  await deploy(platform, await sample(platform), { env: ENV, environment: "staging" });
  const job = await addJob(platform.queue, endpoints[0].id);
  await platform.ask(
    `mutation { setSecret(input: {app: "shop", environment: "production", name: "T", value: "secret-value"}) { name } }`,
  );
  await platform.ask(
    `mutation { createKey(input: {name: "ci", scopes: ["deploy"], app: "shop", environment: "production"}) { secret } }`,
  );
  const { data, errors } = await platform.ask(`mutation { deleteEnvironment(app: "shop", name: "production") }`);
  assert.equal(errors, undefined);
  assert.deepEqual(data.deleteEnvironment, ["hello", "web"]);
  assert.deepEqual(await listed(platform), ["shop", "shop/staging"]);
  assert.equal(await platform.queue.find(job), undefined);
  assert.deepEqual(
    (await platform.store.keys.list()).map(({ name }) => name),
    ["first key"],
  );
  assert.equal((await platform.store.endpoints.list()).length, 2);
});

test("endpoints of a deleted app drain and go, and its name is free at once", async (t) => {
  const platform = await startPlatform(t);
  const build = manifest(await platform.upload(Buffer.from("s")), { hello: resource("hello") });
  const { id } = (await deploy(platform, build)).data.deployBuild.endpoints[0];
  await addWorker(platform.store, id);
  const { data } = await platform.ask(`mutation { deleteApp(name: "shop") }`);
  assert.deepEqual(data.deleteApp, ["hello"]);
  assert.deepEqual(await listed(platform), []);
  assert.equal((await platform.ask(`{ endpoint(id: "${id}") { id } }`)).data.endpoint, null);
  assert.ok(await platform.store.endpoints.find(id), "its worker still finishes");

  const again = (await deploy(platform, build)).data.deployBuild.endpoints[0];
  assert.notEqual(again.id, id);
  assert.deepEqual(await listed(platform), ["shop", "shop/production"]);

  await removeDrainedEndpoints(platform.store, platform.queue);
  assert.equal((await platform.store.apps.list()).length, 2, "as long as its worker runs");
  for (const worker of await platform.store.workers.listByEndpoint(id)) await platform.store.workers.delete(worker.id);
  await removeDrainedEndpoints(platform.store, platform.queue);
  assert.deepEqual(
    (await platform.store.apps.list()).map(({ name }) => name),
    ["shop"],
  );
  assert.ok(await platform.store.endpoints.find(again.id));
});

test("an environment of svc run goes with its last endpoint, keys included, and a deploy makes it again", async (t) => {
  const platform = await startPlatform(t);
  const layer = await platform.upload(Buffer.from("s"));
  const environment = "live-ann-1234";
  const live = manifest(layer, { "live-a": resource("hello"), "live-b": resource("hello") });
  const { endpoints } = (await deploy(platform, live, { environment })).data.deployBuild;
  const production = (await deploy(platform, manifest(layer, { hello: resource("hello") }))).data.deployBuild;
  await platform.ask(`mutation { createEnvironment(app: "shop", name: "live-new") { name } }`);
  await platform.ask(
    `mutation { createKey(input: {name: "ci", scopes: ["deploy"], app: "shop", environment: "${environment}"}) { secret } }`,
  );
  const [first, last] = endpoints.map(({ id }: { id: string }) => id);
  const remove = async (id: string) => {
    await platform.ask(`mutation { saveEndpoint(input: {id: "${id}", workersMax: 0}) { id } }`);
    const { errors } = await platform.ask(`mutation { deleteEndpoint(id: "${id}") }`);
    assert.equal(errors, undefined);
    await removeDrainedEndpoints(platform.store, platform.queue);
  };
  const others = ["shop", "shop/live-new", "shop/production"];
  const withIt = ["shop", `shop/${environment}`, ...others.slice(1)];
  await remove(first);
  assert.deepEqual(await listed(platform), withIt);
  await addWorker(platform.store, last);
  await remove(last);
  assert.deepEqual(await listed(platform), withIt, "its worker still finishes");
  for (const worker of await platform.store.workers.listByEndpoint(last)) {
    await platform.store.workers.delete(worker.id);
  }
  await removeDrainedEndpoints(platform.store, platform.queue);
  assert.deepEqual(await listed(platform), others);
  assert.deepEqual(
    (await platform.store.keys.list()).map(({ name }) => name),
    ["first key"],
  );
  const again = await deploy(platform, live, { environment });
  assert.equal(again.data.deployBuild.endpoints.length, 2);
  assert.deepEqual(await listed(platform), withIt);
  await remove(production.endpoints[0].id);
  assert.deepEqual(await listed(platform), withIt, "an environment of a deploy stays when it is empty");
});

test("deleting what is not there names what is near", async (t) => {
  const platform = await startPlatform(t);
  await deploy(platform, await sample(platform), { env: ENV });
  const app = await platform.ask(`mutation { deleteApp(name: "shap") }`);
  assert.match(app.errors![0]!.message, /no app "shap"\. Did you mean shop\?/);
  const environment = await platform.ask(`mutation { deleteEnvironment(app: "shop", name: "dev") }`);
  assert.match(environment.errors![0]!.message, /svc env list --app shop/);
});
