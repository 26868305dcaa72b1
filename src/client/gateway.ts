/** Calls of deployed endpoints: the job routes of a queue-based one, requests to a load-balanced one. */
import type { JobState } from "../domain/job.ts";
import type { WorkerCounts } from "../domain/worker.ts";
import { answerError, fetchText, keyError, type Platform } from "./request.ts";

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
  readonly retries?: number;
  /** Only where it was asked for, and in lists up to 64 KiB. */
  readonly input?: unknown;
}

export interface JobPage {
  readonly requests: readonly JobRecord[];
  /** `before` of the next page. */
  readonly next?: string;
}

export interface QueueHealth {
  readonly jobs: Readonly<Record<"completed" | "failed" | "inProgress" | "inQueue" | "retried", number>>;
  readonly workers: WorkerCounts;
}

interface CallOptions {
  /** How long the platform holds the answer, in ms. */
  readonly waitMs?: number;
  readonly signal?: AbortSignal;
}

/** The routes below one endpoint's base URL. */
export class EndpointClient {
  readonly #platform: Platform;

  /** `url` is the endpoint's base URL as deploys print it. */
  constructor(url: string, apiKey: string | undefined) {
    this.#platform = { url: url.replace(/\/+$/, ""), apiKey };
  }

  /** Submits a job and returns at once. */
  run(input: object, options: CallOptions = {}): Promise<JobRecord> {
    return this.#call<JobRecord>("POST", "/run", { input }, options);
  }

  /** Submits a job and waits for it; the job object may be non-final when `waitMs` ran out. */
  runsync(input: object, options: CallOptions = {}): Promise<JobRecord> {
    return this.#call<JobRecord>("POST", `/runsync${wait(options)}`, { input }, options);
  }

  status(jobId: string, options: CallOptions = {}): Promise<JobRecord> {
    return this.#call<JobRecord>("GET", `/status/${encodeURIComponent(jobId)}`, undefined, options);
  }

  /** The job with its input. */
  inspect(jobId: string, options: CallOptions = {}): Promise<JobRecord> {
    return this.#call<JobRecord>("GET", `/status/${encodeURIComponent(jobId)}?input=true`, undefined, options);
  }

  /** The endpoint's jobs, newest first: at most 100 a page. */
  jobs(query: { status?: JobState; limit: number; before?: string }, options: CallOptions = {}): Promise<JobPage> {
    const parameters = new URLSearchParams({ limit: String(query.limit) });
    if (query.status !== undefined) parameters.set("status", query.status);
    if (query.before !== undefined) parameters.set("before", query.before);
    return this.#call<JobPage>("GET", `/requests?${parameters}`, undefined, options);
  }

  /** Puts a failed or timed-out job back in the queue. */
  retry(jobId: string, options: CallOptions = {}): Promise<JobRecord> {
    return this.#call<JobRecord>("POST", `/retry/${encodeURIComponent(jobId)}`, undefined, options);
  }

  /** Waits for the job; see runsync. */
  statusSync(jobId: string, options: CallOptions = {}): Promise<JobRecord> {
    return this.#call<JobRecord>(
      "GET",
      `/status-sync/${encodeURIComponent(jobId)}${wait(options)}`,
      undefined,
      options,
    );
  }

  cancel(jobId: string, options: CallOptions = {}): Promise<JobRecord> {
    return this.#call<JobRecord>("POST", `/cancel/${encodeURIComponent(jobId)}`, undefined, options);
  }

  health(options: CallOptions = {}): Promise<QueueHealth> {
    return this.#call<QueueHealth>("GET", "/health", undefined, options);
  }

  /** A route of a load-balanced endpoint; any status is an answer. */
  async request(
    method: string,
    path: string,
    body?: unknown,
    options: CallOptions = {},
  ): Promise<{ readonly status: number; readonly text: string }> {
    return fetchText(this.#platform, this.#platform.url + path, {
      method,
      headers: body === undefined ? {} : { "content-type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
      signal: options.signal,
    });
  }

  async #call<T>(method: string, path: string, body: unknown, options: CallOptions): Promise<T> {
    const { status, text } = await this.request(method, path, body, options);
    if (status === 200) return JSON.parse(text) as T;
    if (status === 401) throw keyError(this.#platform);
    throw answerError(this.#platform.url, status, text);
  }
}

function wait(options: CallOptions): string {
  return options.waitMs === undefined ? "" : `?wait=${options.waitMs}`;
}
