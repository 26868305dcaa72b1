/** What the CLI does with whole apps and environments, builds, keys and secrets. */
import type { KeyScope } from "../domain/api-key.ts";
import type { Platform } from "./answer-error.ts";
import type { KeyRecord } from "./records.ts";
import { request } from "./request.ts";

/** A build of an environment. Times are milliseconds since the epoch. */
export interface BuildRecord {
  readonly id: string;
  readonly createdAt: number;
  readonly live: boolean;
  /** Names of its endpoints. */
  readonly endpoints: readonly string[];
  /** Of `svc deploy --message`; "" for none. */
  readonly message: string;
  /** With `-dirty` when files differed from it; "" when not known. */
  readonly gitCommit: string;
  /** Who deployed it; "" when not known. */
  readonly keyName: string;
  readonly verdict: "pending" | "ready" | "failed" | "unknown";
  /** Why it failed; "" when it did not. */
  readonly reason: string;
  readonly verdictAt: number | null;
}

export interface SecretRecord {
  readonly name: string;
  readonly createdAt: number;
  readonly updatedAt: number;
}

export interface VolumeRecord {
  readonly name: string;
  /** What workers of the environment fetch is kept there. */
  readonly cache: boolean;
  /** Null until it was measured. */
  readonly sizeBytes: number | null;
  /** Null: none. */
  readonly limitBytes: number | null;
  /** That name it. */
  readonly endpoints: readonly string[];
}

export interface KeyRequest {
  readonly name: string;
  readonly scopes: readonly KeyScope[];
  readonly expiresInSeconds?: number;
  readonly app?: string;
  readonly environment?: string;
  readonly endpointId?: string;
}

export interface Place {
  readonly app: string;
  readonly environment: string;
}

interface EnvironmentPart<T> {
  readonly app: { readonly environments: readonly ({ readonly name: string } & T)[] } | null;
}

const BUILD_FIELDS = "id createdAt live endpoints message gitCommit keyName verdict reason verdictAt";
const VOLUME_FIELDS = "name cache sizeBytes limitBytes endpoints";
const KEY_FIELDS = "id name prefix scopes createdAt expiresAt lastUsedAt app environment endpoint";

export class Administration {
  readonly #platform: Platform;

  constructor(platform: Platform) {
    this.#platform = platform;
  }

  /** Newest first; empty when there is no such environment. */
  async builds({ app, environment }: Place): Promise<readonly BuildRecord[]> {
    const document = `query ($app: String!) {
      app(name: $app) { environments { name builds(first: 50) { ${BUILD_FIELDS} } } }
    }`;
    const answer = await this.#query<EnvironmentPart<{ builds: BuildRecord[] }>>(document, { app });
    return answer.app?.environments.find(({ name }) => name === environment)?.builds ?? [];
  }

  async createEnvironment({ app, environment }: Place): Promise<void> {
    const document = "mutation ($app: String!, $name: String!) { createEnvironment(app: $app, name: $name) { id } }";
    await this.#query(document, { app, name: environment });
  }

  /** Resolves the names of the endpoints that went. */
  async deleteEnvironment({ app, environment }: Place): Promise<readonly string[]> {
    const document = "mutation ($app: String!, $name: String!) { deleteEnvironment(app: $app, name: $name) }";
    const variables = { app, name: environment };
    return (await this.#query<{ deleteEnvironment: string[] }>(document, variables)).deleteEnvironment;
  }

  /** Resolves the names of the endpoints that went. */
  async deleteApp(name: string): Promise<readonly string[]> {
    const document = "mutation ($name: String!) { deleteApp(name: $name) }";
    return (await this.#query<{ deleteApp: string[] }>(document, { name })).deleteApp;
  }

  async secrets({ app, environment }: Place): Promise<readonly SecretRecord[]> {
    const document = `query ($app: String!) {
      app(name: $app) { environments { name secrets { name createdAt updatedAt } } }
    }`;
    const answer = await this.#query<EnvironmentPart<{ secrets: SecretRecord[] }>>(document, { app });
    return answer.app?.environments.find(({ name }) => name === environment)?.secrets ?? [];
  }

  async setSecret(place: Place, name: string, value: string): Promise<void> {
    const document = "mutation ($input: SecretInput!) { setSecret(input: $input) { name } }";
    await this.#query(document, { input: { ...place, name, value } });
  }

  async deleteSecret(place: Place, name: string): Promise<void> {
    const document = `mutation ($app: String!, $environment: String!, $name: String!) {
      deleteSecret(app: $app, environment: $environment, name: $name)
    }`;
    await this.#query(document, { ...place, name });
  }

  async keys(): Promise<readonly KeyRecord[]> {
    const document = `{ myself { keys { ${KEY_FIELDS} } } }`;
    return (await this.#query<{ myself: { keys: KeyRecord[] } }>(document)).myself.keys;
  }

  /** The secret is in this answer only. */
  async createKey(input: KeyRequest): Promise<{ readonly key: KeyRecord; readonly secret: string }> {
    const document = `mutation ($input: KeyInput!) { createKey(input: $input) { secret key { ${KEY_FIELDS} } } }`;
    return (await this.#query<{ createKey: { key: KeyRecord; secret: string } }>(document, { input })).createKey;
  }

  async revokeKey(id: string): Promise<void> {
    await this.#query("mutation ($id: String!) { revokeKey(id: $id) }", { id });
  }

  async volumes(place: Place): Promise<readonly VolumeRecord[]> {
    const document = `query ($app: String!, $environment: String!) {
      volumes(app: $app, environment: $environment) { ${VOLUME_FIELDS} }
    }`;
    return (await this.#query<{ volumes: VolumeRecord[] }>(document, { ...place })).volumes;
  }

  async createVolume(place: Place, name: string): Promise<VolumeRecord> {
    const document = `mutation ($app: String!, $environment: String!, $name: String!) {
      createVolume(app: $app, environment: $environment, name: $name) { ${VOLUME_FIELDS} }
    }`;
    return (await this.#query<{ createVolume: VolumeRecord }>(document, { ...place, name })).createVolume;
  }

  async deleteVolume(place: Place, name: string): Promise<void> {
    const document = `mutation ($app: String!, $environment: String!, $name: String!) {
      deleteVolume(app: $app, environment: $environment, name: $name)
    }`;
    await this.#query(document, { ...place, name });
  }

  #query<T>(query: string, variables: Readonly<Record<string, unknown>> = {}): Promise<T> {
    return request<T>(this.#platform, { query, variables });
  }
}
