/**
 * Calls of deployed endpoints, for programs: `import { Endpoint } from "svc/client"`. Runs in browsers and Node, with
 * nothing but fetch. What it asks the platform about jobs is asked again while the platform is away for a moment;
 * requests to load-balanced endpoints are sent once, since only the caller knows whether they may be repeated.
 */
import { SvcError } from "../domain/errors.ts";
import { CLIENT_PATIENCE_MS, CLIENT_POLL_MS } from "../domain/limits.ts";
import { type Platform, unreachable } from "./answer-error.ts";
import { EndpointClient, type JobRecord, type JobRequest, type QueueHealth } from "./gateway.ts";
import { Job, type WaitOptions } from "./job.ts";
import { RequestError } from "./request-error.ts";
import { keyHeader, patient, sendByFetch } from "./send.ts";
import { parseEvents, type ServerSentEvent, textOf } from "./server-sent-events.ts";

export { SvcError } from "../domain/errors.ts";
export type { JobState } from "../domain/job.ts";
export type { JobRecord, JobRequest, QueueHealth } from "./gateway.ts";
export { Job, type WaitOptions } from "./job.ts";
export { JobCancelledError, JobError, JobFailedError, JobTimedOutError } from "./job-error.ts";
export { RequestError } from "./request-error.ts";
export type { ServerSentEvent } from "./server-sent-events.ts";

export interface EndpointOptions {
  /** The endpoint's URL as `svc deploy` prints it: …/v2/<id>, or the base of a load-balanced one. */
  readonly url: string;
  /** A key with the scope invoke. */
  readonly apiKey?: string;
  /** How long a platform that answered before is looked for while it is away; 60,000 when not given. */
  readonly patienceMs?: number;
  /** Used instead of the global one. */
  readonly fetch?: typeof fetch;
}

export interface SubmitOptions extends JobRequest, WaitOptions {
  /** A second submission with the same key gets the first one's job. Made up when not given. */
  readonly idempotencyKey?: string;
}

export interface RequestOptions extends WaitOptions {
  /** Text, bytes, a stream or form data is sent as it is; anything else as JSON. */
  readonly body?: unknown;
  readonly query?: Readonly<Record<string, string | number | boolean>>;
  readonly headers?: Readonly<Record<string, string>>;
}

/** `Input` holds the function's arguments by name, `Output` is what it returns. */
export class Endpoint<Input extends object = Record<string, unknown>, Output = unknown> {
  readonly #platform: Platform;
  readonly #fetch: typeof fetch;
  readonly #client: EndpointClient;

  constructor({ url, apiKey, patienceMs = CLIENT_PATIENCE_MS, fetch: given }: EndpointOptions) {
    this.#platform = { url: url.replace(/\/+$/, ""), apiKey };
    this.#fetch = given ?? ((...args) => fetch(...args)); // A browser's fetch insists on being called as a function.
    this.#client = new EndpointClient(url, apiKey, patient(sendByFetch(this.#fetch), patienceMs));
  }

