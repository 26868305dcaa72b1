// May take 12 minutes.
/** Clients of the same family that manage, unmodified: only base URL and key are set. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { pythonEnvironment } from "../../bench/processes.ts";
import { runProcess } from "../../src/lib/run-process.ts";
import { project, ROOT, startPlatform } from "./platform.ts";

const WORKERS = `
from svc import Endpoint

@Endpoint(name="hello", cpu="cpu3c-1-2", workers=(0, 1))
def hello(name="nobody"):
    return f"Hello, {name}!"
`;

/** Prints one JSON object of what the client saw. */
const SCRIPT = `
import asyncio, json, os
import aiohttp, runpod

runpod.api_key = os.environ["RUNPOD_API_KEY"]
seen = {}
seen["user"] = runpod.get_user()
seen["gpus"] = [one for one in runpod.get_gpus() if one["id"] == "NVIDIA L4"]
seen["gpu"] = runpod.get_gpu("NVIDIA L4", 2)
seen["pods"] = runpod.get_pods()

auth = runpod.create_container_registry_auth("hub", "ada", "secret")
seen["updated auth"] = runpod.update_container_registry_auth(auth["id"], "ada", "other") == auth
template = runpod.create_template(
    "words", "registry.example/words:1", docker_start_cmd='python -u "handler.py"', container_disk_in_gb=20,
    env={"MODE": "fast"}, ports="8888/http, 22/tcp", is_serverless=True, registry_auth_id=auth["id"],
)
seen["template"] = template
other = runpod.create_template("other", "registry.example/other:2")
endpoint = runpod.create_endpoint(
    "words", template["id"], gpu_ids="AMPERE_16,AMPERE_24", idle_timeout=7, scaler_type="REQUEST_COUNT", scaler_value=3,
    workers_min=0, workers_max=0, flashboot=True, allowed_cuda_versions="12.4", gpu_count=2, locations="EU-RO-1",
)
seen["endpoint"] = endpoint
seen["update"] = runpod.update_endpoint_template(endpoint["id"], other["id"])["templateId"] == other["id"]
seen["endpoints"] = {one["name"]: one for one in runpod.get_endpoints()}

def failure(call, *args):
    try:
        call(*args)
    except Exception as error:
        return [type(error).__name__, str(error)]

seen["used"] = failure(runpod.delete_container_registry_auth, auth["id"])
seen["quota"] = failure(runpod.create_endpoint, "big", template["id"], "ANY", None, None, 5, "QUEUE_DELAY", 4, 0, 1001)
seen["missing"] = failure(runpod.update_endpoint_template, "nothing", other["id"])

hello = runpod.Endpoint(seen["endpoints"]["hello"]["id"])
seen["output"] = hello.run_sync({"name": "Ada"}, timeout=60)
seen["job"] = hello.run({"name": "Bob"}).output(timeout=60)

async def asynchronous():
    async with aiohttp.ClientSession() as session:
        job = await runpod.AsyncioEndpoint(seen["endpoints"]["hello"]["id"], session).run({"name": "Cy"})
        return await job.output(timeout=60)

seen["asynchronous"] = asyncio.run(asynchronous())
runpod.api_key = "svc_wrong"
seen["wrong key"] = failure(runpod.get_endpoints)
print(json.dumps(seen))
`;

test("the Python client manages templates, endpoints, credentials and the catalogue, and calls what it finds", async (t) => {
  const bin = await pythonEnvironment("runpod", ["runpod"]).catch(() => undefined);
  if (bin === undefined)
    return t.skip("the Python client is not installed here and the package index cannot be reached");
  const platform = await startPlatform(t);
  const cwd = project(t, { "worker.py": WORKERS });
  assert.equal((await platform.svc(["deploy"], { cwd })).code, 0);
  const env = {
    PATH: process.env.PATH,
    HOME: platform.dir,
    RUNPOD_API_KEY: platform.key,
    RUNPOD_API_BASE_URL: platform.url,
    RUNPOD_ENDPOINT_BASE_URL: `${platform.url}/v2`,
  };
  const python = async (script: string) => {
    const { code, stdout, stderr } = await runProcess(path.join(bin, "python"), ["-c", script], { cwd, env });
    assert.equal(code, 0, stderr);
    return stdout;
  };
  const seen = JSON.parse(await python(SCRIPT));

  assert.deepEqual(seen.user, { id: "svc", pubKey: "", networkVolumes: [] });
  assert.deepEqual(seen.gpus, [{ id: "NVIDIA L4", displayName: "L4", memoryInGb: 24 }]);
  assert.deepEqual(
    [seen.gpu.id, seen.gpu.manufacturer, seen.gpu.lowestPrice.minimumBidPrice],
    ["NVIDIA L4", "NVIDIA", 0],
  );
  assert.deepEqual([seen.pods, seen["updated auth"], seen.update], [[], true, true]);
  const { id: _template, ...template } = seen.template;
  assert.deepEqual(template, {
    name: "words",
    imageName: "registry.example/words:1",
    dockerArgs: 'python -u "handler.py"',
    containerDiskInGb: 20,
    volumeInGb: 0,
    volumeMountPath: "",
    ports: "8888/http,22/tcp",
    env: [{ key: "MODE", value: "********" }],
    isServerless: true,
  });
  const { id, templateId: _made, ...endpoint } = seen.endpoint;
  assert.deepEqual(endpoint, {
    name: "words",
    gpuIds: "AMPERE_16,AMPERE_24",
    networkVolumeId: "",
    locations: "EU-RO-1",
    idleTimeout: 7,
    scalerType: "REQUEST_COUNT",
    scalerValue: 3,
    workersMin: 0,
    workersMax: 0,
    allowedCudaVersions: "",
    gpuCount: 2,
    flashBootType: "FLASHBOOT",
  });
  assert.deepEqual(Object.keys(seen.endpoints).sort(), ["hello", "words"]);
  assert.deepEqual(
    [seen.endpoints.words.id, seen.endpoints.words.type, seen.endpoints.words.workersStandby],
    [id, "QB", 0],
  );
  assert.equal(seen.used[0], "QueryError");
  assert.match(seen.used[1], /the template "words"/);
  assert.match(seen.quota[1], /workersMax must be a whole number|workers quota/);
  assert.match(seen.missing[1], /no endpoint with the id "nothing"/);
  assert.deepEqual([seen.output, seen.job, seen.asynchronous], ["Hello, Ada!", "Hello, Bob!", "Hello, Cy!"]);
  assert.deepEqual(seen["wrong key"], ["AuthenticationError", "Unauthorized request, please check your API key."]);

  await t.test("the example of the page on compatible APIs runs", async () => {
    const page = readFileSync(path.join(ROOT, "docs/reference/compatible-apis.md"), "utf8");
    const [, example] = /```python\n([\s\S]*?)```/.exec(page)!;
    assert.match(await python(example!.replaceAll('"words"', '"page"')), /\['hello', 'page', 'words'\] 0/);
  });
});
