/**
 * The loop around `decide`: one look per endpoint when something happens (a job waits, a worker is ready or gone, an
 * endpoint changes) and once a second for those that have workers or work. Looks at one endpoint never overlap.
 */
import { setTimeout as delay } from "node:timers/promises";
import { AUTOSCALER_PAUSE_MS, AUTOSCALER_READS_AT_ONCE, AUTOSCALER_TICK_MS } from "../domain/limits.ts";
import { isLiveName } from "../domain/names.ts";
import type { IsMine } from "../domain/own-endpoints.ts";
import { type Decision, type EndpointSample, isActive } from "../domain/worker.ts";
import { getOrInsert } from "../lib/get-or-insert.ts";
import { Turns } from "../lib/turns.ts";
import type { JobReader, JobUpkeep } from "../queue/queue.ts";
import type { Endpoint, Store, Worker } from "../store/store.ts";
import { decide } from "./decide.ts";
import { LoadAverage } from "./load-average.ts";
import type { Sample, SampledWorker } from "./sample.ts";

interface AutoscalerDeps {
  readonly store: Store;
  readonly endpoints: { find(id: string): Endpoint | undefined | Promise<Endpoint | undefined> };
  readonly isMine: IsMine;
  /** Workers that were started before the endpoint came are its own when this resolves. Undefined: there is none. */
  readonly adopt?: ((endpointId: string) => Promise<unknown> | undefined) | undefined;
  readonly queue: Pick<JobReader, "counts"> & Pick<JobUpkeep, "endpointIds">;
  readonly sampleLink: (endpointId: string) => EndpointSample;
  /** Workers may not be started now (boot back-off, still being prepared). */
  readonly mayStart: (endpoint: Endpoint) => boolean;
  readonly mustProve: (endpoint: Pick<Endpoint, "id" | "revision">) => boolean;
  /** Its start was refused, and is tried again after a while. */
  readonly isRefused: (endpointId: string) => boolean;
  readonly apply: (endpoint: Endpoint, decision: Decision) => Promise<void>;
  /** The time of day, as jobs have it. */
  readonly clock: () => number;
  /** For durations: no clock that is set moves it. */
  readonly now: () => number;
  readonly onError: (error: unknown) => void;
}

export class Autoscaler {
  readonly #deps: AutoscalerDeps;
  readonly #looking = new Map<string, "once" | "again">();
  /** Endpoints that have workers or work: looked at every tick. */
  readonly #awake = new Set<string>();
  readonly #loads = new Map<string, Readonly<Record<"normal" | "lowPriority", LoadAverage>>>();
  /** Thousands may be woken together: those who wait for the store behind all of these would be refused. */
  readonly #reads = new Turns(AUTOSCALER_READS_AT_ONCE);
  #timer: NodeJS.Timeout | undefined;
  #isStopped = false;

  constructor(deps: AutoscalerDeps) {
    this.#deps = deps;
  }

  /** Endpoints that have workers or work, or are to have workers. */
  get awake(): ReadonlySet<string> {
    return this.#awake;
  }

