import assert from "node:assert/strict";
import { test } from "node:test";
import { addJob, startPlatform, type TestPlatform } from "./platform.ts";

const FIELDS =
  "id gpuIds idleTimeout locations name networkVolumeId templateId scalerType scalerValue workersMax workersMin svcBootType";

const INLINE = `mutation {
  saveEndpoint(input: {
    gpuIds: "AMPERE_16", idleTimeout: 5, locations: "US", name: "Generated Endpoint", networkVolumeId: "",
    scalerType: "QUEUE_DELAY", scalerValue: 7, templateId: "xkhgg72fuo", workersMax: 3, workersMin: 0
  }) { ${FIELDS} }
}`;

async function save(platform: TestPlatform, input: object) {
  return platform.ask(`mutation($input: EndpointInput!) { saveEndpoint(input: $input) { ${FIELDS} } }`, { input });
}

test("saveEndpoint without id creates an endpoint from an inline document", async (t) => {
  const platform = await startPlatform(t);
  const { status, data, errors } = await platform.ask(INLINE);
  assert.equal(errors, undefined);
  assert.equal(status, 200);
  const { id, ...rest } = data.saveEndpoint;
  assert.match(id, /^[a-z][a-z0-9]{13}$/);
  assert.deepEqual(rest, {
    gpuIds: "AMPERE_16",
    idleTimeout: 5,
    locations: "US",
    name: "Generated Endpoint",
    networkVolumeId: "",
    templateId: "xkhgg72fuo",
    scalerType: "QUEUE_DELAY",
    scalerValue: 7,
    workersMax: 3,
    workersMin: 0,
    svcBootType: "SVCBOOT",
  });
  const listed = await platform.ask(`{ myself { endpoints { ${FIELDS} } } }`);
  assert.deepEqual(listed.data.myself.endpoints, [data.saveEndpoint]);
});

test("saveEndpoint takes its input from variables, and a machine type in place of gpuIds", async (t) => {
  const platform = await startPlatform(t);
  const { data } = await platform.ask(
    "mutation($input: EndpointInput!) { saveEndpoint(input: $input) { name gpuIds instanceIds imageName kind url id } }",
    { input: { name: "cpu", templateId: "t", instanceIds: "cpu5c-4-8" } },
  );
  const { id, ...rest } = data.saveEndpoint;
  assert.deepEqual(rest, {
    name: "cpu",
    gpuIds: "",
    instanceIds: ["cpu5c-4-8"],
    imageName: "svc/worker-cpu:latest",
    kind: "queue",
    url: `${platform.url}/v2/${id}`,
  });
});

test("a new endpoint requires gpuIds, name and templateId, and one error names all that are missing", async (t) => {
  const platform = await startPlatform(t);
  const { status, errors } = await save(platform, { workersMax: 1 });
  assert.equal(status, 200);
  assert.equal(errors?.length, 1);
  assert.match(errors[0]!.message, /needs name, templateId, gpuIds/);
  assert.equal(errors[0]!.extensions.code, "BAD_INPUT");
  const second = await save(platform, { name: "a", gpuIds: "AMPERE_16" });
  assert.match(second.errors![0]!.message, /needs templateId\./);
  assert.deepEqual(await platform.store.endpoints.list(), []);
});

test("saveEndpoint with id changes the given fields and keeps the rest", async (t) => {
  const platform = await startPlatform(t);
  const before = (await platform.ask(INLINE)).data.saveEndpoint;
  const after = (await save(platform, { id: before.id, idleTimeout: 9, workersMax: null })).data.saveEndpoint;
  assert.deepEqual(after, { ...before, idleTimeout: 9 });
  const nothing = (await save(platform, { id: before.id, name: null, templateId: null, gpuIds: null })).data
    .saveEndpoint;
  assert.deepEqual(nothing, after);
  const zero = (await save(platform, { id: before.id, workersMax: 0 })).data.saveEndpoint;
  assert.deepEqual(zero, { ...after, workersMax: 0 });
});

test("an id that is null is no id", async (t) => {
  const platform = await startPlatform(t);
  const { data } = await save(platform, { id: null, name: "a", gpuIds: "ANY", templateId: "t" });
  assert.equal(data.saveEndpoint.name, "a");
});

test("saveEndpoint with an unknown id is refused", async (t) => {
  const platform = await startPlatform(t);
  for (const id of ["nope", ""]) {
    const { errors } = await save(platform, { id, name: "a", gpuIds: "AMPERE_16", templateId: "t" });
    assert.equal(errors?.[0]?.extensions.code, "ENDPOINT_NOT_FOUND");
  }
  assert.deepEqual(await platform.store.endpoints.list(), []);
});

