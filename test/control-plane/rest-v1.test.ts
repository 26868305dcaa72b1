import assert from "node:assert/strict";
import { test } from "node:test";
import { startPlatform } from "./platform.ts";
import { rest } from "./rest.ts";

const TEMPLATE = {
  name: "whisper",
  imageName: "registry.example/whisper:1",
  isServerless: true,
  env: { MODE: "fast", TOKEN: "hush" },
  dockerStartCmd: ["python", "-u", "handler.py"],
  dockerEntrypoint: ["tini", "--"],
  containerDiskInGb: 20,
  ports: ["8888/http", "22/tcp"],
  readme: "What it does",
};

test("a template is made, read, changed and deleted, and keeps what has no effect here", async (t) => {
  const platform = await startPlatform(t);
  const made = await rest(platform, "POST", "/rest/v1/templates", { ...TEMPLATE, unknown: { of: "no use" } });
  assert.equal(made.status, 200, JSON.stringify(made.json));
  const { id } = made.json;
  const env = { MODE: "********", TOKEN: "********" };
  const { unknown: _unknown, ...rest1 } = { ...TEMPLATE, env, unknown: 0 };
  for (const [field, value] of Object.entries(rest1)) assert.deepEqual(made.json[field], value, field);
  assert.deepEqual((await rest(platform, "GET", `/v1/templates/${id}`)).json, made.json);
  assert.deepEqual((await rest(platform, "GET", "/v1/templates")).json, [made.json]);

  // A client that reads, changes one thing and writes all back loses no value.
  const changed = await rest(platform, "PATCH", `/v1/templates/${id}`, { env: { ...env, MODE: "slow" }, readme: "" });
  assert.deepEqual([changed.status, changed.json.readme, changed.json.imageName], [200, "", TEMPLATE.imageName]);
  assert.deepEqual((await platform.store.templates.find(id))!.env, { MODE: "slow", TOKEN: "hush" });
  const masked = await rest(platform, "PATCH", `/v1/templates/${id}`, { env: { OTHER: "********" } });
  assert.deepEqual([masked.status, masked.json.code], [400, "BAD_INPUT"]);

  assert.equal((await rest(platform, "DELETE", `/v1/templates/${id}`)).status, 204);
  const gone = await rest(platform, "GET", `/v1/templates/${id}`);
  assert.deepEqual([gone.status, gone.json.code, typeof gone.json.message], [404, "NOT_FOUND", "string"]);
});

test("an endpoint is made of a template, with each setting that this platform has", async (t) => {
  const platform = await startPlatform(t);
  const template = (await rest(platform, "POST", "/v1/templates", TEMPLATE)).json;
  const given = {
    name: "transcribe",
    templateId: template.id,
    gpuTypeIds: ["NVIDIA L4", "NVIDIA GeForce RTX 4090", "NVIDIA of the future"],
    gpuCount: 2,
    workersMin: 1,
    workersMax: 4,
    idleTimeout: 7,
    scalerType: "REQUEST_COUNT",
    scalerValue: 9,
    executionTimeoutMs: 120_000,
    flashboot: false,
    dataCenterIds: ["EU-RO-1", "US-KS-2"],
    allowedCudaVersions: ["12.8"],
  };
  const { status, json } = await rest(platform, "POST", "/v1/endpoints", given);
  assert.equal(status, 200, JSON.stringify(json));
  const record = (await platform.store.endpoints.find(json.id))!;
  assert.deepEqual(
    { ...record, env: Object.keys(record.env) },
    {
      ...record,
      name: "transcribe",
      templateId: template.id,
      imageName: TEMPLATE.imageName,
      env: ["MODE", "TOKEN"],
      gpuIds: "ADA_24,AMPERE_24,-NVIDIA GeForce RTX 3090,-NVIDIA RTX A5000",
      gpuCount: 2,
      workersMin: 1,
      workersMax: 4,
      idleTimeout: 7,
      scalerType: "REQUEST_COUNT",
      scalerValue: 9,
      executionTimeoutMs: 120_000,
      svcBootType: "OFF",
      locations: "EU-RO-1,US-KS-2",
      container: { entrypoint: ["tini", "--"], command: ["python", "-u", "handler.py"], registryAuthId: "" },
    },
  );
  assert.deepEqual(json.gpuTypeIds, ["NVIDIA L4", "NVIDIA GeForce RTX 4090"]);
  const { gpuTypeIds: _types, allowedCudaVersions: _cuda, ...same } = given;
  for (const [field, value] of Object.entries(same)) assert.deepEqual(json[field], value, field);

  const whole = await rest(platform, "GET", `/v1/endpoints/${json.id}?includeTemplate=true&includeWorkers=true`);
  assert.deepEqual([whole.json.template, whole.json.workers], [template, []]);
  assert.deepEqual(
    (await rest(platform, "GET", "/v1/endpoints")).json.map((one: { name: string }) => one.name),
    ["transcribe"],
  );

  const changed = await rest(platform, "PATCH", `/v1/endpoints/${json.id}`, {
    workersMax: 2,
    cpuFlavorIds: ["cpu3g"],
    vcpuCount: 4,
  });
  assert.deepEqual([changed.json.workersMax, changed.json.instanceIds, changed.json.gpuIds], [2, ["cpu3g-4-16"], ""]);
  assert.deepEqual([changed.json.computeType, changed.json.workersMin, changed.json.idleTimeout], ["CPU", 1, 7]);
  const again = await rest(platform, "POST", `/v1/endpoints/${json.id}/update`, { idleTimeout: 8 });
  assert.equal(again.json.idleTimeout, 8);

  // Its workers finish what they run: there are none here.
  assert.equal((await rest(platform, "DELETE", `/v1/endpoints/${json.id}`)).status, 204);
  assert.equal((await rest(platform, "GET", `/v1/endpoints/${json.id}`)).json.code, "ENDPOINT_NOT_FOUND");
});