  /** Submits a job and resolves as soon as the platform has it. */
  async run(input: Input, options: SubmitOptions = {}): Promise<Job<Output>> {
    const record = await this.#client.run(input, submission(options));
    return new Job(this.#client, record.id, record);
  }

  /** Runs the function and resolves its output, however long it takes. Rejects as Job.wait. */
  async runsync(input: Input, options: SubmitOptions = {}): Promise<Output> {
    const record = await this.#client.runsync(input, { ...submission(options), waitMs: CLIENT_POLL_MS });
    return new Job<Output>(this.#client, record.id, record).wait(options);
  }

  /** A job that was submitted earlier or elsewhere. */
  job(id: string): Job<Output> {
    return new Job(this.#client, id);
  }

  status(id: string, options?: WaitOptions): Promise<JobRecord> {
    return this.job(id).refresh(options);
  }

  /** Resolves the job's state then: CANCELLED, or another when it was final already. */
  cancel(id: string, options?: WaitOptions) {
    return this.job(id).cancel(options);
  }

  /** What a generator yields, as it comes; see Job.stream. */
  stream<Chunk = unknown>(id: string, options?: WaitOptions): AsyncGenerator<Chunk, void, undefined> {
    return this.job(id).stream<Chunk>(options);
  }

  health(options?: WaitOptions): Promise<QueueHealth> {
    return this.#client.health(options);
  }

  /**
   * A request to a load-balanced endpoint; resolves with any status as soon as the headers are there. Rejects with
   * SvcError PLATFORM_UNREACHABLE, and BAD_INPUT for a path that leads out of the endpoint: what a caller puts into it from elsewhere
   * must not reach the rest of the platform with this key.
   */
  async request(method: string, path: string, options: RequestOptions = {}): Promise<Response> {
    const { signal } = options;
    const url = urlBelow(this.#platform.url, path);
    for (const [name, value] of Object.entries(options.query ?? {})) url.searchParams.append(name, String(value));
    const { body, type } = encoded(options.body);
    const duplex = body instanceof ReadableStream ? { duplex: "half" } : {};
    const headers = { ...type, ...options.headers, ...keyHeader(this.#platform) };
    try {
      return await this.#fetch(url, { method, headers, body, signal, ...duplex });
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      throw unreachable(this.#platform.url, error);
    }
  }

  /** The answer's JSON, or its text. Rejects with RequestError for any status but 2xx; so do the next four. */
  get<T = unknown>(path: string, options?: RequestOptions): Promise<T> {
    return this.#answer<T>("GET", path, options);
  }

  post<T = unknown>(path: string, body?: unknown, options?: RequestOptions): Promise<T> {
    return this.#answer<T>("POST", path, { ...options, body });
  }

  put<T = unknown>(path: string, body?: unknown, options?: RequestOptions): Promise<T> {
    return this.#answer<T>("PUT", path, { ...options, body });
  }

  patch<T = unknown>(path: string, body?: unknown, options?: RequestOptions): Promise<T> {
    return this.#answer<T>("PATCH", path, { ...options, body });
  }

  delete<T = unknown>(path: string, options?: RequestOptions): Promise<T> {
    return this.#answer<T>("DELETE", path, options);
  }

  /** The server-sent events of a route as they come. Rejects with RequestError for any status but 2xx. */
  async *events(method: string, path: string, options: RequestOptions = {}): AsyncGenerator<ServerSentEvent> {
    const headers = { accept: "text/event-stream", ...options.headers };
    const response = await this.request(method, path, { ...options, headers });
    if (!response.ok) throw await RequestError.of(response);
    yield* parseEvents(textOf(response.body));
  }

  async #answer<T>(method: string, path: string, options?: RequestOptions): Promise<T> {
    const response = await this.request(method, path, options);
    if (!response.ok) throw await RequestError.of(response);
    const text = await response.text();
    const isJson = response.headers.get("content-type")?.includes("json") ?? false;
    return (isJson && text !== "" ? JSON.parse(text) : text) as T;
  }
}

/** Throws BAD_INPUT. */
function urlBelow(base: string, path: string): URL {
  const url = new URL(base + (path.startsWith("/") ? path : `/${path}`));
  const own = new URL(base);
  const prefix = own.pathname.endsWith("/") ? own.pathname : `${own.pathname}/`;
  // Slashes may be encoded for us and plain for a proxy in between.
  const hidden = /(?:^|\/|%2f|%5c)(?:\.|%2e){2}(?:\/|%2f|%5c|$)/i.test(url.pathname);
  if (url.origin === own.origin && url.pathname.startsWith(prefix) && !hidden) return url;
  throw new SvcError("BAD_INPUT", `The path ${JSON.stringify(path.slice(0, 200))} leads out of the endpoint.`, {
    help: 'Encode what you put into it with encodeURIComponent, and leave out "..".',
  });
}

function submission({ signal, idempotencyKey, ...request }: SubmitOptions) {
  return { signal, request, idempotencyKey: idempotencyKey ?? randomKey() };
}

/** Not crypto.randomUUID: pages that were not loaded by https have none. */
function randomKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

const JSON_TYPE = { "content-type": "application/json" };

function encoded(body: unknown): { body?: BodyInit; type: Record<string, string> } {
  if (body === undefined) return { type: {} };
  const isRaw =
    typeof body === "string" ||
    body instanceof Uint8Array ||
    body instanceof ArrayBuffer ||
    body instanceof Blob ||
    body instanceof FormData ||
    body instanceof URLSearchParams ||
    body instanceof ReadableStream;
  return isRaw ? { body: body as BodyInit, type: {} } : { body: JSON.stringify(body), type: JSON_TYPE };
}
