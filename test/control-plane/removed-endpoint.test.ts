import assert from "node:assert/strict";
import { test } from "node:test";
import { isRemoved } from "../../src/domain/removal.ts";
import { deploy, ENV, manifest, plan, resource, sample } from "./builds.ts";
import { addJob, addWorker, startPlatform } from "./platform.ts";

test("an endpoint that left the code goes, unless it is kept; with workers it drains first", async (t) => {
  const platform = await startPlatform(t);
  const both = await sample(platform);
  const ids = Object.fromEntries(
    (await deploy(platform, both, { env: ENV })).data.deployBuild.endpoints.map((one: { name: string; id: string }) => [
      one.name,
      one.id,
    ]),
  );
  const onlyHello = { ...both, resources: { hello: both.resources.hello! }, routes: {} };
  assert.deepEqual((await plan(platform, onlyHello, { env: ENV, keepRemoved: true })).changes.length, 1);
  const kept = await deploy(platform, onlyHello, { env: ENV, keepRemoved: true });
  assert.deepEqual(kept.data.deployBuild.removed, []);
  assert.equal((await platform.store.endpoints.list()).length, 2);

  await addWorker(platform.store, ids.web);
  const running = await addJob(platform.queue, ids.web);
  const { changes } = await plan(platform, onlyHello, { env: ENV });
  assert.deepEqual(
    changes.map(({ action, name, details }) => [action, name, details]),
    [
      ["unchanged", "hello", []],
      ["remove", "web", ["no longer in the code", "1 queued job is deleted"]],
    ],
  );
  const { data } = await deploy(platform, onlyHello, { env: ENV });
  assert.deepEqual(data.deployBuild.removed, ["web"]);
  const draining = (await platform.store.endpoints.find(ids.web))!;
  assert.ok(isRemoved(draining));
  assert.deepEqual([draining.workersMin, draining.workersMax], [0, 0]);
  const listed = await platform.ask(`{ myself { endpoints { name } } endpoint(id: "${ids.web}") { id } }`);
  assert.deepEqual(listed.data, { myself: { endpoints: [{ name: "hello" }] }, endpoint: null });
  assert.ok(await platform.queue.find(running), "its jobs stay until its workers are gone");

  const again = await deploy(platform, both, { env: ENV });
  const web = again.data.deployBuild.endpoints.find(({ name }: { name: string }) => name === "web");
  assert.notEqual(web.id, ids.web);
  const queued = await addJob(platform.queue, web.id);
  const gone = await deploy(platform, onlyHello, { env: ENV });
  assert.deepEqual(gone.data.deployBuild.removed, ["web"]);
  assert.equal(await platform.store.endpoints.find(web.id), undefined, "without workers it is deleted at once");
  assert.equal(await platform.queue.find(queued), undefined, "and its jobs with it");
});

test("an endpoint whose kind changes is a new endpoint", async (t) => {
  const platform = await startPlatform(t);
  const source = await platform.upload(Buffer.from("s"));
  const queue = manifest(source, { hello: resource("hello") });
  const balanced = manifest(source, {
    hello: resource("hello", { is_load_balanced: true, scalerType: "REQUEST_COUNT" }),
  });
  const before = (await deploy(platform, queue)).data.deployBuild.endpoints[0];
  await addWorker(platform.store, before.id);
  const { changes } = await plan(platform, balanced);
  assert.deepEqual(
    changes.map(({ action, kind }) => [action, kind]),
    [
      ["create", "load-balanced"],
      ["remove", "queue"],
    ],
  );
  const { data, errors } = await deploy(platform, balanced);
  assert.equal(errors, undefined);
  const [after] = data.deployBuild.endpoints;
  assert.notEqual(after.id, before.id);
  assert.deepEqual([after.name, after.kind], ["hello", "load-balanced"]);
});

test("a deployed endpoint is deleted once its workers are zero, and drains when it still has some", async (t) => {
  const platform = await startPlatform(t);
  const build = manifest(await platform.upload(Buffer.from("s")), { hello: resource("hello") });
  const { id } = (await deploy(platform, build)).data.deployBuild.endpoints[0];
  await addWorker(platform.store, id);
  const pods = await platform.ask(`{ endpoint(id: "${id}") { pods { desiredStatus state current } } }`);
  assert.deepEqual(pods.data.endpoint.pods, [{ desiredStatus: "RUNNING", state: "READY", current: true }]);
  await platform.ask(`mutation { saveEndpoint(input: {id: "${id}", workersMax: 0}) { id } }`);
  const { errors } = await platform.ask(`mutation { deleteEndpoint(id: "${id}") }`);
  assert.equal(errors, undefined);
  assert.ok(isRemoved((await platform.store.endpoints.find(id))!));
  assert.deepEqual((await plan(platform, build)).changes[0]!.action, "create");
});
