/**
 * Makes the workers that run equal to what the autoscaler decided and the store says: prepares images, starts and
 * stops workers through the driver, and cleans up after those that ended. Rows come first: a worker that runs without
 * a row is an orphan and is stopped, a row without a worker is deleted.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as delay, setImmediate } from "node:timers/promises";
import { newSecret } from "../domain/api-key.ts";
import { SvcError } from "../domain/errors.ts";
import { CANCEL_GRACE_MS, CAPACITY_RETRY_MS, WORKER_DRAIN_GRACE_MS } from "../domain/limits.ts";
import {
  type EndpointHealth,
  isInitializing,
  type ScalingDecision,
  type WorkerCounts,
  type WorkerStart,
  type WorkerView,
} from "../domain/worker.ts";
import type { WorkerDriver, WorkerExit } from "../drivers/worker-driver.ts";
import type { Endpoint, Store, Worker } from "../store/store.ts";
import type { BootRecord } from "./boot-record.ts";
import { DecisionLog } from "./decision-log.ts";
import type { Images } from "./images.ts";

const STOP_POLL_MS = 20;

interface Decision {
  readonly start: number;
  readonly stop: readonly string[];
  readonly reason: string;
}

interface WorkerPoolDeps {
  readonly store: Store;
  readonly endpoints: { find(id: string): Endpoint | undefined | Promise<Endpoint | undefined> };
  readonly driver: WorkerDriver;
  readonly images: Images;
  readonly boots: BootRecord;
  /** The variables of a worker, with the values of its secrets. */
  readonly envOf: (endpoint: Endpoint) => Promise<Readonly<Record<string, string>>>;
  readonly link: {
    drain(workerId: string, graceMs: number): void;
    isConnected(workerId: string): boolean;
    workerExited(workerId: string, reason: string): Promise<void>;
    failWaiting(endpointId: string, error: SvcError): void;
    sample(endpointId: string): { workers: readonly { ready: boolean; busy: boolean }[] };
  };
  /** The autoscaler should look at the endpoint again. */
  readonly wake: (endpointId: string) => void;
  readonly clock: () => number;
  readonly log: (line: string) => void;
}

export class WorkerPool implements WorkerView {
  readonly #deps: WorkerPoolDeps;
  /** Endpoints the machine has no room for: the reason, and when to try again. */
  readonly #noRoom = new Map<string, { reason: string; retryAt: number }>();
  /** Revision last seen of each endpoint; a new one must show that it starts. */
  readonly #revisions = new Map<string, string>();
  readonly #unproven = new Set<string>();
  readonly #decisions = new DecisionLog();

