/** The job routes of one queue-based endpoint, one method for each; how a request is sent is the caller's choice. */
import type { JobState } from "../domain/job.ts";
import type { WorkerCounts } from "../domain/worker.ts";
import { answerError, type Platform } from "./answer-error.ts";
import type { Send } from "./send.ts";

export interface JobRecord {
  readonly id: string;
  readonly status: JobState;
  /** Milliseconds in the queue. */
  readonly delayTime?: number;
  /** Milliseconds of the function. */
  readonly executionTime?: number;
  readonly workerId?: string;
  readonly output?: unknown;
  readonly error?: string;
  /** How often it was handed out again after a worker was lost. */
  readonly retries?: number;
  /** Attempts begun, when the first one failed and the endpoint has retries. */
  readonly attempts?: number;
  /** While it waits for its next attempt: milliseconds since the epoch. */
  readonly nextAttemptAt?: number;
  /** Milliseconds since the epoch; in lists, and where the input was asked for. */
  readonly createdAt?: number;
  /** Only where it was asked for, and in lists up to 64 KiB. */
  readonly input?: unknown;
  /** In lists that were asked for such jobs: input, output and error are not kept any more. */
  readonly expired?: true;
}

export interface JobPage {
  readonly requests: readonly JobRecord[];
  /** `before` of the next page. */
  readonly next?: string;
  /** How long final jobs are kept; a platform of an earlier version does not say. */
  readonly keptMs?: Readonly<Record<"run" | "runsync" | "runsyncWait" | "failed", number>> & {
    /** After that: what is known of the job without input, output and error. */
    readonly record?: number;
  };
}

export interface QueueHealth {
  readonly jobs: Readonly<Record<"completed" | "failed" | "inProgress" | "inQueue" | "retried", number>>;
  readonly workers: WorkerCounts;
}

/** The body of /run and /runsync beside the input (docs/reference/job-api.md). */
export interface JobRequest {
  /** Which method of a class endpoint. */
  readonly method?: string;
  readonly webhook?: string;
  /** Milliseconds. */
  readonly policy?: { readonly executionTimeout?: number; readonly ttl?: number; readonly lowPriority?: boolean };
}

interface CallOptions {
  /** How long the platform holds the answer, in ms. */
  readonly waitMs?: number;
  readonly signal?: AbortSignal;
}

interface SubmitOptions extends CallOptions {
  readonly request?: JobRequest;
  /** A second submission with the same key answers the first one's job. */
  readonly idempotencyKey?: string;
}

/** Chunks of a generator, and where to go on: give it as `after`. */
export interface Chunks {
  readonly status: JobState;
  readonly stream: readonly { readonly output: unknown }[];
  readonly last?: number;
}

export class EndpointClient {
  readonly #platform: Platform;
  readonly #send: Send;

  /** `url` is the endpoint's base URL as deploys print it. */
  constructor(url: string, apiKey: string | undefined, send: Send) {
    this.#platform = { url: url.replace(/\/+$/, ""), apiKey };
    this.#send = send;
  }

  /** Submits a job and returns at once. */
  run(input: object, options: SubmitOptions = {}): Promise<JobRecord> {
    return this.#submit("/run", input, options);
  }

  /** Submits a job and waits for it; the job object may be non-final when `waitMs` ran out. */
  runsync(input: object, options: SubmitOptions = {}): Promise<JobRecord> {
    return this.#submit("/runsync", input, options);
  }

  status(jobId: string, options: CallOptions = {}): Promise<JobRecord> {
    return this.#call<JobRecord>("GET", route("status", jobId), options);
  }

  /** The job with its input. */
  inspect(jobId: string, options: CallOptions = {}): Promise<JobRecord> {
    return this.#call<JobRecord>("GET", `${route("status", jobId)}?input=true`, options);
  }

  /** The endpoint's jobs, newest first: at most 100 a page. */
  jobs(
    query: { status?: JobState; limit: number; before?: string; id?: string; expired?: boolean },
    options: CallOptions = {},
  ): Promise<JobPage> {
    const parameters = new URLSearchParams({ limit: String(query.limit) });
    if (query.status !== undefined) parameters.set("status", query.status);
    if (query.before !== undefined) parameters.set("before", query.before);
    if (query.id !== undefined) parameters.set("id", query.id);
    if (query.expired) parameters.set("expired", "true");
    return this.#call<JobPage>("GET", `/requests?${parameters}`, options);
  }

  /** Puts a failed or timed-out job back in the queue. */
  retry(jobId: string, options: CallOptions = {}): Promise<JobRecord> {
    return this.#call<JobRecord>("POST", route("retry", jobId), options);
  }

  /** Waits for the job; see runsync. */
  statusSync(jobId: string, options: CallOptions = {}): Promise<JobRecord> {
    return this.#call<JobRecord>("GET", `${route("status-sync", jobId)}${query({ wait: options.waitMs })}`, options);
  }

  /** The chunks behind `after` (0: all of them); held until there is one or the job is final. */
  chunks(jobId: string, after: number, options: CallOptions = {}): Promise<Chunks> {
    const parameters = query({ after, wait: options.waitMs });
    return this.#call<Chunks>("GET", `${route("stream", jobId)}${parameters}`, options);
  }

  cancel(jobId: string, options: CallOptions = {}): Promise<JobRecord> {
    return this.#call<JobRecord>("POST", route("cancel", jobId), options);
  }

  health(options: CallOptions = {}): Promise<QueueHealth> {
    return this.#call<QueueHealth>("GET", "/health", options);
  }

  #submit(path: string, input: object, options: SubmitOptions): Promise<JobRecord> {
    const { request = {}, idempotencyKey, waitMs } = options;
    const headers: Record<string, string> = { "content-type": "application/json" };
    if (idempotencyKey !== undefined) headers["idempotency-key"] = idempotencyKey;
    const body = JSON.stringify({ ...request, input });
    return this.#call<JobRecord>("POST", `${path}${query({ wait: waitMs })}`, options, { headers, body });
  }

  async #call<T>(
    method: string,
    path: string,
    { waitMs = 0, signal }: CallOptions,
    { headers, body }: { headers?: Record<string, string>; body?: string } = {},
  ): Promise<T> {
    const { url } = this.#platform;
    const init = { method, headers, body, signal, heldMs: waitMs };
    const { status, text } = await this.#send(this.#platform, url + path, init);
    if (status === 200) return JSON.parse(text) as T;
    throw answerError(url, status, text);
  }
}

function route(name: string, jobId: string): string {
  return `/${name}/${encodeURIComponent(jobId)}`;
}

function query(parameters: Readonly<Record<string, number | undefined>>): string {
  const given = Object.entries(parameters).filter(([, value]) => value !== undefined);
  return given.length === 0 ? "" : `?${given.map(([name, value]) => `${name}=${value}`).join("&")}`;
}
