/** Declaration → manifest → record, field by field: no declared setting may get lost on the way. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { test } from "node:test";
import { makeManifest } from "../../src/build/manifest.ts";
import { requireScan, scanProject } from "../../src/build/scan.ts";
import type { Manifest } from "../../src/domain/manifest.ts";
import type { Endpoint } from "../../src/store/store.ts";
import { deploy } from "./builds.ts";
import { startPlatform } from "./platform.ts";

interface Expectation {
  /** As it is written in the declaration; none is the default. */
  readonly written: string;
  /** Fields of the record, none of them with its default. */
  readonly record?: Partial<Endpoint>;
  /** Fields of the manifest that have no field of their own in the record: they are the build's. */
  readonly manifest?: Partial<Manifest["resources"][string]>;
}

const VOLUMES = "vol-1,vol-2:/data:ro:5GB";
const EVERYWHERE: Record<string, Expectation> = {
  name: { written: '"NAME"' },
  workers: { written: "(1, 2)", record: { workersMin: 1, workersMax: 2 } },
  idle_timeout: { written: "777", record: { idleTimeout: 777 } },
  dependencies: { written: '["six"]', manifest: { dependencies: ["six"] } },
  max_concurrency: { written: "8", record: { maxConcurrency: 8 } },
  execution_timeout_ms: { written: "54321", record: { executionTimeoutMs: 54_321 } },
  scaler_value: { written: "7", record: { scalerValue: 7 } },
  env: { written: '{"MODE": "fast", "TOKEN": Secret("T")}', record: { env: { MODE: "fast", TOKEN: { secret: "T" } } } },
  image: { written: '"example.org/worker:1"', record: { imageName: "example.org/worker:1" } },
  volume: { written: '"vol-1"', record: { networkVolumeId: VOLUMES } },
  volumes: {
    written: '{"/data": Volume("vol-2", size_limit="5GB", read_only=True)}',
    record: { networkVolumeId: VOLUMES },
  },
  python_version: { written: '"3.12"', manifest: { pythonVersion: "3.12" } },
  boot: { written: '"OFF"', record: { svcBootType: "OFF" } },
  hosts: { written: '["gpu-a100", "rack.1"]', record: { hosts: "gpu-a100,rack.1" } },
};
const schedule = (rules: object) =>
  JSON.stringify({ cron: "", everyMs: 0, timezone: "UTC", input: {}, missed: "skip", overlap: "queue", ...rules });
const EVERY: Record<string, Expectation> = {
  name: { written: '"NAME"' },
  every: { written: '"90s"', record: { schedule: schedule({ everyMs: 90_000 }) } },
};
const QUEUE: Record<string, Expectation> = {
  ...EVERYWHERE,
  gpu: {
    written: "[GpuType.NVIDIA_H200, GpuGroup.AMPERE_16]",
    record: { gpuIds: "AMPERE_16,HOPPER_141", instanceIds: "" },
    manifest: { gpuPreference: ["NVIDIA_H200", "AMPERE_16"] },
  },
  gpu_count: { written: "0.5", record: { gpuCount: 0.5 } },
  scaler_type: { written: '"REQUEST_COUNT"', record: { scalerType: "REQUEST_COUNT" } },
  schedule: {
    written: '"0 3 * * 1"',
    record: {
      schedule: schedule({
        cron: "0 3 * * 1",
        timezone: "Europe/Berlin",
        input: { n: [1, null] },
        missed: "once",
        overlap: "skip",
      }),
    },
  },
  timezone: { written: '"Europe/Berlin"' },
  schedule_input: { written: '{"n": [1, None]}' },
  missed: { written: '"once"' },
  overlap: { written: '"skip"' },
  retries: {
    written: 'Retries(2, delay="1.5s", backoff=3, max_delay="1h", on=(OSError, "requests.Timeout"))',
    record: { retriesMax: 2, retryDelayMs: 1_500, retryBackoff: 3, retryMaxDelayMs: 3_600_000 },
  },
};
const LOAD_BALANCED: Record<string, Expectation> = {
  ...EVERYWHERE,
  cpu: { written: '"cpu5c-4-8"', record: { instanceIds: "cpu5c-4-8", gpuIds: "" } },
  scaler_type: { written: '"QUEUE_DELAY"', record: { scalerType: "QUEUE_DELAY" } },
  cors: { written: '["https://example.com"]', record: { cors: "https://example.com" } },
  public: { written: "True", record: { publicRoutes: "*" } },
  request_timeout_ms: { written: "9876", record: { requestTimeoutMs: 9876 } },
};
const server = { command: ["serve", "8000"], port: 8000, readyPath: "/up", readyTimeout: 7 };
const SERVER: Record<string, Expectation> = {
  name: { written: '"NAME"' },
  workers: { written: "(0, 1)", record: { workersMax: 1 } },
  command: { written: '["serve", "8000"]', manifest: { server } },
  port: { written: "8000" },
  ready_path: { written: '"/up"' },
  ready_timeout: { written: "7" },
  image: {
    written: 'Image.debian().apt("git").run("true")',
    record: { imageName: "svc/worker-cpu:latest" },
    manifest: { imageSteps: [{ apt: ["git"] }, { run: "true" }] },
  },
  system_dependencies: { written: '["ffmpeg"]', manifest: { systemDependencies: ["ffmpeg"] } },
};
const PROGRAM: Record<string, Expectation> = {
  name: { written: '"NAME"' },
  command: {
    written: '["work"]',
    manifest: { server: { ...server, command: ["work"], port: 0, readyPath: "", readyTimeout: 300, protocol: "pull" } },
  },
  protocol: { written: '"pull"' },
};

