/** The owner's jobs, as its gateways see them. */
import { GATEWAY_BOOTS_MAX, GATEWAY_OUTPUT_MAX_BYTES } from "../domain/limits.ts";
import type { WorkerBoot } from "../domain/worker.ts";
import type { CallerJobs, ChunksThere, Job, NewJob } from "../queue/queue.ts";
import { type JobValue, jobOf, jobParts } from "./job-values.ts";
import type { Answered, OwnerLink } from "./owner-link.ts";
import { cutParts } from "./protocol.ts";

interface MaybeJob {
  readonly job?: JobValue;
}

/** With a question that waits: whoever asks looks for larger outputs when there is room for them. */
const SMALL = { outputMaxBytes: GATEWAY_OUTPUT_MAX_BYTES };

export class OwnerJobs implements CallerJobs {
  readonly #link: OwnerLink;
  /** Of workers that were started for a job. */
  readonly #boots = new Map<string, WorkerBoot>();

  constructor(link: OwnerLink) {
    this.#link = link;
  }

  bootOf(workerId: string): WorkerBoot | undefined {
    return this.#boots.get(workerId);
  }

  async enqueue({ input, isInputOwn: _, ...job }: NewJob): Promise<{ readonly id: string; readonly created: boolean }> {
    return (await this.#link.ask<{ id: string; created: boolean }>("enqueue", { job }, [input])).value;
  }

  async call({ input, isInputOwn: _, ...job }: NewJob, timeoutMs: number, signal: AbortSignal) {
    const answered = await this.#link.ask<MaybeJob & { created: boolean }>(
      "call",
      { job, timeoutMs, ...SMALL },
      [input],
      signal,
    );
    return { created: answered.value.created, job: this.#job(answered) };
  }

  async wait(id: string, timeoutMs: number, signal?: AbortSignal): Promise<Job | undefined> {
    return this.#job(await this.#link.ask("wait", { id, timeoutMs, ...SMALL }, undefined, signal));
  }

  async find(id: string, outputMaxBytes?: number): Promise<Job | undefined> {
    return this.#job(await this.#link.ask("find", { id, outputMaxBytes }));
  }

  async findExpired(id: string): Promise<Job | undefined> {
    return this.#job(await this.#link.ask("findExpired", { id }));
  }

  async cancel(id: string): Promise<Job | undefined> {
    return this.#job(await this.#link.ask("cancel", { id }));
  }

  async retry(id: string): Promise<boolean> {
    return (await this.#link.ask<{ retried: boolean }>("retry", { id })).value.retried;
  }

  async purge(endpointId: string): Promise<number> {
    return (await this.#link.ask<{ removed: number }>("purge", { endpointId })).value.removed;
  }

  async input(id: string, maxBytes?: number): Promise<Uint8Array | undefined> {
    const { value, body } = await this.#link.ask<{ found: boolean }>("input", { id, maxBytes });
    return value.found ? body : undefined;
  }

  async counts(endpointId: string) {
    type Counts = Awaited<ReturnType<CallerJobs["counts"]>>;
    return (await this.#link.ask<Counts>("counts", { endpointId })).value;
  }

  /** Outputs above what is shown inline are null. */
  async list(endpointId: string, options: Parameters<CallerJobs["list"]>[1]): Promise<Job[]> {
    const { value, body } = await this.#link.ask<{ jobs: JobValue[] }>("list", { endpointId, options });
    const lengths = value.jobs.map(jobParts);
    const bodies = cutParts(
      body,
      lengths.map(([output, error]) => output + error),
    );
    return value.jobs.map((job, index) => jobOf(job, bodies[index]!));
  }

  async takeChunks(id: string, holdMs: number, signal?: AbortSignal, chunkMaxBytes?: number) {
    return chunks<Taken & { readonly run: number }>(
      await this.#link.ask("takeChunks", { id, holdMs, chunkMaxBytes }, undefined, signal),
    );
  }

  async readChunks(id: string, after: number, holdMs: number, signal?: AbortSignal, chunkMaxBytes?: number) {
    return chunks<Taken & { readonly numbers: number[] }>(
      await this.#link.ask("readChunks", { id, after, holdMs, chunkMaxBytes }, undefined, signal),
    );
  }

  #job({ value: { job }, body }: Answered<MaybeJob>): Job | undefined {
    if (job === undefined) return undefined;
    if (job.boot !== undefined) this.#noteBoot(job.workerId, job.boot);
    return jobOf(job, body);
  }

  #noteBoot(workerId: string, boot: WorkerBoot): void {
    this.#boots.set(workerId, boot);
    if (this.#boots.size > GATEWAY_BOOTS_MAX) this.#boots.delete(this.#boots.keys().next().value!);
  }
}

type Taken = Omit<ChunksThere, "chunks">;

/** Undefined: no such job. */
function chunks<T extends Taken>({
  value,
  body,
}: Answered<{ readonly taken?: T; readonly lengths?: readonly number[] }>): (T & { chunks: Uint8Array[] }) | undefined {
  const { taken, lengths = [] } = value;
  return taken && { ...taken, chunks: cutParts(body, lengths) };
}
