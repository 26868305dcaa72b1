import assert from "node:assert/strict";
import { test } from "node:test";
import { addWorker, startPlatform } from "./platform.ts";
import { rest } from "./rest.ts";

test("an endpoint of the second form: from a template, changed, with its workers, and deleted", async (t) => {
  const platform = await startPlatform(t);
  const auth = (await rest(platform, "POST", "/v2/registries", { name: "hub", username: "u", password: "p" })).json;
  const template = await rest(platform, "POST", "/v2/templates", {
    name: "llm",
    image: "registry.example/llm:1",
    args: "python -u handler.py --name 'a b'",
    disk: 10,
    serverless: true,
    env: { A: "1" },
    ports: [],
    registry: auth.id,
    mounts: { persistent: { size: 20, path: "/workspace" } },
  });
  assert.equal(template.status, 201, JSON.stringify(template.json));
  const { id: templateId } = template.json;
  assert.deepEqual(
    [template.json.image, template.json.disk, template.json.registry],
    ["registry.example/llm:1", 10, auth.id],
  );
  assert.deepEqual(template.json.mounts, { persistent: { size: 20, path: "/workspace" } });
  assert.deepEqual((await rest(platform, "GET", "/v2/templates")).json, { templates: [template.json] });
  assert.deepEqual((await rest(platform, "GET", `/v2/templates/${templateId}`)).json, template.json);

  assert.deepEqual((await rest(platform, "GET", "/v2/serverless")).json, { endpoints: [] });
  const made = await rest(platform, "POST", "/v2/serverless", {
    name: "chat",
    templateId,
    type: "QUEUE",
    gpu: { pools: ["AMPERE_16"], excludedTypes: ["NVIDIA RTX A4500"], count: 1 },
    workers: { min: 0, max: 1, idleTimeout: 5 },
    scaling: { type: "QUEUE_DELAY", queueDelay: 4 },
    flashboot: "OFF",
    timeout: 300_000,
  });
  assert.equal(made.status, 201, JSON.stringify(made.json));
  const { json } = made;
  const record = (await platform.store.endpoints.find(json.id))!;
  assert.deepEqual(
    [record.gpuIds, record.gpuCount, record.workersMin, record.workersMax, record.idleTimeout, record.scalerValue],
    ["AMPERE_16,-NVIDIA RTX A4500", 1, 0, 1, 5, 4],
  );
  assert.deepEqual([record.svcBootType, record.executionTimeoutMs, record.env], ["OFF", 300_000, { A: "1" }]);
  const command = ["python", "-u", "handler.py", "--name", "a b"];
  assert.deepEqual(record.container, { entrypoint: [], command, registryAuthId: auth.id });
  assert.deepEqual([json.type, json.image, json.registry, json.cpu], ["QUEUE", "registry.example/llm:1", auth.id, []]);
  assert.deepEqual(json.workers, { min: 0, max: 1, idleTimeout: 5 });
  assert.deepEqual(json.scaling, { type: "QUEUE_DELAY", queueDelay: 4 });
  assert.equal(json.requestUrls.runSync, `${platform.url}/v2/${json.id}/runsync`);
  assert.deepEqual((await rest(platform, "GET", `/v2/serverless/${json.id}`)).json, json);

  await addWorker(platform.store, json.id);
  const { workers, summary } = (await rest(platform, "GET", `/v2/serverless/${json.id}/workers`)).json;
  assert.deepEqual([workers.length, workers[0].status, workers[0].isStale, summary.total], [1, "IDLE", false, 1]);

  const changes = {
    cpu: [{ id: "cpu3c", vcpuCount: 2 }],
    scaling: { type: "REQUEST_COUNT", requestCount: 3 },
    registry: null,
  };
  const changed = await rest(platform, "PATCH", `/v2/serverless/${json.id}`, changes);
  assert.deepEqual([changed.status, changed.json.gpu, changed.json.registry], [200, null, null]);
  assert.deepEqual(changed.json.cpu, [{ id: "cpu3c", vcpuCount: 2, memory: 4 }]);
  assert.deepEqual(changed.json.scaling, { type: "REQUEST_COUNT", requestCount: 3 });
  assert.deepEqual(changed.json.workers, json.workers);
  assert.equal((await rest(platform, "DELETE", `/v2/serverless/${json.id}`)).status, 204);
  const gone = await rest(platform, "GET", `/v2/serverless/${json.id}`);
  assert.deepEqual([gone.status, gone.json.status, gone.json.title], [404, 404, "Endpoint not found"]);
});

