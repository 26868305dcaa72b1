import assert from "node:assert/strict";
import { test } from "node:test";
import { startPlatform } from "./platform.ts";
import { rest } from "./rest.ts";

/** As the declared functions' own client asks. */
const SAVE = `mutation saveEndpoint($input: EndpointInput!) { saveEndpoint(input: $input) {
  aiKey gpuIds id idleTimeout locations name networkVolumeId networkVolumeIds { networkVolumeId dataCenterId } flashEnvironmentId
  scalerType scalerValue templateId type userId version workersMax workersMin workersStandby workersPFBTarget gpuCount
  allowedCudaVersions minCudaVersion executionTimeoutMs instanceIds activeBuildid idePodId flashBootType } }`;
const TEMPLATE = {
  advancedStart: false,
  config: {},
  containerDiskInGb: 64,
  containerRegistryAuthId: "",
  dockerArgs: "",
  env: [{ key: "A", value: "1" }],
  imageName: "x/y:1",
  name: "x__1",
  ports: "",
  startScript: "",
};

test("an endpoint with its template in it, several volumes and the fields that have no meaning here is made and read", async (t) => {
  const platform = await startPlatform(t);
  await rest(platform, "POST", "/rest/v1/networkvolumes", { name: "data", size: 10, dataCenterId: "EU-RO-1" });
  const input = {
    name: "x",
    gpuIds: "AMPERE_16,ADA_24",
    executionTimeoutMs: 0,
    gpuCount: 1,
    minCudaVersion: "12.8",
    allowedCudaVersions: "",
    type: "QB",
    workersMax: 1,
    workersMin: 0,
    workersPFBTarget: 0,
    networkVolumeIds: [{ networkVolumeId: "data" }],
    template: TEMPLATE,
  };
  const { data, errors } = await platform.ask(SAVE, { input });
  assert.deepEqual([errors, platform.logged], [undefined, []]);
  const saved = data.saveEndpoint;
  assert.deepEqual([saved.executionTimeoutMs, saved.networkVolumeId, saved.instanceIds], [600_000, "data", []]);
  assert.deepEqual(saved.networkVolumeIds, [{ networkVolumeId: "data", dataCenterId: null }]);
  assert.deepEqual([saved.type, saved.flashBootType, saved.minCudaVersion], ["QB", "FLASHBOOT", null]);

  const change = `mutation saveTemplate($input: SaveTemplateInput) { saveTemplate(input: $input) { id env { key value } imageName } }`;
  const again = {
    id: saved.templateId,
    name: "x__1",
    imageName: "x/y:2",
    env: [{ key: "A", value: "********" }],
    volumeInGb: 0,
  };
  const { data: changed } = await platform.ask(change, { input: again });
  assert.deepEqual(changed.saveTemplate.env, [{ key: "A", value: "********" }]);
  assert.deepEqual((await platform.store.templates.find(saved.templateId))!.env, { A: "1" });
  const stock = `query ServerlessGpuTypes($lowestPriceInput: GpuLowestPriceInput, $gpuTypesInput: GpuTypeFilter) {
    gpuTypes(input: $gpuTypesInput) { lowestPrice(input: $lowestPriceInput) { stockStatus } } }`;
  const variables = {
    gpuTypesInput: { ids: ["NVIDIA L4"] },
    lowestPriceInput: { gpuCount: 1, includeAiApi: true, compliance: [] },
  };
  assert.deepEqual((await platform.ask(stock, variables)).data.gpuTypes, [{ lowestPrice: { stockStatus: null } }]);
  assert.deepEqual((await platform.ask(`{ myself { endpoint(id: "${saved.id}") { id } } }`)).data.myself.endpoint, {
    id: saved.id,
  });
});
