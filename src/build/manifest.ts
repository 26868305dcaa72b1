import type { Manifest, ManifestResource } from "../domain/manifest.ts";
import { VERSION } from "../domain/version.ts";
import type { EndpointDeclaration } from "./endpoint-declaration.ts";
import { handlerPath } from "./handlers.ts";

/** What the layers add to a declaration. */
export interface EndpointLayers {
  readonly pythonVersion: string;
  readonly baseDependencies: readonly string[];
  readonly dependencyLayer: string | null;
  /** Of the files that its code may need; undefined: of all. */
  readonly codeDigest?: string;
}

export function makeManifest(
  endpoints: readonly EndpointDeclaration[],
  layersOf: (endpoint: EndpointDeclaration) => EndpointLayers,
  sourceLayer: string,
): Manifest {
  const resources = endpoints.map((endpoint) => [endpoint.name, makeResource(endpoint, layersOf(endpoint))] as const);
  const routes = endpoints
    .filter((endpoint) => endpoint.kind === "load-balanced")
    .map((endpoint) => {
      const byKey = endpoint.routes.map((route) => [`${route.method} ${route.path}`, route.function.name] as const);
      return [endpoint.name, Object.fromEntries(byKey)] as const;
    });
  return {
    resources: Object.fromEntries(resources),
    routes: Object.fromEntries(routes),
    version: 1,
    svcVersion: VERSION,
    sourceLayer,
  };
}

function makeResource(endpoint: EndpointDeclaration, layers: EndpointLayers): ManifestResource {
  const { settings } = endpoint;
  return {
    ...(endpoint.kind === "load-balanced" ? { is_load_balanced: true as const } : {}),
    imageName: settings.imageName,
    workersMin: settings.workersMin,
    workersMax: settings.workersMax,
    gpuIds: settings.gpuIds,
    functions: [...endpoint.functions],
    ...(endpoint.server === undefined ? {} : { server: { ...endpoint.server, command: [...endpoint.server.command] } }),
    systemDependencies: [...endpoint.systemDependencies],
    imageSteps: endpoint.imageSteps.map((step) => ({ ...step })),
    gpuPreference: [...endpoint.gpuPreference],
    gpuCount: settings.gpuCount,
    instanceIds: settings.instanceIds,
    idleTimeout: settings.idleTimeout,
    maxConcurrency: settings.maxConcurrency,
    executionTimeoutMs: settings.executionTimeoutMs,
    scalerType: settings.scalerType,
    scalerValue: settings.scalerValue,
    svcBootType: settings.svcBootType,
    networkVolumeId: settings.networkVolumeId,
    cors: settings.cors,
    requestTimeoutMs: settings.requestTimeoutMs,
    schedule: endpoint.schedule ?? null,
    retriesMax: settings.retriesMax,
    retryDelayMs: settings.retryDelayMs,
    retryBackoff: settings.retryBackoff,
    retryMaxDelayMs: settings.retryMaxDelayMs,
    publicRoutes: settings.publicRoutes,
    hosts: settings.hosts,
    envNames: Object.keys(endpoint.env).sort(),
    pythonVersion: layers.pythonVersion,
    handler: handlerPath(endpoint.name),
    dependencies: [...endpoint.dependencies],
    baseDependencies: [...layers.baseDependencies],
    dependencyLayer: layers.dependencyLayer,
    ...(layers.codeDigest === undefined ? {} : { codeDigest: layers.codeDigest }),
  };
}