test("a CPU endpoint has the size of its flavour, and one without a name that of its template", async (t) => {
  const platform = await startPlatform(t);
  const { id: templateId } = (await rest(platform, "POST", "/v1/templates", TEMPLATE)).json;
  const make = async (fields: object) =>
    (await rest(platform, "POST", "/v1/endpoints", { templateId, ...fields })).json;
  assert.deepEqual((await make({ computeType: "CPU" })).instanceIds, ["cpu3c-2-4"]);
  assert.deepEqual((await make({ cpuFlavorIds: ["cpu5g", "cpu3c"], vcpuCount: 8 })).instanceIds, ["8-32"]);
  assert.deepEqual((await make({ instanceIds: ["cpu5c-4-8"] })).instanceIds, ["cpu5c-4-8"]);
  const plain = await make({});
  assert.deepEqual([plain.name, plain.gpuIds, plain.instanceIds], ["whisper", "ANY", []]);
});

test("network volumes are volumes that endpoints of no environment share, with their size as a limit", async (t) => {
  const platform = await startPlatform(t);
  const made = await rest(platform, "POST", "/v1/networkvolumes", {
    name: "models",
    size: 50,
    dataCenterId: "EU-RO-1",
  });
  assert.deepEqual(made.json, { id: "models", name: "models", size: 50, dataCenterId: "EU-RO-1" });
  assert.deepEqual((await rest(platform, "GET", "/v1/networkvolumes")).json, [made.json]);
  await rest(platform, "POST", "/v1/networkvolumes", { name: "data", size: 10, dataCenterId: "EU-RO-1" });
  const { data } = await platform.ask('{ volumes(app: "network-volumes", environment: "shared") { name } }');
  assert.deepEqual(data.volumes, [{ name: "data" }, { name: "models" }]);

  const { id: templateId } = (await rest(platform, "POST", "/v1/templates", TEMPLATE)).json;
  const input = { templateId, name: "a", networkVolumeIds: ["models", { networkVolumeId: "data" }] };
  const { json } = await rest(platform, "POST", "/v1/endpoints", input);
  assert.deepEqual([json.networkVolumeId, json.networkVolumeIds], ["models", ["models", "data"]]);
  const text = async () => (await platform.store.endpoints.find(json.id))!.networkVolumeId;
  assert.equal(await text(), "models:50GB,data:/volumes/data:10GB");

  const resized = await rest(platform, "PATCH", "/v1/networkvolumes/models", { name: "models", size: 80 });
  assert.equal(resized.json.size, 80);
  assert.equal(await text(), "models:80GB,data:/volumes/data:10GB");
  assert.equal((await rest(platform, "PATCH", "/v1/networkvolumes/models", { name: "other" })).status, 409);
  const used = await rest(platform, "DELETE", "/v1/networkvolumes/models");
  assert.deepEqual([used.status, used.json.code], [409, "CONFLICT"]);
  assert.match(used.json.detail, /used by a/);
  await rest(platform, "PATCH", `/v1/endpoints/${json.id}`, { networkVolumeId: "" });
  assert.equal((await rest(platform, "DELETE", "/v1/networkvolumes/models")).status, 204);
  assert.equal((await rest(platform, "GET", "/v1/networkvolumes/models")).status, 404);
  for (const [name, size, code] of [
    ["My Models", 1, "INVALID_NAME"],
    ["../up", 1, "INVALID_NAME"],
    ["x", -1, "INVALID_SETTING"],
    ["x", 1.5, "INVALID_SETTING"],
    ["data", 1, "CONFLICT"],
  ] as const) {
    // biome-ignore format: rows
    assert.equal((await rest(platform, "POST", "/v1/networkvolumes", { name, size })).json.code, code, name);
  }
});

