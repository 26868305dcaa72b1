/**
 * The platform's end of workers that pull their jobs over HTTP (docs/reference/pull-workers.md). Leases and fences are those
 * of every claim: the worker's id in the path says whose claims it can touch.
 *
 *   job-take ──first──▶ ready ──▶ claims while it is held open ──▶ job-done ──▶ settled
 *   ping renews; upkeep ends, gives up and replaces; exit or silence ──▶ lost
 */
import { SvcError } from "../../domain/errors.ts";
import { WORKER_BOOT_TIMEOUT_MS } from "../../domain/limits.ts";
import { isLiveName } from "../../domain/names.ts";
import type { IsMine } from "../../domain/own-endpoints.ts";
import type { PullCaller, PullCalls, PulledInput } from "../../domain/pull.ts";
import type { EndpointSample, WorkerBoot } from "../../domain/worker.ts";
import { getOrInsert } from "../../lib/get-or-insert.ts";
import type { Own } from "../../lib/own.ts";
import type { JobProgress, JobReader, Queue } from "../../queue/queue.ts";
import type { Endpoint, Store, Worker } from "../../store/store.ts";
import { EndpointLoad } from "../endpoint-load.ts";
import type { LinkHooks } from "../link-hooks.ts";
import { PullWorker } from "./pull-worker.ts";
import { PulledJob } from "./pulled-job.ts";
import { readReport } from "./report.ts";

interface PullDeps {
  readonly store: Store;
  readonly endpoints: { find(id: string): Endpoint | undefined | Promise<Endpoint | undefined> };
  readonly queue: Queue & JobProgress & JobReader;
  readonly isMine: IsMine;
  readonly hooks: LinkHooks;
  readonly own: Own;
  /** Milliseconds of a monotonic clock. */
  readonly now: () => number;
  /** A question for jobs is held open so long. */
  readonly holdMs: number;
}

/** When its program was started; before that its image, interpreter or process came up. */
interface Start {
  readonly since: number;
  programAt?: number;
}

export class PullWorkers implements PullCalls {
  readonly #deps: PullDeps;
  readonly #workers = new Map<string, Promise<PullWorker | undefined>>();
  /** Those whose look-up is over. */
  readonly #known = new Map<string, PullWorker>();
  /** Started, and perhaps not heard of yet. */
  readonly #starts = new Map<string, Start>();
  readonly #loads = new Map<string, EndpointLoad>();
  /** They ask where no platform is any more, and are on their way out. */
  readonly #astray = new Set<string>();

  constructor(deps: PullDeps) {
    this.#deps = deps;
  }

