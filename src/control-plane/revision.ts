import { createHash } from "node:crypto";
import type { EndpointContainer } from "../domain/container.ts";
import type { EndpointKind, EndpointSettings } from "../domain/endpoint.ts";
import type { EnvValues } from "../domain/env.ts";
import type { Manifest } from "../domain/manifest.ts";
import type { Store } from "../store/store.ts";
import { own } from "./known.ts";

/** The part of a build that one endpoint's workers are made of. */
export interface EndpointCode {
  /** Changes with the files that its code may need. */
  readonly source: string;
  readonly handler: string;
  readonly dependencyLayer: string | null;
  readonly baseDependencies: readonly string[];
  readonly pythonVersion: string;
  /** Best first: which GPU a worker gets of those that it may have. */
  readonly gpuPreference: readonly string[];
  /** What is built on its image; "" for nothing. */
  readonly image: string;
}

/** null when the manifest has no such endpoint. */
export function codeOf(manifest: Manifest, endpointName: string): EndpointCode | null {
  const resource = own(manifest.resources, endpointName);
  if (resource === undefined) return null;
  const { handler, dependencyLayer, baseDependencies, pythonVersion, codeDigest, gpuPreference } = resource;
  const { systemDependencies = [], imageSteps = [] } = resource; // A manifest of an earlier version has none.
  return {
    source: codeDigest ?? manifest.sourceLayer,
    handler,
    dependencyLayer,
    baseDependencies,
    pythonVersion,
    gpuPreference,
    image: systemDependencies.length + imageSteps.length === 0 ? "" : JSON.stringify([imageSteps, systemDependencies]),
  };
}

export interface Revisable extends EndpointSettings {
  readonly kind: EndpointKind;
  readonly env: EnvValues;
  readonly container?: EndpointContainer | undefined;
}

/** Name of a secret → when it was set last, of one environment. */
export type SecretTimes = ReadonlyMap<string, number>;

export async function secretTimes(store: Store, environmentId: string | null | undefined): Promise<SecretTimes> {
  const secrets = environmentId ? await store.secrets.listByEnvironment(environmentId) : [];
  return new Map(secrets.map(({ name, updatedAt }) => [name, updatedAt]));
}

/**
 * A hash of all that a running worker cannot take over: when it changes, workers are replaced. Scaling and
 * time-outs are not part of it. A secret counts by the time it was set last.
 */
export function revisionOf(endpoint: Revisable, code: EndpointCode | null, secrets: SecretTimes): string {
  const parts = [
    endpoint.kind,
    endpoint.gpuIds,
    endpoint.gpuCount,
    endpoint.instanceIds,
    endpoint.maxConcurrency,
    endpoint.imageName,
    endpoint.svcBootType,
    endpoint.networkVolumeId,
    endpoint.locations,
    Object.entries(endpoint.env)
      .map(([name, value]) => [name, typeof value === "string" ? value : [value.secret, secrets.get(value.secret)]])
      .sort(([a], [b]) => (a! < b! ? -1 : 1)),
    code && [code.source, code.handler, code.dependencyLayer, [...code.baseDependencies].sort(), code.pythonVersion],
    ...(code?.image ? [code.image] : []),
    // Workers that run elsewhere are replaced. Without labels a revision is what it was before there were any.
    ...(endpoint.hosts === "" ? [] : [["hosts", endpoint.hosts]]),
    ...(endpoint.container === undefined ? [] : [endpoint.container.entrypoint, endpoint.container.command]),
  ];
  return createHash("sha256").update(JSON.stringify(parts)).digest("hex").slice(0, 16);
}
