/** One job of an endpoint, followed by long polls until it is final. */
import { isFinal, type JobState } from "../domain/job.ts";
import { CLIENT_POLL_MS, STREAM_HOLD_MAX_MS } from "../domain/limits.ts";
import type { EndpointClient, JobRecord } from "./gateway.ts";
import { outputOf } from "./job-error.ts";

export interface WaitOptions {
  /** Ends the waiting, not the job; e.g. AbortSignal.timeout(60_000). The promise rejects with its reason. */
  readonly signal?: AbortSignal;
}

export class Job<Output = unknown> {
  readonly id: string;
  readonly #client: EndpointClient;
  #record: JobRecord | undefined;

  constructor(client: EndpointClient, id: string, record?: JobRecord) {
    this.id = id;
    this.#client = client;
    this.#record = record;
  }

  /** The job as it was last seen; undefined for one that was never asked about. */
  get record(): JobRecord | undefined {
    return this.#record;
  }

  /** Asks the platform for the job's state, times, output and error. */
  async refresh(options: WaitOptions = {}): Promise<JobRecord> {
    return this.#saw(await this.#client.status(this.id, options));
  }

  async status(options: WaitOptions = {}): Promise<JobState> {
    return (await this.refresh(options)).status;
  }

  /**
   * The output as soon as the job is COMPLETED. Rejects with JobFailedError, JobTimedOutError, JobCancelledError; with
   * SvcError JOB_NOT_FOUND when its result is not kept any more, and PLATFORM_UNREACHABLE.
   */
  async wait({ signal }: WaitOptions = {}): Promise<Output> {
    let record = this.#record;
    while (record === undefined || !isFinal(record.status)) {
      record = this.#saw(await this.#client.statusSync(this.id, { waitMs: CLIENT_POLL_MS, signal }));
    }
    return outputOf(record) as Output;
  }

  /**
   * What a generator yields, as it comes, each item once, also over lost connections. Ends with the job; rejects as
   * `wait` does when the job does not complete.
   */
  async *stream<Chunk = unknown>({ signal }: WaitOptions = {}): AsyncGenerator<Chunk, void, undefined> {
    for (let after = 0; ; ) {
      const { status, stream, last } = await this.#client.chunks(this.id, after, {
        waitMs: STREAM_HOLD_MAX_MS,
        signal,
      });
      for (const { output } of stream) yield output as Chunk;
      if (isFinal(status)) break;
      after = last ?? after;
    }
    await this.wait({ signal });
  }

  /** Resolves the state it has then: CANCELLED, or another when it was final already. */
  async cancel(options: WaitOptions = {}): Promise<JobState> {
    return (await this.#client.cancel(this.id, options)).status;
  }

  /** A FAILED or TIMED_OUT job goes back into the queue, with its id and input. */
  async retry(options: WaitOptions = {}): Promise<void> {
    this.#saw(await this.#client.retry(this.id, options));
  }

  #saw(record: JobRecord): JobRecord {
    this.#record = record;
    return record;
  }
}
