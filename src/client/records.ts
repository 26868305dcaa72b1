/** What the management API answers, as src/control-plane/schema.graphql describes it. */
import type { EndpointKind } from "../domain/endpoint.ts";
import type { EnvValues } from "../domain/env.ts";
import type { Manifest, ManifestFunction } from "../domain/manifest.ts";
import type { EndpointHealth, WorkerState } from "../domain/worker.ts";

export interface PodRecord {
  readonly id: string;
  readonly desiredStatus: string;
  readonly state: WorkerState;
  /** Belongs to the endpoint's live build and settings. */
  readonly current: boolean;
  readonly reason: string;
  /** "fork", or "spawn: why"; "" while it is not known, like the two below. */
  readonly boot: string;
  readonly limits: string;
  readonly isolation: string;
  /** Name of the host that it runs on; null: the platform's own machine, or not known yet. */
  readonly host: string | null;
}

export interface EndpointRecord {
  readonly id: string;
  readonly name: string;
  readonly kind: EndpointKind;
  /** Base URL of its calls. */
  readonly url: string;
  readonly app: string | null;
  readonly environment: string | null;
  readonly buildId: string | null;
  readonly gpuIds: string;
  readonly gpuCount: number;
  readonly instanceIds: readonly string[];
  readonly workersMin: number;
  readonly workersMax: number;
  /** Seconds. */
  readonly idleTimeout: number;
  /** `METHOD /path` of each route of a load-balanced endpoint. */
  readonly routes: readonly string[];
  /** Those of them that answer without a key: "*" for all, a line for each, "" for none. */
  readonly publicRoutes: string;
  readonly functions: readonly ManifestFunction[];
  readonly status: EndpointHealth;
  /** It asks for a GPU, and the platform runs it on the CPU instead. */
  readonly emulatesGpu: boolean;
  readonly pods: readonly PodRecord[];
}

/** An endpoint that is called by a schedule. Times in milliseconds since the epoch. */
export interface ScheduleRecord extends Pick<EndpointRecord, "id" | "name" | "url" | "app" | "environment"> {
  readonly schedule: {
    readonly text: string;
    readonly input: object;
    readonly next: number | null;
    readonly paused: boolean;
    readonly lastTick: number | null;
    /** "" when the last tick was left out. */
    readonly lastJobId: string;
  };
}

export interface EnvironmentRecord {
  readonly id: string;
  readonly name: string;
  readonly buildId: string | null;
  readonly endpoints: readonly EndpointRecord[];
}

export interface AppRecord {
  readonly id: string;
  readonly name: string;
  readonly environments: readonly EnvironmentRecord[];
}

/** An app without the details of its endpoints. */
export interface AppSummary {
  readonly name: string;
  readonly environments: readonly {
    readonly name: string;
    readonly buildId: string | null;
    readonly endpoints: readonly { readonly name: string }[];
  }[];
}

export interface AccountRecord {
  readonly version: string;
  readonly workersQuota: number;
}

export interface BuildInput {
  readonly app: string;
  readonly environment: string;
  readonly manifest: Manifest;
  /** Environment variables by endpoint name. */
  readonly env?: Readonly<Record<string, EnvValues>>;
  readonly keepRemoved?: boolean;
  /** What is said about the build. */
  readonly message?: string;
  readonly gitCommit?: string;
}

export interface PlannedChange {
  readonly action: "create" | "update" | "unchanged" | "remove";
  readonly name: string;
  readonly kind: EndpointKind;
  readonly details: readonly string[];
}

export interface Plan {
  readonly changes: readonly PlannedChange[];
  /** Digests to upload before deployBuild. */
  readonly missingLayers: readonly string[];
  /** Why deployBuild would refuse. */
  readonly problems: readonly string[];
}

export interface Deployment {
  readonly buildId: string;
  readonly app: string;
  readonly environment: string;
  readonly endpoints: readonly EndpointRecord[];
  readonly removed: readonly string[];
}

/** Fields of saveEndpoint: with `id` only the given ones change. */
export interface EndpointInput {
  readonly id?: string;
  readonly name?: string;
  readonly gpuIds?: string;
  readonly gpuCount?: number;
  readonly instanceIds?: string;
  readonly templateId?: string;
  readonly idleTimeout?: number;
  readonly locations?: string;
  readonly networkVolumeId?: string;
  readonly scalerType?: string;
  readonly scalerValue?: number;
  readonly workersMin?: number;
  readonly workersMax?: number;
  readonly svcBootType?: string;
  readonly executionTimeoutMs?: number;
  readonly maxConcurrency?: number;
}

export interface SignUrlInput {
  /** Its id. */
  readonly endpoint: string;
  /** Below its URL, perhaps with a query. */
  readonly path: string;
  readonly method?: string;
  readonly expiresInSeconds: number;
  readonly prefix?: boolean;
}

export interface KeyRecord {
  readonly id: string;
  readonly name: string;
  readonly prefix: string;
  readonly scopes: readonly string[];
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  readonly expiresAt: number | null;
  /** To the minute; null when it never was. */
  readonly lastUsedAt: number | null;
  /** The place it is bound to; null for none. */
  readonly app: string | null;
  readonly environment: string | null;
  readonly endpoint: string | null;
}