test("registry credentials are sealed, never shown, and cannot go while something names them", async (t) => {
  const platform = await startPlatform(t);
  const login = { name: "hub", username: "ada@example", password: "the-password" };
  const made = await rest(platform, "POST", "/v1/containerregistryauth", login);
  assert.deepEqual(Object.keys(made.json).sort(), ["id", "name"]);
  const { id } = made.json;
  assert.deepEqual((await rest(platform, "GET", `/v1/containerregistryauth/${id}`)).json, made.json);
  assert.deepEqual((await rest(platform, "GET", "/v1/containerregistryauth")).json, [made.json]);
  const { sealed } = (await platform.store.registryAuths.find(id))!;
  assert.ok(!sealed.includes("ada@example") && !sealed.includes("the-password"));

  const template = (await rest(platform, "POST", "/v1/templates", { ...TEMPLATE, containerRegistryAuthId: id })).json;
  assert.equal(template.containerRegistryAuthId, id);
  const endpoint = (await rest(platform, "POST", "/v1/endpoints", { name: "a", templateId: template.id })).json;
  assert.equal((await platform.store.endpoints.find(endpoint.id))!.container!.registryAuthId, id);
  const used = await rest(platform, "DELETE", `/v1/containerregistryauth/${id}`);
  assert.match(used.json.detail, /the template "whisper", the endpoint "a"/);
  await rest(platform, "DELETE", `/v1/endpoints/${endpoint.id}`);
  await rest(platform, "PATCH", `/v1/templates/${template.id}`, { containerRegistryAuthId: "" });
  assert.equal((await rest(platform, "DELETE", `/v1/containerregistryauth/${id}`)).status, 204);
  for (const wrong of [{ ...login, password: "" }, { ...login, name: "" }, { name: "x" }, { ...login, username: 5 }]) {
    assert.equal((await rest(platform, "POST", "/v1/containerregistryauth", wrong)).status, 400, JSON.stringify(wrong));
  }
  const unknown = await rest(platform, "PATCH", `/v1/templates/${template.id}`, { containerRegistryAuthId: "nope" });
  assert.equal(unknown.status, 404);
});

test("what is refused says so as everywhere: the quota, settings, names, unknown ids", async (t) => {
  const platform = await startPlatform(t, { workerQuota: 5 });
  const { id: templateId } = (await rest(platform, "POST", "/v1/templates", TEMPLATE)).json;
  for (const [method, path, body, status, code] of [
    ["POST", "/v1/endpoints", { templateId, name: "a", workersMax: 6 }, 400, "QUOTA_EXCEEDED"],
    ["POST", "/v1/endpoints", { templateId, name: "a", workersMax: -1 }, 400, "INVALID_SETTING"],
    ["POST", "/v1/endpoints", { templateId, name: "a", gpuTypeIds: ["AMD MI300X"] }, 400, "INVALID_SETTING"],
    ["POST", "/v1/endpoints", { templateId, name: "a\u0007" }, 400, "INVALID_NAME"],
    ["POST", "/v1/endpoints", { name: "a" }, 400, "BAD_INPUT"],
    ["POST", "/v1/endpoints", { templateId, workersMax: "3", idleTimeout: [] }, 400, "BAD_INPUT"],
    ["POST", "/v1/templates", { ...TEMPLATE }, 409, "CONFLICT"],
    ["POST", "/v1/templates", { name: "x" }, 400, "BAD_INPUT"],
    ["POST", "/v1/templates", { name: "x", imageName: "x", env: { "1A": "" } }, 400, "BAD_INPUT"],
    ["POST", "/v1/templates", { name: "x", imageName: "x", readme: "x".repeat(70_000) }, 400, "INVALID_SETTING"],
    ["PATCH", "/v1/endpoints/nope", { workersMax: 1 }, 404, "ENDPOINT_NOT_FOUND"],
    ["DELETE", "/v1/endpoints/nope", undefined, 404, "ENDPOINT_NOT_FOUND"],
    ["DELETE", "/v1/templates/nope", undefined, 404, "NOT_FOUND"],
    ["DELETE", "/v1/networkvolumes/nope", undefined, 404, "NOT_FOUND"],
    ["POST", "/v1/pods", { name: "x" }, 405, "METHOD_NOT_ALLOWED"],
  ] as const) {
    const { status: got, json } = await rest(platform, method, path, body);
    assert.deepEqual([got, json.code], [status, code], `${path} ${JSON.stringify(body)?.slice(0, 80)}: ${json.detail}`);
  }
  assert.deepEqual((await rest(platform, "GET", "/v1/pods")).json, []);
});
