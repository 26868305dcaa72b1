/** The management API for the CLI and the dev server: one function for each operation. */
import type { PlatformWishes } from "../domain/driver-offers.ts";
import type { ScalingDecision } from "../domain/worker.ts";
import type { Platform } from "./answer-error.ts";
import type {
  AccountRecord,
  AppRecord,
  AppSummary,
  BuildInput,
  Deployment,
  EndpointInput,
  EndpointRecord,
  Plan,
  ScheduleRecord,
  SignUrlInput,
} from "./records.ts";
import { request } from "./request.ts";
import { type UploadOptions, uploadLayer } from "./upload-layer.ts";

const ENDPOINT_FIELDS = `id name kind url app environment buildId gpuIds gpuCount instanceIds workersMin workersMax
  idleTimeout routes publicRoutes functions emulatesGpu status { state reason progress } pods { id desiredStatus state current reason boot limits isolation host }`;

const APP_FIELDS = `id name environments { id name buildId endpoints { ${ENDPOINT_FIELDS} } }`;
const SCHEDULE_FIELDS =
  "id name url app environment schedule: scheduleState { text input next paused lastTick lastJobId }";
const PLAN_FIELDS = "changes { action name kind details } missingLayers problems";

export class ControlPlane {
  readonly platform: Platform;

  constructor(platform: Platform) {
    this.platform = platform;
  }

