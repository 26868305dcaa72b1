/**
 * What the platform remembers about apps, endpoints, builds, keys and workers. Jobs live in src/queue/.
 * One interface; SQLite for one machine, PostgreSQL for a team. Every write is durable when its promise resolves.
 */
import type { KeyScope } from "../domain/api-key.ts";
import type { BuildVerdict } from "../domain/build-verdict.ts";
import type { EndpointContainer, TemplateContainer } from "../domain/container.ts";
import type { EndpointKind, EndpointSettings } from "../domain/endpoint.ts";
import type { EnvValues } from "../domain/env.ts";
import type { Manifest } from "../domain/manifest.ts";
import type { WorkerState } from "../domain/worker.ts";
import type { AlertRepository } from "./alerts.ts";
import type { HostRepository, HostRow } from "./hosts.ts";
import type { AuditRepository, DeployRepository } from "./records.ts";

export interface App {
  readonly id: string;
  readonly name: string;
  /** Milliseconds since the epoch, like every time in this file. */
  readonly createdAt: number;
}

export interface Environment {
  readonly id: string;
  readonly appId: string;
  readonly name: string;
  readonly createdAt: number;
  /** Build that is live; null before the first deploy. */
  readonly buildId: string | null;
}

export interface Build {
  readonly id: string;
  readonly environmentId: string;
  readonly manifest: Manifest;
  /** Environment variables by endpoint name: with the manifest they are all that a rollback needs. */
  readonly env: Readonly<Record<string, EnvValues>>;
  readonly createdAt: number;
  /** What the deployer said about it; "" for nothing. */
  readonly message: string;
  /** Commit it was built from, with `-dirty` when files differed; "" when not known. */
  readonly gitCommit: string;
  /** Name of the key that deployed it; "" when not known. */
  readonly keyName: string;
  readonly verdict: BuildVerdict;
}