  /** Looks at endpoints that have or want workers, or work. There may be thousands of others, which nobody calls: their first call is their first look. */
  async start(): Promise<void> {
    await this.lookAtAll();
    this.#timer = setInterval(() => {
      for (const id of this.#awake) this.wake(id);
    }, AUTOSCALER_TICK_MS);
  }

  /** Also when endpoints became this platform's. */
  async lookAtAll(): Promise<void> {
    const { store, isMine, queue, mustProve } = this.#deps;
    const [endpoints, workers] = await Promise.all([store.endpoints.listBriefly(), store.workers.list()]);
    const busy = new Set(workers.map(({ endpointId }) => endpointId));
    for (const id of await queue.endpointIds()) if ((await queue.counts(id)).inQueue > 0) busy.add(id);
    for (const endpoint of endpoints) {
      const wants = endpoint.workersMin > 0 || busy.has(endpoint.id) || mustProve(endpoint);
      if (wants && isMine(endpoint.id)) this.wake(endpoint.id);
    }
  }

  /** Nothing is started or stopped from then on, whoever wakes it: workers that end while the platform does want no others. */
  stop(): void {
    this.#isStopped = true;
    clearInterval(this.#timer);
    this.#timer = undefined;
    this.#awake.clear();
  }

  /**
   * Looks at the endpoint soon; while a look runs, one more follows it. From zero that is at once; an endpoint that has
   * workers is looked at as often as its load can change, not with every job that finds them busy.
   */
  wake(endpointId: string): void {
    if (this.#isStopped) return;
    const state = this.#looking.get(endpointId);
    if (state !== undefined) {
      this.#looking.set(endpointId, "again");
      return;
    }
    this.#lookUntilQuiet(endpointId).catch(this.#deps.onError);
  }

  async #lookUntilQuiet(endpointId: string): Promise<void> {
    do {
      this.#looking.set(endpointId, "once");
      const hasWorkers = await this.#look(endpointId).catch(this.#deps.onError);
      if (hasWorkers) await delay(AUTOSCALER_PAUSE_MS);
    } while (this.#looking.get(endpointId) === "again" && !this.#isStopped);
    this.#looking.delete(endpointId);
  }

  /** Resolves whether the endpoint has workers, ready or on their way. */
  async #look(endpointId: string): Promise<boolean> {
    const { store, endpoints, isMine, queue, mayStart, apply } = this.#deps;
    const endpoint = isMine(endpointId) ? await endpoints.find(endpointId) : undefined;
    if (endpoint === undefined) return this.#forget(endpointId);
    await this.#deps.adopt?.(endpointId);
    const rows = (await this.#reads.take(() => store.workers.listByEndpoint(endpointId))).filter((row) =>
      isActive(row.state),
    );
    const counts = await queue.counts(endpointId);
    const link = this.#deps.sampleLink(endpointId);
    const busy = counts.inQueue > 0 || link.waitingRequests > 0 || link.running > 0 || rows.length > 0;
    const mustProve = this.#deps.mustProve(endpoint);
    const isAwake = busy || endpoint.workersMin > 0 || (mustProve && this.#deps.isRefused(endpointId));
    if (isAwake) this.#awake.add(endpointId);
    else this.#awake.delete(endpointId);
    const runningLowPriority = Math.min(link.running, counts.inProgressLowPriority);
    const load = counts.inQueue - counts.inQueueLowPriority + link.waitingRequests + link.running - runningLowPriority;
    const fresh = () => ({ normal: new LoadAverage(), lowPriority: new LoadAverage() });
    const loads = getOrInsert(this.#loads, endpointId, fresh);
    const sample: Sample = {
      scalerType: endpoint.scalerType,
      scalerValue: endpoint.scalerValue,
      workersMin: endpoint.workersMin,
      workersMax: endpoint.workersMax,
      idleTimeoutMs: endpoint.idleTimeout * 1_000,
      maxConcurrency: endpoint.maxConcurrency,
      queued: counts.inQueue - counts.inQueueLowPriority,
      queuedLowPriority: counts.inQueueLowPriority,
      oldestWaitMs: counts.oldestQueuedAt === null ? 0 : Math.max(0, this.#deps.clock() - counts.oldestQueuedAt),
      waitingRequests: link.waitingRequests,
      running: link.running,
      runningLowPriority,
      averageExecMs: link.averageExecMs,
      averageLoad: loads.normal.observe(load, this.#deps.now()),
      averageLowPriority: loads.lowPriority.observe(runningLowPriority, this.#deps.now()),
      workers: sampledWorkers(endpoint, rows, link),
      mustProve,
      switchesAtOnce: isLiveName(endpoint.name),
    };
    if (!isAwake) this.#loads.delete(endpointId);
    if (this.#isStopped) return false;
    if (!isMine(endpointId)) return this.#forget(endpointId);
    const decision = decide(sample);
    const start = mayStart(endpoint) ? decision.start : 0;
    await apply(endpoint, { ...decision, start });
    // Those of earlier code do not count where new code takes over at once: its first worker must not wait.
    return rows.some((row) => row.revision === endpoint.revision || !isLiveName(endpoint.name));
  }

  #forget(endpointId: string): false {
    this.#awake.delete(endpointId);
    this.#loads.delete(endpointId);
    return false;
  }
}

function sampledWorkers(endpoint: Endpoint, rows: readonly Worker[], link: EndpointSample): SampledWorker[] {
  const connected = new Map(link.workers.map((worker) => [worker.id, worker]));
  return rows.map((row) => {
    const seen = connected.get(row.id);
    return {
      id: row.id,
      current: row.revision === endpoint.revision,
      ready: seen?.ready ?? false,
      busy: seen?.busy ?? false,
      idleMs: seen?.idleMs ?? 0,
    };
  });
}