  constructor(deps: WorkerPoolDeps) {
    this.#deps = deps;
    deps.driver.onExit((exit) => void this.#exited(exit));
  }

  /** After a start of the platform: workers that survived are kept, rows of those that did not are cleaned up. */
  async recover(): Promise<void> {
    for (const endpoint of await this.#deps.store.endpoints.list()) this.#revisions.set(endpoint.id, endpoint.revision);
    await this.reconcile();
  }

  /** Orphans and ghosts; idempotent. */
  async reconcile(): Promise<void> {
    const { driver, store, link } = this.#deps;
    const alive = new Set(await driver.list());
    const rows = await store.workers.list();
    const known = new Set(rows.map((row) => row.id));
    for (const row of rows) {
      if (alive.has(row.id)) continue;
      await link.workerExited(row.id, "it did not survive");
      await store.workers.delete(row.id);
      this.#deps.wake(row.endpointId);
    }
    for (const id of alive) if (!known.has(id) && !this.#starting.has(id)) await driver.stop(id, 0);
  }

  /** How each worker was started, from its driver; lost when the platform restarts. */
  readonly #starts = new Map<string, WorkerStart>();

  /** The driver started it. */
  workerStarted(workerId: string, start: WorkerStart): void {
    this.#starts.set(workerId, start);
  }

  startOf(workerId: string): WorkerStart | undefined {
    return this.#starts.get(workerId);
  }

  /** Workers whose row is being written. */
  readonly #starting = new Set<string>();

  endpointChanged(endpoint: Endpoint): void {
    const before = this.#revisions.get(endpoint.id);
    this.#noRoom.delete(endpoint.id);
    if (before === endpoint.revision) return;
    this.#revisions.set(endpoint.id, endpoint.revision);
    if (before !== undefined) void this.#deps.driver.retire(endpoint.id, before);
    if (endpoint.buildId !== null) this.#unproven.add(endpoint.revision);
  }

  endpointRemoved(endpointId: string): void {
    const revision = this.#revisions.get(endpointId);
    this.#revisions.delete(endpointId);
    this.#noRoom.delete(endpointId);
    this.#decisions.forget(endpointId);
    if (revision !== undefined) void this.#deps.driver.retire(endpointId, revision);
    void this.reconcile();
  }

  mustProve(endpoint: Endpoint): boolean {
    return this.#unproven.has(endpoint.revision);
  }

  /** Whether a worker could start now; sets the preparation going when it is needed. */
  mayStart(endpoint: Endpoint): boolean {
    if (endpoint.buildId === null) return false;
    const { images, boots, clock } = this.#deps;
    if (!images.isPrepared(endpoint)) {
      images.prepare(endpoint);
      return false;
    }
    const noRoom = this.#noRoom.get(endpoint.id);
    return boots.mayStart(endpoint.revision) && (noRoom === undefined || clock() >= noRoom.retryAt);
  }

  /** Why workers were started and stopped, oldest first. */
  decisions(endpointId: string): readonly ScalingDecision[] {
    return this.#decisions.of(endpointId);
  }

  async apply(endpoint: Endpoint, decision: Decision): Promise<void> {
    const { start, stop, reason } = decision;
    this.#decisions.note(endpoint.id, { at: this.#deps.clock(), start, stop: stop.length, reason });
    if (start > 0) this.#noRoom.delete(endpoint.id);
    await Promise.all(Array.from({ length: start }, () => this.#start(endpoint)));
    for (const id of stop) await this.stop(id, reason);
    if (reason !== "") {
      this.#deps.log(`${endpoint.name}: +${start} -${stop.length} workers (${reason})`);
    }
  }

  /** Lets the worker finish what it has, then ends it. */
  async stop(workerId: string, reason: string): Promise<void> {
    const { store, driver, link } = this.#deps;
    await store.workers.update(workerId, { state: "DRAINING", reason });
    if (!link.isConnected(workerId)) return driver.stop(workerId, CANCEL_GRACE_MS);
    link.drain(workerId, WORKER_DRAIN_GRACE_MS);
    setTimeout(() => void driver.stop(workerId, CANCEL_GRACE_MS), WORKER_DRAIN_GRACE_MS).unref();
  }

  async kill(workerId: string, reason: string): Promise<void> {
    await this.#deps.store.workers.update(workerId, { state: "DRAINING", reason });
    await this.#deps.driver.stop(workerId, 0);
  }

  /** Drains every worker and resolves when none is left, the grace is over, or `hurry` aborts. */
  async stopAll(graceMs: number, hurry: AbortSignal): Promise<void> {
    const { driver, clock, store } = this.#deps;
    for (const row of await store.workers.list()) if (graceMs > 0) await this.stop(row.id, "the platform stops");
    const end = clock() + graceMs;
    while (clock() < end && !hurry.aborted && (await driver.list()).length > 0) await delay(STOP_POLL_MS);
  }

  async workerReady(worker: Worker): Promise<void> {
    const { store, boots, clock } = this.#deps;
    await setImmediate(); // The jobs that wait for this worker go first.
    boots.succeeded(worker.revision);
    this.#unproven.delete(worker.revision);
    this.#noRoom.delete(worker.endpointId);
    if (worker.state === "STARTING" || worker.state === "BOOTING") {
      await store.workers.update(worker.id, { state: "READY", readyAt: clock() });
    }
    this.#deps.wake(worker.endpointId);
  }

  async bootFailed(workerId: string, error: SvcError): Promise<void> {
    const { store, boots, link, driver } = this.#deps;
    const row = await store.workers.find(workerId);
    if (row === undefined || row.state === "FAILED") return;
    const reason = error.help ? `${error.message}\n${error.help}` : error.message;
    boots.failed(row.revision, reason);
    await store.workers.update(workerId, { state: "FAILED", reason });
    link.failWaiting(row.endpointId, error);
    await driver.stop(workerId, 0);
    this.#deps.wake(row.endpointId);
  }

  async counts(endpointId: string): Promise<WorkerCounts> {
    const rows = await this.#deps.store.workers.listByEndpoint(endpointId);
    const connected = this.#deps.link.sample(endpointId).workers.filter((worker) => worker.ready);
    const running = connected.filter((worker) => worker.busy).length;
    const endpoint = await this.#deps.endpoints.find(endpointId);
    return {
      idle: connected.length - running,
      initializing: rows.filter((row) => isInitializing(row.state)).length,
      ready: connected.length,
      running,
      throttled: this.#noRoom.has(endpointId) ? 1 : 0,
      unhealthy: endpoint !== undefined && this.#deps.boots.isUnhealthy(endpoint.revision) ? 1 : 0,
    };
  }

  async health(endpointId: string): Promise<EndpointHealth> {
    const endpoint = await this.#deps.endpoints.find(endpointId);
    const is = (state: EndpointHealth["state"], reason = "", progress: readonly string[] = []) => ({
      state,
      reason,
      progress,
    });
    if (endpoint === undefined || endpoint.workersMax === 0) return is("STOPPED");
    if (endpoint.buildId === null) return is("BLOCKED", "It has no code yet: deploy a build that declares it.");
    const { images, boots, store } = this.#deps;
    const image = images.state(endpoint);
    if (image.problem !== "") return is("BLOCKED", image.problem);
    if (!images.isPrepared(endpoint)) return is("PREPARING", "", image.progress);
    const bootReason = boots.reason(endpoint.revision);
    if (bootReason !== "") return is("BLOCKED", bootReason);
    const noRoom = this.#noRoom.get(endpointId);
    if (noRoom !== undefined) return is("READY", noRoom.reason);
    const rows = (await store.workers.listByEndpoint(endpointId)).filter((row) => row.state !== "FAILED");
    if (this.#unproven.has(endpoint.revision)) return is("PREPARING", "", ["starting the first worker"]);
    if (rows.some((row) => row.revision !== endpoint.revision && row.state !== "DRAINING")) {
      return is("PREPARING", "", ["replacing workers"]);
    }
    const ready = rows.filter((row) => row.state === "READY").length;
    if (ready < endpoint.workersMin)
      return is("PREPARING", "", [`${ready} of ${endpoint.workersMin} workers are ready`]);
    return is("READY");
  }

  /** The row is written while the worker comes up: it is there before the worker can say HELLO. */
  async #start(endpoint: Endpoint): Promise<void> {
    const { store, driver, images, clock } = this.#deps;
    const prepared = images.of(endpoint);
    if (prepared === undefined) return;
    const { secret, hash } = newSecret("worker");
    const workerId = `w-${randomUUID().slice(0, 13)}`;
    this.#starting.add(workerId);
    try {
      const env = await this.#deps.envOf(endpoint);
      const started = driver.start({
        workerId,
        token: secret,
        revision: endpoint.revision,
        image: prepared.image,
        environmentName: prepared.environmentName,
        kind: endpoint.kind,
        env,
        maxConcurrency: endpoint.maxConcurrency,
        instanceIds: endpoint.instanceIds,
        gpuIds: endpoint.gpuIds,
        gpuCount: endpoint.gpuCount,
      });
      started.catch(() => {}); // It is looked at below.
      await setImmediate(); // START leaves first.
      const written = store.workers.insert({
        id: workerId,
        endpointId: endpoint.id,
        buildId: prepared.image.buildId,
        revision: endpoint.revision,
        state: "STARTING",
        tokenHash: hash,
        createdAt: clock(),
        readyAt: null,
        reason: "",
      });
      const [row, start] = await Promise.allSettled([written, started]);
      if (row.status === "rejected") await driver.stop(workerId, 0);
      for (const result of [row, start]) if (result.status === "rejected") throw result.reason;
    } catch (error) {
      await store.workers.delete(workerId);
      if (!(error instanceof SvcError)) throw error;
      this.#noRoom.set(endpoint.id, { reason: reasonOf(error), retryAt: clock() + CAPACITY_RETRY_MS });
      this.#unproven.delete(endpoint.revision);
    } finally {
      this.#starting.delete(workerId);
    }
  }

  async #exited(exit: WorkerExit): Promise<void> {
    const { store, boots, link } = this.#deps;
    await link.workerExited(exit.workerId, exit.reason);
    const row = await store.workers.find(exit.workerId);
    if (row === undefined) return;
    if (isInitializing(row.state)) {
      const error = new SvcError("BOOT_FAILED", `A worker ${exit.reason} while it started.`);
      boots.failed(row.revision, error.message);
      link.failWaiting(row.endpointId, error);
    }
    await store.workers.delete(exit.workerId);
    this.#starts.delete(exit.workerId);
    this.#deps.log(`worker ${exit.workerId} ${exit.reason}`);
    this.#deps.wake(row.endpointId);
  }
}

function reasonOf(error: SvcError): string {
  return error.help ? `${error.message} ${error.help}` : error.message;
}