/** A serverless endpoint. Keyed by environment + name; one made by saveEndpoint alone has no environment. */
export interface Endpoint extends EndpointSettings {
  readonly id: string;
  readonly name: string;
  readonly kind: EndpointKind;
  readonly environmentId: string | null;
  readonly buildId: string | null;
  readonly templateId: string;
  /** Environment variables given to its workers. */
  readonly env: EnvValues;
  /** From its template; undefined when the image's own is all. */
  readonly container?: EndpointContainer | undefined;
  /** When it is called by itself, as src/domain/schedule.ts has it; "" for never. */
  readonly schedule: string;
  /** Changes when running workers must be replaced (code, dependencies, env, machine, image, boot, concurrency). */
  readonly revision: string;
  /** Why the endpoint cannot run as wished (capacity, failing boot), shown to callers and in status; "" when it can. */
  readonly reason: string;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** What of an endpoint is asked of all at once: there may be thousands. */
export type BriefEndpoint = Pick<Endpoint, (typeof BRIEF_FIELDS)[number]>;

export const BRIEF_FIELDS = [
  "id",
  "name",
  "environmentId",
  "buildId",
  "revision",
  "workersMin",
  "workersMax",
  "networkVolumeId",
] as const satisfies readonly (keyof Endpoint)[];

/** What of an endpoint a call needs. */
export type CalledEndpoint = Pick<Endpoint, (typeof CALLED_FIELDS)[number]>;

export const CALLED_FIELDS = [
  "id",
  "name",
  "kind",
  "environmentId",
  "buildId",
  "cors",
  "publicRoutes",
  "executionTimeoutMs",
  "requestTimeoutMs",
] as const satisfies readonly (keyof Endpoint)[];

export interface Worker {
  readonly id: string;
  readonly endpointId: string;
  readonly buildId: string;
  readonly revision: string;
  readonly state: WorkerState;
  /** SHA-256 in hex of the token the worker proves itself with. */
  readonly tokenHash: string;
  readonly createdAt: number;
  readonly readyAt: number | null;
  /** Why it drains or failed. */
  readonly reason: string;
}

export interface ApiKey {
  readonly id: string;
  readonly name: string;
  /** First characters of the key, to recognise it in a list. */
  readonly prefix: string;
  /** SHA-256 in hex. The key itself is never stored. */
  readonly hash: string;
  readonly scopes: readonly KeyScope[];
  readonly createdAt: number;
  readonly expiresAt: number | null;
  /** The key reaches this environment only; null: every one. */
  readonly environmentId: string | null;
  /** The key reaches this endpoint only; null: every one of its environment. */
  readonly endpointId: string | null;
  /** To the minute; null when it never was. */
  readonly lastUsedAt: number | null;
}

/** A secret of an environment. Its value is sealed: the key to open it is not in the store. */
export interface StoredSecret {
  readonly environmentId: string;
  readonly name: string;
  readonly sealed: string;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** What several endpoints made by saveEndpoint start from: their image and environment variables. */
export interface Template {
  readonly id: string;
  /** Unique. */
  readonly name: string;
  readonly imageName: string;
  readonly env: Readonly<Record<string, string>>;
  readonly container: TemplateContainer;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** Credentials that images are pulled with. User and password are sealed: the key to open them is not in the store. */
export interface RegistryAuth {
  readonly id: string;
  /** Unique. */
  readonly name: string;
  readonly sealed: string;
  readonly createdAt: number;
  readonly updatedAt: number;
}

/** What is said of a volume that endpoints made by saveEndpoint share; its files are src/volumes/'s. */
export interface NetworkVolume {
  /** The volume's name. */
  readonly id: string;
  /** GB that it may hold; 0: what the disk has. */
  readonly size: number;
  /** As it was given. */
  readonly dataCenterId: string;
  readonly createdAt: number;
}

export interface AppRepository {
  find(id: string): Promise<App | undefined>;
  findByName(name: string): Promise<App | undefined>;
  list(): Promise<App[]>;
  /** Those without an environment. */
  listEmpty(): Promise<App[]>;
  insert(app: App): Promise<void>;
  rename(id: string, name: string): Promise<void>;
  delete(id: string): Promise<void>;
}

export interface EnvironmentRepository {
  find(id: string): Promise<Environment | undefined>;
  listByApp(appId: string): Promise<Environment[]>;
  /** Those of all apps without an endpoint. */
  listEmpty(): Promise<Environment[]>;
  insert(environment: Environment): Promise<void>;
  rename(id: string, name: string): Promise<void>;
  setBuild(id: string, buildId: string | null): Promise<void>;
  delete(id: string): Promise<void>;
}

export interface BuildRepository {
  find(id: string): Promise<Build | undefined>;
  /** Newest first. */
  listByEnvironment(environmentId: string): Promise<Build[]>;
  /** Builds that are live in an environment and have not shown yet that they run. `mayRun`: one of its endpoints may have workers. */
  listUnproven(): Promise<(Pick<Build, "id" | "environmentId" | "verdict"> & { readonly mayRun: boolean })[]>;
  insert(build: Build): Promise<void>;
  judge(id: string, verdict: BuildVerdict): Promise<void>;
  delete(id: string): Promise<void>;
}

export interface EndpointRepository {
  find(id: string): Promise<Endpoint | undefined>;
  list(): Promise<Endpoint[]>;
  /** In no order. */
  listBriefly(): Promise<BriefEndpoint[]>;
  /** Those that only drain (src/domain/removal.ts). */
  listRemoved(): Promise<Endpoint[]>;
  listByEnvironment(environmentId: string): Promise<Endpoint[]>;
  /** Those with a schedule. */
  listScheduled(): Promise<Endpoint[]>;
  insert(endpoint: Endpoint): Promise<void>;
  /** Replaces the given fields; the rest keeps its value. Resolves false when there is no such endpoint. */
  update(id: string, changes: Partial<Omit<Endpoint, "id" | "createdAt">>): Promise<boolean>;
  /** Also removes its workers' rows. Its jobs are the queue's to purge. */
  delete(id: string): Promise<void>;
}

export interface WorkerRepository {
  find(id: string): Promise<Worker | undefined>;
  findByToken(tokenHash: string): Promise<Worker | undefined>;
  list(): Promise<Worker[]>;
  listByEndpoint(endpointId: string): Promise<Worker[]>;
  insert(worker: Worker): Promise<void>;
  update(id: string, changes: Partial<Pick<Worker, "state" | "readyAt" | "reason">>): Promise<boolean>;
  delete(id: string): Promise<void>;
}

export interface KeyRepository {
  find(id: string): Promise<ApiKey | undefined>;
  findByHash(hash: string): Promise<ApiKey | undefined>;
  list(): Promise<ApiKey[]>;
  insert(key: ApiKey): Promise<void>;
  /** Notes when the key was used. No change in the sense of onChange. */
  touch(id: string, usedAt: number): Promise<void>;
  /** Revokes; takes effect at once. */
  delete(id: string): Promise<void>;
}

/** A browser that was let in with a key, by a one-time link. It may what the key may, and ends with it. */
export interface ConsoleSession {
  readonly id: string;
  /** SHA-256 of its cookie. */
  readonly hash: string;
  readonly keyId: string;
  readonly createdAt: number;
  readonly expiresAt: number;
}

export interface ConsoleSessionRepository {
  findByHash(hash: string): Promise<ConsoleSession | undefined>;
  /** Ends expired ones, and those of the key that are older than its newest `keptMax`. */
  insert(session: ConsoleSession, keptMax: number): Promise<void>;
  /** Takes effect at once. */
  delete(session: Pick<ConsoleSession, "id" | "keyId">): Promise<void>;
}

export interface SecretRepository {
  listByEnvironment(environmentId: string): Promise<StoredSecret[]>;
  /** Makes the secret or replaces its value; the time it was made stays. */
  save(secret: StoredSecret): Promise<void>;
  /** Resolves false when there is no such secret. */
  delete(environmentId: string, name: string): Promise<boolean>;
}

export interface TemplateRepository {
  find(id: string): Promise<Template | undefined>;
  /** By name. */
  list(): Promise<Template[]>;
  /** Makes the template or replaces it; the time it was made stays. */
  save(template: Template): Promise<void>;
  /** Resolves false when there is no such template. */
  delete(id: string): Promise<boolean>;
}

export interface RegistryAuthRepository {
  find(id: string): Promise<RegistryAuth | undefined>;
  /** By name. */
  list(): Promise<RegistryAuth[]>;
  /** Makes the credentials or replaces them; the time they were made stays. */
  save(auth: RegistryAuth): Promise<void>;
  /** Resolves false when there are none of this id. */
  delete(id: string): Promise<boolean>;
}

export interface NetworkVolumeRepository {
  /** By id. */
  list(): Promise<NetworkVolume[]>;
  /** Makes it or replaces it; the time it was made stays. */
  save(volume: NetworkVolume): Promise<void>;
  delete(id: string): Promise<void>;
}

/** Told after the commit, so that caches can drop what they hold. */
export type StoreChange =
  | { readonly table: "keys" | "workers"; readonly id: string }
  /** `host` as it is since the change; undefined when it is gone. */
  | { readonly table: "hosts"; readonly id: string; readonly host: HostRow | undefined }
  /** `endpoint` as it is since the change; undefined when it is gone. */
  | { readonly table: "endpoints"; readonly id: string; readonly endpoint: Endpoint | undefined };

export interface Store {
  readonly apps: AppRepository;
  readonly environments: EnvironmentRepository;
  readonly builds: BuildRepository;
  readonly endpoints: EndpointRepository;
  readonly workers: WorkerRepository;
  readonly keys: KeyRepository;
  readonly consoleSessions: ConsoleSessionRepository;
  readonly secrets: SecretRepository;
  readonly templates: TemplateRepository;
  readonly deploys: DeployRepository;
  readonly audit: AuditRepository;
  readonly registryAuths: RegistryAuthRepository;
  readonly networkVolumes: NetworkVolumeRepository;
  readonly alerts: AlertRepository;
  readonly hosts: HostRepository;
  /** All writes of `work` or none. `work` awaits nothing but the store it is given. */
  transaction<T>(work: (store: Store) => Promise<T>): Promise<T>;
  /** The write waits for a promise that `listener` returns: it must not reject, and must end soon. */
  onChange(listener: (change: StoreChange) => unknown): void;
  close(): Promise<void>;
}
