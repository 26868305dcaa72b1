/** What happened, as the management API lists it: jobs of all endpoints, errors, who did what, and all endpoints at a glance. */
import type { AlertKind } from "../domain/alert.ts";
import type { AuditEntry, AuditFilter } from "../domain/audit.ts";
import type { JobState } from "../domain/job.ts";
import type { EndpointHealth } from "../domain/worker.ts";
import type { Platform } from "./answer-error.ts";
import { request } from "./request.ts";

/** Times in milliseconds since the epoch. */
export interface ListedJob {
  readonly id: string;
  readonly endpointId: string;
  readonly endpoint: string;
  readonly app: string | null;
  readonly environment: string | null;
  readonly state: JobState;
  readonly createdAt: number;
  readonly startedAt: number | null;
  readonly finishedAt: number | null;
  readonly waitMs: number | null;
  readonly runMs: number | null;
  readonly attempt: number;
  readonly workerId: string | null;
  readonly error: string;
  readonly errorType: string;
  readonly hasBodies: boolean;
}

export interface JobFilter {
  readonly endpoint?: string;
  readonly app?: string;
  readonly environment?: string;
  readonly id?: string;
  readonly states?: readonly JobState[];
  readonly from?: number;
  readonly to?: number;
  readonly error?: string;
}

export interface ErrorGroupRecord {
  readonly key: string;
  readonly type: string;
  readonly place: string;
  readonly message: string;
  readonly endpoint: string;
  readonly count: number;
  readonly firstAt: number;
  readonly lastAt: number;
  readonly lastJobId: string | null;
}

export interface EndpointGlance {
  readonly id: string;
  readonly name: string;
  readonly app: string | null;
  readonly environment: string | null;
  readonly workersMin: number;
  readonly workersMax: number;
  readonly status: EndpointHealth;
  readonly pods: readonly { readonly state: string }[];
  readonly load: {
    readonly waiting: number;
    readonly running: number;
    /** Of the last five minutes; null: nothing ran. */
    readonly p50Ms: number | null;
    readonly p95Ms: number | null;
    readonly failed: number;
  };
}

export interface Glance {
  readonly endpoints: readonly EndpointGlance[];
  readonly capacity: {
    readonly vcpu: { readonly total: number; readonly promised: number };
    readonly memoryGb: { readonly total: number; readonly promised: number };
  };
  /** Machines that joined, by name. */
  readonly hosts: readonly {
    readonly name: string;
    readonly state: string;
    readonly vcpu: { readonly total: number; readonly promised: number; readonly used: number | null } | null;
    readonly memoryGb: { readonly total: number; readonly promised: number; readonly used: number | null } | null;
    readonly workers: readonly { readonly id: string }[];
  }[];
  readonly decisions: readonly {
    readonly at: number;
    readonly endpoint: string;
    readonly start: number;
    readonly stop: number;
    readonly reason: string;
    readonly times: number;
  }[];
}

export interface AlertWish {
  readonly kind: AlertKind;
  readonly url: string;
  readonly threshold?: number;
  readonly app?: string;
  readonly environment?: string;
  readonly endpointId?: string;
}

export interface AlertListed {
  readonly id: string;
  readonly kind: AlertKind;
  /** Its origin alone. */
  readonly url: string;
  readonly endpoint: string | null;
  readonly app: string | null;
  readonly environment: string | null;
  readonly threshold: number;
  readonly firing: boolean;
  readonly lastAt: number | null;
  readonly lastDelivery: string;
}

const JOB_FIELDS = `id endpointId endpoint app environment state createdAt startedAt finishedAt waitMs runMs attempt
  workerId error errorType hasBodies`;
const ALERT_FIELDS = "id kind url endpoint app environment threshold firing lastAt lastDelivery";
const PAGE_MAX = 500;

interface Page<R> {
  readonly rows: readonly R[];
  readonly next: string | null;
}

export class History {
  readonly #platform: Platform;

  constructor(platform: Platform) {
    this.#platform = platform;
  }