test("scalerType and the boot type are given as an enum value or as a string", async (t) => {
  const platform = await startPlatform(t);
  for (const [i, form] of ["REQUEST_COUNT", '"REQUEST_COUNT"', '"request_count"'].entries()) {
    const { data, errors } = await platform.ask(`mutation { saveEndpoint(input: {
      name: "e${i}", templateId: "t", gpuIds: "ANY", scalerType: ${form}, svcBootType: ${i === 0 ? "OFF" : '"OFF"'}
    }) { scalerType svcBootType } }`);
    assert.equal(errors, undefined);
    assert.deepEqual(data.saveEndpoint, { scalerType: "REQUEST_COUNT", svcBootType: "OFF" });
  }
  const { data } = await save(platform, { name: "v", templateId: "t", gpuIds: "ANY", scalerType: "REQUEST_COUNT" });
  assert.equal(data.saveEndpoint.scalerType, "REQUEST_COUNT");
});

test("all wrong settings are named in one error", async (t) => {
  const platform = await startPlatform(t);
  const { errors } = await save(platform, {
    name: "bad",
    templateId: "t",
    gpuIds: "AMPERE_17",
    workersMin: 5,
    workersMax: 2,
    scalerType: "MAGIC",
    idleTimeout: 0,
  });
  assert.equal(errors?.[0]?.extensions.code, "INVALID_SETTING");
  for (const text of ["AMPERE_17", "workersMin (5)", "scalerType", "idleTimeout"]) {
    assert.ok(errors[0]!.message.includes(text), `${text} is missing in: ${errors[0]!.message}`);
  }
});

test("more workers over all endpoints than the quota are refused", async (t) => {
  const platform = await startPlatform(t);
  const make = (name: string, workersMax: number) =>
    save(platform, { name, templateId: "t", gpuIds: "AMPERE_16", workersMax });
  const { data } = await make("a", 20);
  assert.equal((await make("b", 10)).errors, undefined);
  const { errors } = await make("c", 1);
  assert.equal(errors?.[0]?.extensions.code, "QUOTA_EXCEEDED");
  assert.match(errors[0]!.message, /[Mm]ax workers across all endpoints must not exceed your workers quota \(30\)/);
  const raised = await save(platform, { id: data.saveEndpoint.id, workersMax: 21 });
  assert.equal(raised.errors?.[0]?.extensions.code, "QUOTA_EXCEEDED");
  assert.equal((await save(platform, { id: data.saveEndpoint.id, workersMax: 19 })).errors, undefined);
  assert.equal((await make("c", 1)).errors, undefined);
});

test("a change of the machine replaces workers, a change of scaling does not", async (t) => {
  const platform = await startPlatform(t);
  const { id } = (await platform.ask(INLINE)).data.saveEndpoint;
  const revision = async () => (await platform.store.endpoints.find(id))!.revision;
  const first = await revision();
  await save(platform, { id, workersMax: 5, idleTimeout: 30, scalerValue: 2, executionTimeoutMs: 9000 });
  assert.equal(await revision(), first);
  await save(platform, { id, gpuIds: "ADA_24" });
  const second = await revision();
  assert.notEqual(second, first);
  await save(platform, { id, instanceIds: "cpu3c-1-2" });
  const endpoint = (await platform.store.endpoints.find(id))!;
  assert.notEqual(endpoint.revision, second);
  assert.deepEqual([endpoint.gpuIds, endpoint.imageName], ["", "svc/worker-cpu:latest"]);
});

test("an endpoint can be deleted only when both its minimum and maximum workers are zero", async (t) => {
  const platform = await startPlatform(t);
  const { id } = (await platform.ask(INLINE)).data.saveEndpoint;
  const jobId = await addJob(platform.queue, id);
  const remove = () => platform.ask(`mutation { deleteEndpoint(id: "${id}") }`);
  const refused = await remove();
  assert.equal(refused.status, 200);
  assert.equal(refused.errors?.[0]?.extensions.code, "WORKERS_NOT_ZERO");
  assert.match(refused.errors[0]!.message, /workersMin: 0, workersMax: 0/);
  assert.equal((await platform.queue.find(jobId))?.state, "IN_QUEUE");

  await save(platform, { id, workersMin: 0, workersMax: 0 });
  const { data, errors } = await remove();
  assert.equal(errors, undefined);
  assert.deepEqual(data, { deleteEndpoint: null });
  assert.equal(await platform.queue.find(jobId), undefined);
  assert.deepEqual(await platform.store.endpoints.list(), []);
  assert.equal((await remove()).errors?.[0]?.extensions.code, "ENDPOINT_NOT_FOUND");
});

test("myself lists endpoints with their pods, and the discount object", async (t) => {
  const platform = await startPlatform(t);
  await platform.ask(INLINE);
  const { data } = await platform.ask(`query Endpoints { myself {
    endpoints { name networkVolumeId pods { desiredStatus } }
    serverlessDiscount { discountFactor type expirationDate }
    workersQuota version
  } }`);
  assert.deepEqual(data.myself.endpoints, [{ name: "Generated Endpoint", networkVolumeId: "", pods: [] }]);
  assert.deepEqual(Object.keys(data.myself.serverlessDiscount), ["discountFactor", "type", "expirationDate"]);
  assert.equal(data.myself.workersQuota, 30);
});