  get #now(): number {
    return this.#deps.now();
  }

  /** A worker was started that will pull. */
  expect(workerId: string): Start {
    return getOrInsert(this.#starts, workerId, () => ({ since: this.#now }));
  }

  /** Its program runs from now on. */
  programStarted(workerId: string): void {
    this.expect(workerId).programAt ??= this.#now;
  }

  /** After a start of the platform: those that an earlier one started. */
  async recover(): Promise<void> {
    for (const row of await this.#deps.store.workers.list()) {
      if (!this.#deps.isMine(row.endpointId) || !(await this.#pulls(row))) continue;
      this.expect(row.id);
      if (row.state !== "STARTING") await this.#find(row.id);
    }
  }

  /** After a start of the platform at another address: a program asks where it was told to when it began. Call when workers can be stopped. */
  replaceAll(): void {
    for (const id of this.#starts.keys()) this.#astray.add(id);
    this.#endAstray();
  }

  #endAstray(): void {
    for (const id of this.#astray) this.#deps.hooks.workerStuck(id, "the platform has another address now");
  }

  /** That it ends is not its fault, nor its jobs'. */
  isAstray(workerId: string): boolean {
    return this.#astray.has(workerId);
  }

  async #pulls({ buildId, endpointId }: Worker): Promise<boolean> {
    const endpoint = await this.#deps.endpoints.find(endpointId);
    if (endpoint?.kind !== "queue") return false;
    if (buildId === "") return true;
    const build = await this.#deps.store.builds.find(buildId);
    return build?.manifest.resources[endpoint.name]?.server?.protocol === "pull";
  }

  has(workerId: string): boolean {
    return this.#known.has(workerId);
  }

  isReady(workerId: string): boolean {
    return this.#known.get(workerId)?.readyAt !== undefined;
  }

  /** It has asked for jobs, and was heard of lately. */
  isHeard(workerId: string): boolean {
    const found = this.#known.get(workerId);
    return found?.readyAt !== undefined && !found.isSilent(this.#now);
  }

  sample(endpointId: string): Omit<EndpointSample, "waitingRequests"> {
    const now = this.#now;
    let running = 0;
    const workers: EndpointSample["workers"][number][] = [];
    for (const each of this.#known.values()) {
      if (each.endpoint.id !== endpointId || each.readyAt === undefined) continue;
      running += each.running;
      const busy = each.running > 0;
      workers.push({ id: each.worker.id, ready: each.isReady, busy, idleMs: busy ? 0 : now - each.idleSince });
    }
    return { running, averageExecMs: this.#loads.get(endpointId)?.averageExecMs, workers };
  }

  /** Jobs that it has ended. */
  doneBy(workerId: string): number | undefined {
    return this.#known.get(workerId)?.done;
  }

  bootOf(workerId: string): WorkerBoot | undefined {
    const found = this.#known.get(workerId);
    if (found?.readyAt === undefined) return undefined;
    const { worker, createdAt, readyAt } = found;
    const programAt = Math.min(readyAt, this.#starts.get(workerId)?.programAt ?? createdAt);
    return { startedAt: worker.createdAt, bootMs: Math.max(0, programAt - createdAt), importMs: readyAt - programAt };
  }

  async take(caller: PullCaller, count: number, holdsNone: boolean): Promise<readonly PulledInput[]> {
    const worker = await this.#of(caller);
    if (worker.readyAt === undefined) this.#becameReady(worker);
    return worker.take(caller, count, holdsNone);
  }

  #becameReady(worker: PullWorker): void {
    worker.readyAt = worker.idleSince = this.#now;
    this.#deps.hooks.workerReady(worker.worker);
  }

  async stops(caller: PullCaller): Promise<readonly string[]> {
    return (await this.#of(caller)).stops(caller);
  }

  async ping(caller: PullCaller, jobIds: readonly string[]): Promise<void> {
    (await this.#of(caller)).ping(jobIds);
  }

  async unhealthy(caller: PullCaller, check: string, reason: string): Promise<void> {
    const worker = await this.#of(caller);
    const { hooks } = this.#deps;
    if (worker.readyAt !== undefined) hooks.workerStuck(caller.workerId, `it says that it is unhealthy: ${reason}`);
    else {
      const failure = { error_type: check || "unhealthy", error_message: reason, error_traceback: "" };
      hooks.bootFailed(caller.workerId, failure);
    }
  }

  async stream(caller: PullCaller, jobId: string, body: Buffer): Promise<void> {
    await (await this.#of(caller)).stream(caller, jobId, body);
  }

  async done(caller: PullCaller, jobId: string, body: Buffer): Promise<void> {
    const worker = await this.#of(caller);
    if (!worker.jobs.has(jobId)) return;
    const report = readReport(body);
    const stop = await worker.report(jobId, report);
    if (report.kind === "unreadable") throw new SvcError("BAD_INPUT", `The result cannot be read: ${report.why}.`);
    if (stop) this.#deps.hooks.workerLeaves(caller.workerId, "it asked to be stopped after its job");
  }

  async tooLarge(caller: PullCaller, jobId: string, maxBytes: number): Promise<void> {
    const why = `it has more than ${maxBytes} bytes`;
    await (await this.#of(caller)).report(jobId, { kind: "unreadable", why });
  }

  /** The caller's worker, which was just heard of. Throws FORBIDDEN. */
  async #of(caller: PullCaller): Promise<PullWorker> {
    const worker = this.#known.get(caller.workerId) ?? (await this.#find(caller.workerId));
    if (worker === undefined) throw new SvcError("FORBIDDEN", `The worker ${caller.workerId} pulls no jobs.`);
    worker.heard(caller);
    return worker;
  }

  /** Undefined: there is no such worker, or it is none that pulls. */
  async #find(workerId: string): Promise<PullWorker | undefined> {
    const found = getOrInsert(this.#workers, workerId, () => this.#open(workerId));
    try {
      const worker = await found;
      if (worker === undefined) this.#workers.delete(workerId);
      return worker;
    } catch (error) {
      this.#workers.delete(workerId);
      throw error;
    }
  }

  async #open(workerId: string): Promise<PullWorker | undefined> {
    const { store, endpoints, queue, own, hooks, now, holdMs } = this.#deps;
    const row = await store.workers.find(workerId);
    const endpoint = row && (await endpoints.find(row.endpointId));
    if (row === undefined || endpoint === undefined || !(await this.#pulls(row))) return undefined;
    const load = getOrInsert(this.#loads, endpoint.id, () => new EndpointLoad());
    const of = { workerId, endpointId: endpoint.id };
    const follow = (jobId: string, text: string) => hooks.log({ ...of, jobId, stream: "progress", text });
    const worker = new PullWorker(row, endpoint, {
      queue,
      own,
      load,
      now,
      holdMs,
      current: () => endpoints.find(endpoint.id),
      idle: () => hooks.workerIdle(),
      onProgress: isLiveName(endpoint.name) ? follow : undefined,
    });
    for (const claim of await queue.claimsOf(workerId)) {
      const job = await queue.find(claim.jobId, 0);
      if (job === undefined) continue;
      const ranMs = Math.max(0, Date.now() - (job.startedAt ?? Date.now()));
      worker.adopt(new PulledJob(claim, job.executionTimeoutMs, { startedAt: this.#now - ranMs, now: this.#now }));
    }
    this.#known.set(workerId, worker);
    return worker;
  }

  cancel(workerId: string, jobId: string): void {
    const worker = this.#known.get(workerId);
    const job = worker?.jobs.get(jobId);
    if (job !== undefined) worker!.end(job, "cancelled");
  }

  /** From now on only workers of `revision` get jobs. */
  switchOver(endpointId: string, revision: string): void {
    for (const { worker, endpoint } of this.#known.values()) {
      if (endpoint.id === endpointId && worker.revision !== revision) this.drain(worker.id);
    }
  }

  /** It gets no more jobs and is told to end when it has finished what it has. */
  drain(workerId: string): void {
    const found = this.#known.get(workerId);
    if (found === undefined) return;
    found.leave();
    this.#deps.hooks.workerEnds(workerId, found.endpoint.executionTimeoutMs);
  }

  exited(workerId: string, reason: string, cause?: "machine"): void {
    this.#starts.delete(workerId);
    this.#astray.delete(workerId);
    this.#workers.delete(workerId);
    const worker = this.#known.get(workerId);
    if (worker === undefined) return;
    this.#known.delete(workerId);
    worker.loseAll(reason, cause === "machine" ? "handed-back" : "lost");
    this.#deps.hooks.workerGone(workerId, worker.endpoint.id);
  }

  /** The platform ends its workers, which is not their fault. */
  handBackAll(reason: string): void {
    for (const worker of this.#known.values()) worker.loseAll(reason, "handed-back");
  }

  sweep(stoodStill: boolean): void {
    const now = this.#now;
    const { hooks } = this.#deps;
    this.#endAstray(); // Whoever was to end them may have been away.
    for (const worker of this.#known.values()) {
      if (stoodStill) worker.forgive();
      const problem = worker.sweep(now);
      if (problem !== undefined) hooks.workerStuck(worker.worker.id, problem);
    }
    for (const [id, { since }] of this.#starts) {
      if (now - since < WORKER_BOOT_TIMEOUT_MS || this.isReady(id)) continue;
      this.#starts.delete(id);
      hooks.workerStuck(id, "it has not asked for a job in time");
    }
  }

  async renewLeases(): Promise<void> {
    const claims = [...this.#known.values()].flatMap((worker) =>
      [...worker.jobs.values()].flatMap((job) => (job.runs && job.claim ? [{ worker, job, claim: job.claim }] : [])),
    );
    if (claims.length === 0) return;
    const invalid = new Set((await this.#deps.queue.renew(claims.map(({ claim }) => claim))).map(({ jobId }) => jobId));
    for (const { worker, job } of claims) if (invalid.has(job.id)) worker.end(job, "cancelled");
  }
}