  /** Also the cheapest way to find out whether the key is valid. */
  async account(): Promise<AccountRecord> {
    return (await this.#query<{ myself: AccountRecord }>("{ myself { version workersQuota } }")).myself;
  }

  /** What is wrong with the whole platform now, in words. A platform of an earlier version does not say. */
  async notices(): Promise<readonly string[]> {
    const query = this.#query<{ myself: { notices: string[] } }>("{ myself { notices } }");
    return query.then(
      ({ myself }) => myself.notices,
      () => [],
    );
  }

  /** Every endpoint the key can see. */
  async endpoints(): Promise<readonly EndpointRecord[]> {
    const document = `{ myself { endpoints { ${ENDPOINT_FIELDS} } } }`;
    return (await this.#query<{ myself: { endpoints: EndpointRecord[] } }>(document)).myself.endpoints;
  }

  async endpointNames(signal?: AbortSignal): Promise<readonly string[]> {
    const body = { query: "{ myself { endpoints { name } } }", variables: {} };
    const answer = await request<{ myself: { endpoints: { name: string }[] } }>(this.platform, body, signal);
    return answer.myself.endpoints.map(({ name }) => name);
  }

  async endpoint(id: string): Promise<EndpointRecord | null> {
    const document = `query ($id: String!) { endpoint(id: $id) { ${ENDPOINT_FIELDS} } }`;
    return (await this.#query<{ endpoint: EndpointRecord | null }>(document, { id })).endpoint;
  }

  /** Every endpoint with a schedule that the key can see. */
  async schedules(): Promise<readonly ScheduleRecord[]> {
    type Answer = { myself: { endpoints: (Omit<ScheduleRecord, "schedule"> & Partial<ScheduleRecord>)[] } };
    const { myself } = await this.#query<Answer>(`{ myself { endpoints { ${SCHEDULE_FIELDS} } } }`);
    return myself.endpoints.filter((each): each is ScheduleRecord => !!each.schedule);
  }

  async pauseSchedule(endpointId: string, paused: boolean): Promise<ScheduleRecord> {
    const document = `mutation ($endpointId: String!, $paused: Boolean!) {
      pauseSchedule(endpointId: $endpointId, paused: $paused) { ${SCHEDULE_FIELDS} }
    }`;
    return (await this.#query<{ pauseSchedule: ScheduleRecord }>(document, { endpointId, paused })).pauseSchedule;
  }

  /** Why the endpoint's workers were started and stopped, oldest first. */
  async decisions(id: string): Promise<readonly ScalingDecision[]> {
    const document = "query ($id: String!) { endpoint(id: $id) { decisions { at start stop reason times } } }";
    const answer = await this.#query<{ endpoint: { decisions: ScalingDecision[] } | null }>(document, { id });
    return answer.endpoint?.decisions ?? [];
  }

  async apps(): Promise<readonly AppSummary[]> {
    const document = "{ apps { name environments { name buildId endpoints { name } } } }";
    return (await this.#query<{ apps: AppSummary[] }>(document)).apps;
  }

  /** Names only: what a deploy needs to choose its environment. Null when there is no such app. */
  async environmentNames(app: string): Promise<readonly string[] | null> {
    const document = "query ($name: String!) { app(name: $name) { environments { name } } }";
    const answer = await this.#query<{ app: { environments: { name: string }[] } | null }>(document, { name: app });
    return answer.app?.environments.map((environment) => environment.name) ?? null;
  }

  async app(name: string): Promise<AppRecord | null> {
    const document = `query ($name: String!) { app(name: $name) { ${APP_FIELDS} } }`;
    return (await this.#query<{ app: AppRecord | null }>(document, { name })).app;
  }

  /** Why a deploy of such endpoints would be refused, as far as that is known before they are built. */
  async mayDeploy(
    place: { app: string; environment: string },
    endpoints: readonly ({ name: string; workersMax: number } & Partial<PlatformWishes>)[],
    keepRemoved = false,
  ): Promise<readonly string[]> {
    const document = `query ($app: String!, $environment: String!, $endpoints: [WantedEndpoint!]!, $keepRemoved: Boolean) {
      mayDeploy(app: $app, environment: $environment, endpoints: $endpoints, keepRemoved: $keepRemoved)
    }`;
    return (await this.#query<{ mayDeploy: string[] }>(document, { ...place, endpoints, keepRemoved })).mayDeploy;
  }

  /** A URL that makes one call without a key. */
  async signUrl(input: SignUrlInput): Promise<{ readonly url: string; readonly expiresAt: number }> {
    const document = "mutation ($input: SignUrlInput!) { signUrl(input: $input) { url expiresAt } }";
    return (await this.#query<{ signUrl: { url: string; expiresAt: number } }>(document, { input })).signUrl;
  }

  /** Opens the console once. Its address is the platform's own, which need not be the one it is reached by. */
  async createConsoleLink(): Promise<{ readonly url: string; readonly expiresAt: number }> {
    const document = "mutation { createConsoleLink { url expiresAt } }";
    return (await this.#query<{ createConsoleLink: { url: string; expiresAt: number } }>(document)).createConsoleLink;
  }

  async planBuild(input: BuildInput): Promise<Plan> {
    const document = `query ($input: BuildInput!) { planBuild(input: $input) { ${PLAN_FIELDS} } }`;
    return (await this.#query<{ planBuild: Plan }>(document, { input })).planBuild;
  }

  /** The plan, and the app as it is, in one round trip: all that a deploy without changes needs. */
  async planAndApp(input: BuildInput): Promise<{ readonly plan: Plan; readonly app: AppRecord | null }> {
    const document = `query ($input: BuildInput!, $app: String!) {
      plan: planBuild(input: $input) { ${PLAN_FIELDS} }
      app(name: $app) { ${APP_FIELDS} }
    }`;
    return this.#query(document, { input, app: input.app });
  }

  async deployBuild(input: BuildInput): Promise<Deployment> {
    const document = `mutation ($input: BuildInput!) {
      deployBuild(input: $input) { buildId app environment removed endpoints { ${ENDPOINT_FIELDS} } }
    }`;
    return (await this.#query<{ deployBuild: Deployment }>(document, { input })).deployBuild;
  }

  /** Makes an earlier build live again; without `buildId` the newest before the live one that was ready. */
  async rollback(
    place: { app: string; environment: string },
    buildId?: string,
    keepRemoved = false,
  ): Promise<Deployment> {
    const document = `mutation ($app: String!, $environment: String!, $buildId: String, $keepRemoved: Boolean) {
      rollback(app: $app, environment: $environment, buildId: $buildId, keepRemoved: $keepRemoved) {
        buildId app environment removed endpoints { ${ENDPOINT_FIELDS} }
      }
    }`;
    return (await this.#query<{ rollback: Deployment }>(document, { ...place, buildId, keepRemoved })).rollback;
  }

  async saveEndpoint(input: EndpointInput): Promise<EndpointRecord> {
    const document = `mutation ($input: EndpointInput!) { saveEndpoint(input: $input) { ${ENDPOINT_FIELDS} } }`;
    return (await this.#query<{ saveEndpoint: EndpointRecord }>(document, { input })).saveEndpoint;
  }

  /** Refused with WORKERS_NOT_ZERO while workersMin or workersMax is above 0. */
  async deleteEndpoint(id: string): Promise<void> {
    await this.#query("mutation ($id: String!) { deleteEndpoint(id: $id) }", { id });
  }

  /** Streams a layer file to the platform, from where an upload of it broke off. */
  async uploadLayer(digest: string, path: string, options: UploadOptions = {}): Promise<void> {
    await uploadLayer(this.platform, digest, path, options);
  }

  async #query<T>(query: string, variables: Readonly<Record<string, unknown>> = {}): Promise<T> {
    return request<T>(this.platform, { query, variables });
  }
}