test("an endpoint of the second form needs no template: it has its own image, arguments and credentials", async (t) => {
  const platform = await startPlatform(t);
  const auth = (await rest(platform, "POST", "/v2/registries", { name: "hub", username: "u", password: "p" })).json;
  const given = {
    name: "own",
    image: "mine:1",
    args: "serve",
    registry: auth.id,
    cpu: [{ id: "cpu5c", vcpuCount: 1 }],
    env: { B: "2" },
  };
  const { json } = await rest(platform, "POST", "/v2/serverless", given);
  const record = (await platform.store.endpoints.find(json.id))!;
  assert.deepEqual(
    [record.templateId, record.imageName, record.instanceIds, record.env],
    ["", "mine:1", "cpu5c-1-2", { B: "2" }],
  );
  assert.deepEqual(record.container, { entrypoint: [], command: ["serve"], registryAuthId: auth.id });
  assert.deepEqual([json.args, json.image, json.env], ["serve", "mine:1", { B: "********" }]);
  assert.deepEqual(await platform.store.templates.list(), []);
  for (const [body, code] of [
    [{ name: "x", image: "mine:1", type: "LOAD_BALANCER", gpu: {} }, "INVALID_SETTING"],
    [{ name: "x", image: "mine:1" }, "BAD_INPUT"],
    [{ name: "x", image: "mine:1", gpu: { pools: ["AMPERE_1"] } }, "INVALID_SETTING"],
    [{ name: "x", image: "mine:1", gpu: {}, scaling: { type: "SOME" } }, "BAD_INPUT"],
    [{ name: "x", image: "mine:1", gpu: {}, args: "'open" }, "INVALID_SETTING"],
    [{ name: "x", image: "mine:1", gpu: {}, registry: "nope" }, "NOT_FOUND"],
  ] as const) {
    assert.equal((await rest(platform, "POST", "/v2/serverless", body)).json.code, code, JSON.stringify(body));
  }
});

test("network volumes and registries of the second form, and the catalogue", async (t) => {
  const platform = await startPlatform(t);
  const made = await rest(platform, "POST", "/v2/network-volumes", { name: "models", size: 5, dataCenter: "EU-RO-1" });
  assert.deepEqual([made.status, made.json], [201, { id: "models", name: "models", size: 5, dataCenter: "EU-RO-1", type: "STANDARD" }]); // biome-ignore format: a row
  assert.deepEqual((await rest(platform, "GET", "/v2/network-volumes")).json, { networkVolumes: [made.json] });
  assert.equal((await rest(platform, "PATCH", "/v2/network-volumes/models", { size: 6 })).json.size, 6);
  assert.equal((await rest(platform, "DELETE", "/v2/network-volumes/models")).status, 204);
  const auth = (await rest(platform, "POST", "/v2/registries", { name: "hub", username: "u", password: "p" })).json;
  assert.deepEqual((await rest(platform, "GET", "/v2/registries")).json, { registries: [auth] });
  assert.equal((await rest(platform, "DELETE", `/v2/registries/${auth.id}`)).status, 204);

  const { gpus } = (await rest(platform, "GET", "/v2/catalog/gpus")).json;
  const l4 = gpus.find(({ id }: { id: string }) => id === "NVIDIA L4");
  assert.deepEqual([l4.pool, l4.memory, l4.name, l4.availability], ["AMPERE_24", 24, "L4", "NONE"]);
  assert.deepEqual((await rest(platform, "GET", "/v2/catalog/gpus/NVIDIA%20L4")).json, l4);
  assert.equal((await rest(platform, "GET", "/v2/catalog/gpus/nothing")).status, 404);
  assert.equal((await rest(platform, "GET", "/v2/catalog/cpus")).json.cpus[0].id, "cpu3g");
  assert.equal((await rest(platform, "GET", "/v2/catalog/datacenters")).json.dataCenters[0].id, "local");
  for (const [
    path,
    empty,
  ] of [["pods", { pods: [] }], ["clusters", { clusters: [] }], ["account/ssh-keys", { keys: [] }]] as const) // biome-ignore format: a row
    assert.deepEqual((await rest(platform, "GET", `/v2/${path}`)).json, empty);
  assert.match((await rest(platform, "GET", "/v2/billing")).json.detail, /no prices/);
});