function declaration(name: string, settings: Record<string, Expectation>): string {
  const keywords = Object.entries(settings).map(([keyword, { written }]) => `${keyword}=${written}`);
  return `Endpoint(${keywords.join(", ")})`.replace("NAME", name);
}

test("every keyword of a declaration arrives in the manifest, the record and the management API", async (t) => {
  const sdk = readFileSync(new URL("../../python/src/svc/endpoint.py", import.meta.url), "utf8");
  const keywords = [.../^PARAMETERS = \((.*?)^\)/ms.exec(sdk)![1]!.matchAll(/"(\w+)"/g)].map(([, keyword]) => keyword!);
  const covered = new Set([QUEUE, EVERY, LOAD_BALANCED, SERVER, PROGRAM].flatMap((each) => Object.keys(each)));
  assert.deepEqual(
    keywords.filter((keyword) => !covered.has(keyword)),
    [],
    "keywords without an expectation here",
  );

  const projectDir = await mkdtemp(join(tmpdir(), "svc-settings-"));
  t.after(() => rm(projectDir, { recursive: true, force: true }));
  const code = `from svc import Endpoint, GpuGroup, GpuType, Image, Retries, Secret, Volume

@${declaration("job", QUEUE)}
async def job(n=None): ...

@${declaration("often", EVERY)}
async def often(): ...

api = ${declaration("api", LOAD_BALANCED)}

@api.get("/health")
async def health(): ...

${declaration("web", SERVER)}

${declaration("program", PROGRAM)}
`;
  await writeFile(join(projectDir, "worker.py"), code);
  const scan = await scanProject({ projectDir, environment: { PATH: process.env.PATH } });
  requireScan(scan);

  const platform = await startPlatform(t);
  await platform.ask(
    `mutation { setSecret(input: {app: "shop", environment: "production", name: "T", value: "value"}) { name } }`,
  );
  const layersOf = ({ pythonVersion }: { pythonVersion: string | undefined }) => ({
    pythonVersion: pythonVersion ?? "3.11",
    baseDependencies: [],
    dependencyLayer: null,
  });
  const manifest = makeManifest(scan.endpoints, layersOf, await platform.upload(Buffer.from("source")));
  const env = Object.fromEntries(scan.endpoints.map((endpoint) => [endpoint.name, endpoint.env]));
  const { errors } = await deploy(platform, JSON.parse(JSON.stringify(manifest)), { env: env as never });
  assert.equal(errors, undefined, JSON.stringify(errors));

  const records = await platform.store.endpoints.list();
  const build = await platform.store.builds.find(records[0]!.buildId!);
  for (const [name, settings] of [
    ["job", QUEUE] as const,
    ["often", EVERY] as const,
    ["api", LOAD_BALANCED] as const,
    ["web", SERVER] as const,
    ["program", PROGRAM] as const,
  ]) {
    const record = records.find((one) => one.name === name)!;
    for (const [keyword, expected] of Object.entries(settings)) {
      for (const [field, value] of Object.entries(expected.record ?? {})) {
        assert.deepEqual(record[field as keyof Endpoint], value, `${name}: ${keyword} → ${field} of the record`);
        if (field === "env") continue;
        const shown = await platform.ask(`{ endpoint(id: "${record.id}") { ${field} } }`);
        assert.equal(shown.errors, undefined, `${field} is not in the management API`);
        // A list there, of one machine type or none.
        const answer = [shown.data.endpoint[field]].flat().join(",");
        assert.deepEqual(answer, String(value), `${name}: ${keyword} → ${field} in the management API`);
      }
      for (const [field, value] of Object.entries(expected.manifest ?? {})) {
        const kept = build!.manifest.resources[name]![field as keyof Manifest["resources"][string]];
        assert.deepEqual(kept, value, `${name}: ${keyword} → ${field} of the manifest`);
      }
    }
  }
});
