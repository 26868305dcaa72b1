/** Builds as `svc deploy` sends them, and the operations that take them. */
import assert from "node:assert/strict";
import type { Manifest, ManifestResource } from "../../src/domain/manifest.ts";
import type { TestPlatform } from "./platform.ts";

/** A queue-based resource as the build writes it. */
export function resource(name: string, changes: Partial<ManifestResource> = {}): ManifestResource {
  return {
    imageName: "svc/worker-cpu:latest",
    workersMin: 0,
    workersMax: 3,
    gpuIds: "",
    functions: [
      { name, module: name, kind: "function", async: false, generator: false, doc: "", parameters: [], methods: [] },
    ],
    systemDependencies: [],
    imageSteps: [],
    gpuPreference: [],
    gpuCount: 1,
    instanceIds: "cpu3c-1-2",
    idleTimeout: 60,
    maxConcurrency: 1,
    executionTimeoutMs: 600_000,
    scalerType: "QUEUE_DELAY",
    scalerValue: 4,
    svcBootType: "SVCBOOT",
    networkVolumeId: "",
    cors: "",
    publicRoutes: "",
    hosts: "",
    requestTimeoutMs: 0,
    schedule: null,
    retriesMax: 0,
    retryDelayMs: 1_000,
    retryBackoff: 2,
    retryMaxDelayMs: 300_000,
    envNames: [],
    pythonVersion: "3.11",
    handler: `handlers/${name}.py`,
    dependencies: [],
    baseDependencies: [],
    dependencyLayer: null,
    ...changes,
  };
}

export function manifest(sourceLayer: string, resources: Record<string, ManifestResource>): Manifest {
  const balanced = Object.entries(resources).filter(([, one]) => one.is_load_balanced);
  return {
    resources,
    routes: Object.fromEntries(
      balanced.map(([name]) => [name, { "GET /health": "health", "POST /process": "process" }]),
    ),
    version: 1,
    svcVersion: "0.1.0",
    sourceLayer,
  };
}

export interface Options {
  readonly app?: string;
  readonly environment?: string;
  readonly env?: Record<string, Record<string, string>>;
  readonly keepRemoved?: boolean;
  readonly message?: string;
  readonly gitCommit?: string;
}

const inputOf = (build: unknown, options: Options) => ({
  app: "shop",
  environment: "production",
  manifest: build,
  ...options,
});

export function deploy(platform: TestPlatform, build: unknown, options: Options = {}) {
  const query = `mutation($input: BuildInput!) { deployBuild(input: $input) {
    buildId app environment removed endpoints { id name kind url buildId workersMax routes envNames }
  } }`;
  return platform.ask(query, { input: inputOf(build, options) });
}

export async function plan(platform: TestPlatform, build: unknown, options: Options = {}) {
  const query = `query($input: BuildInput!) { planBuild(input: $input) {
    changes { action name kind details } missingLayers problems
  } }`;
  const { data, errors } = await platform.ask(query, { input: inputOf(build, options) });
  assert.equal(errors, undefined);
  return data.planBuild as {
    changes: { action: string; name: string; kind: string; details: string[] }[];
    missingLayers: string[];
    problems: string[];
  };
}

/** Every row of the store, to see whether a call changed anything. */
export async function rows({ store }: TestPlatform) {
  const apps = await store.apps.list();
  const environments = (await Promise.all(apps.map(({ id }) => store.environments.listByApp(id)))).flat();
  const builds = (await Promise.all(environments.map(({ id }) => store.builds.listByEnvironment(id)))).flat();
  return { apps, environments, builds, endpoints: await store.endpoints.list() };
}

export async function sample(platform: TestPlatform, source = "source"): Promise<Manifest> {
  return manifest(await platform.upload(Buffer.from(source)), {
    hello: resource("hello", { envNames: ["MODE"] }),
    web: resource("web", { is_load_balanced: true, scalerType: "REQUEST_COUNT", workersMax: 2 }),
  });
}

export const ENV = { hello: { MODE: "fast" } };
