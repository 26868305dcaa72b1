/** Machines that joined a platform and the tokens they join with, as the management API has them. Times are milliseconds since the epoch. */
import type { HostState } from "../domain/host.ts";
import type { Platform } from "./answer-error.ts";
import { request } from "./request.ts";

interface Amount {
  readonly total: number;
  readonly promised: number;
}

export interface HostWorkerRecord {
  readonly id: string;
  readonly endpoint: string;
  readonly app: string | null;
  readonly environment: string | null;
  readonly state: string;
  readonly since: number | null;
  readonly vcpu: number;
  readonly memoryGb: number;
  readonly gpus: number;
}

export interface HostRecord {
  readonly id: string;
  readonly name: string;
  readonly state: HostState;
  readonly draining: boolean;
  readonly since: number;
  readonly joinedAt: number;
  readonly lastSeenAt: number;
  readonly labels: readonly string[];
  readonly arch: string;
  readonly version: string;
  readonly driver: string;
  readonly sharedVolumes: boolean;
  /** Null while it was not heard of since the platform started. */
  readonly vcpu: Amount | null;
  readonly memoryGb: Amount | null;
  readonly gpus: readonly { readonly name: string; readonly workerId: string | null }[];
  readonly workers: readonly HostWorkerRecord[];
  readonly problems: readonly string[];
}

export interface HostTokenRecord {
  readonly id: string;
  readonly name: string;
  readonly reusable: boolean;
  readonly state: "open" | "used" | "expired" | "revoked";
  readonly createdAt: number;
  readonly expiresAt: number | null;
  readonly usedAt: number | null;
  readonly createdBy: string;
}

export interface HostTokenRequest {
  readonly name?: string | undefined;
  readonly expiresInSeconds?: number | undefined;
  readonly reusable?: boolean | undefined;
}

export interface NewHostToken {
  readonly secret: string;
  /** SHA-256 in hex of the certificate that the machine that joins is to find. */
  readonly fingerprint: string;
  /** Of the platform, as it knows itself. */
  readonly url: string;
  readonly port: number;
  readonly token: HostTokenRecord;
}

const TOKEN_FIELDS = "id name reusable state createdAt expiresAt usedAt createdBy";
const HOST_FIELDS = `id name state draining since joinedAt lastSeenAt labels arch version driver sharedVolumes
  vcpu { total promised } memoryGb { total promised } gpus { name workerId }
  workers { id endpoint app environment state since vcpu memoryGb gpus } problems`;

export class Hosts {
  readonly #platform: Platform;

  constructor(platform: Platform) {
    this.#platform = platform;
  }

  /** By name. */
  async list(): Promise<readonly HostRecord[]> {
    return (await this.#query<{ hosts: HostRecord[] }>(`{ hosts { ${HOST_FIELDS} } }`)).hosts;
  }

  /** One metric of the machine over time. */
  async history(host: string, metric: string, from: number, to: number): Promise<readonly (number | null)[]> {
    const document = `query ($host: String!, $metric: String!, $from: Float!, $to: Float!) {
      series(host: $host, metric: $metric, from: $from, to: $to) { points { value } }
    }`;
    type Answer = { series: { points: { value: number | null }[] } };
    const { series } = await this.#query<Answer>(document, { host, metric, from, to });
    return series.points.map(({ value }) => value);
  }

  async drain(name: string, on: boolean): Promise<HostRecord> {
    const document = `mutation ($name: String!, $on: Boolean!) { drainHost(name: $name, on: $on) { ${HOST_FIELDS} } }`;
    return (await this.#query<{ drainHost: HostRecord }>(document, { name, on })).drainHost;
  }

  async remove(name: string): Promise<void> {
    await this.#query("mutation ($name: String!) { removeHost(name: $name) }", { name });
  }

  /** The secret is in this answer only. */
  async createToken(input: HostTokenRequest): Promise<NewHostToken> {
    const fields = `secret fingerprint url port token { ${TOKEN_FIELDS} }`;
    const document = `mutation ($input: HostTokenInput!) { createHostToken(input: $input) { ${fields} } }`;
    return (await this.#query<{ createHostToken: NewHostToken }>(document, { input })).createHostToken;
  }

  /** Newest first. */
  async tokens(): Promise<readonly HostTokenRecord[]> {
    return (await this.#query<{ hostTokens: HostTokenRecord[] }>(`{ hostTokens { ${TOKEN_FIELDS} } }`)).hostTokens;
  }

  async revokeToken(id: string): Promise<void> {
    await this.#query("mutation ($id: String!) { revokeHostToken(id: $id) }", { id });
  }

  #query<T>(query: string, variables: Readonly<Record<string, unknown>> = {}): Promise<T> {
    return request<T>(this.#platform, { query, variables });
  }
}