  /** Newest first; `more` when there are others. */
  jobs(filter: JobFilter, limit: number): Promise<{ rows: readonly ListedJob[]; more: boolean }> {
    const document = `query ($filter: JobFilter, $first: Int!, $after: String) {
      page: jobs(filter: $filter, first: $first, after: $after) { rows: jobs { ${JOB_FIELDS} } next }
    }`;
    return this.#pages<ListedJob>(document, { filter }, limit);
  }

  /** Needs a key with the scope admin. */
  audit(filter: AuditFilter, limit: number) {
    const document = `query ($from: Float, $to: Float, $action: String, $first: Int!, $after: String) {
      page: audit(from: $from, to: $to, action: $action, first: $first, after: $after) {
        rows: entries { id at keyId keyName action target detail address } next
      }
    }`;
    return this.#pages<AuditEntry & { readonly id: string }>(document, filter, limit);
  }

  /** Those that came last first. */
  async errorGroups(place: { endpoint?: string; app?: string; environment?: string; from?: number }, first: number) {
    const document = `query ($endpoint: String, $app: String, $environment: String, $from: Float, $first: Int!) {
      errorGroups(endpoint: $endpoint, app: $app, environment: $environment, from: $from, first: $first) {
        key type place message endpoint count firstAt lastAt lastJobId
      }
    }`;
    const answer = await this.#query<{ errorGroups: ErrorGroupRecord[] }>(document, { ...place, first });
    return answer.errorGroups;
  }

  /** Everything that runs, in one answer. */
  async glance(decisions: number): Promise<Glance> {
    const document = `query ($first: Int!) {
      myself { endpoints {
        id name app environment workersMin workersMax status { state reason progress } pods { state }
        load { waiting running p50Ms p95Ms failed }
      } }
      capacity { vcpu { total promised } memoryGb { total promised } }
      hosts { name state vcpu { total promised used } memoryGb { total promised used } workers { id } }
      decisions(first: $first) { decisions { at endpoint start stop reason times } }
    }`;
    type Answer = {
      myself: Pick<Glance, "endpoints">;
      capacity: Glance["capacity"];
      hosts: Glance["hosts"];
      decisions: Pick<Glance, "decisions">;
    };
    const { myself, capacity, hosts, decisions: found } = await this.#query<Answer>(document, { first: decisions });
    return { endpoints: myself.endpoints, capacity, hosts, decisions: found.decisions };
  }

  async alerts(): Promise<readonly AlertListed[]> {
    return (await this.#query<{ alerts: AlertListed[] }>(`{ alerts { ${ALERT_FIELDS} } }`)).alerts;
  }

  async createAlert(input: AlertWish): Promise<AlertListed> {
    const document = `mutation ($input: AlertInput!) { createAlert(input: $input) { ${ALERT_FIELDS} } }`;
    return (await this.#query<{ createAlert: AlertListed }>(document, { input })).createAlert;
  }

  /** "delivered", or why not. */
  async testAlert(id: string): Promise<string> {
    const document = "mutation ($id: String!) { testAlert(id: $id) }";
    return (await this.#query<{ testAlert: string }>(document, { id })).testAlert;
  }

  async removeAlert(id: string): Promise<void> {
    await this.#query("mutation ($id: String!) { removeAlert(id: $id) }", { id });
  }

  async #pages<R>(document: string, variables: object, limit: number): Promise<{ rows: readonly R[]; more: boolean }> {
    const rows: R[] = [];
    let after: string | null = null;
    do {
      const first = Math.min(PAGE_MAX, limit - rows.length);
      const { page }: { page: Page<R> } = await this.#query(document, { ...variables, first, after });
      rows.push(...page.rows);
      after = page.next;
    } while (after !== null && rows.length < limit);
    return { rows, more: after !== null };
  }

  #query<T>(query: string, variables: Readonly<Record<string, unknown>> = {}): Promise<T> {
    return request<T>(this.#platform, { query, variables });
  }
}
