/**
 * Makes the workers that run equal to what the autoscaler decided and the store says: prepares images, starts and
 * stops workers through the driver, and cleans up after those that ended. Rows come first: a worker that runs without
 * a row is an orphan and is stopped, a row without a worker is deleted.
 */
import { randomUUID } from "node:crypto";
import { setTimeout as delay, setImmediate } from "node:timers/promises";
import { newSecret } from "../domain/api-key.ts";
import { SvcError } from "../domain/errors.ts";
import { CANCEL_GRACE_MS, START_RETRY_MS, WORKER_DRAIN_GRACE_MS } from "../domain/limits.ts";
import { isLiveName } from "../domain/names.ts";
import {
  type EndpointHealth,
  type EndpointSample,
  isActive,
  isInitializing,
  type ScalingDecision,
  type WorkerBoot,
  type WorkerCounts,
  type WorkerStart,
  type WorkerView,
} from "../domain/worker.ts";
import type { WorkerDriver, WorkerExit } from "../drivers/worker-driver.ts";
import type { Endpoint, Store, Worker } from "../store/store.ts";
import type { BootRecord } from "./boot-record.ts";
import { DecisionLog } from "./decision-log.ts";
import { endpointHealth } from "./endpoint-health.ts";
import type { Images } from "./images.ts";
import { LiveEndpoints } from "./live-endpoints.ts";
import { Room } from "./room.ts";

const STOP_POLL_MS = 20;

interface Decision {
  readonly start: number;
  readonly desired: number;
  readonly urgent: boolean;
  readonly stop: readonly string[];
  readonly drain: readonly string[];
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
    failWaiting(worker: Worker, error: SvcError): Promise<void>;
    switchOver(endpointId: string, revision: string): void;
    bootOf(workerId: string): WorkerBoot | undefined;
    sample(endpointId: string): Pick<EndpointSample, "workers">;
  };
  /** Jobs that wait get this as their answer. */
  readonly failJobs: (endpointId: string, workerId: string, error: SvcError) => Promise<void>;
  /** Whether a worker of another endpoint waits for an answer of this one. */
  readonly peersWait: (endpointId: string) => boolean;
  /** The autoscaler should look at the endpoint again. */
  readonly wake: (endpointId: string) => void;
  readonly clock: () => number;
  readonly log: (line: string) => void;
  readonly onError: (error: unknown) => void;
}

export class WorkerPool implements WorkerView {
  readonly #deps: WorkerPoolDeps;
  /** Endpoints whose start was refused for another reason than room: that, and when to try again. */
  readonly #refused = new Map<string, { reason: string; retryAt: number }>();
  readonly #room: Room;
  /** Revision last seen of each endpoint; a new one must show that it starts. */
  readonly #revisions = new Map<string, string>();
  readonly #unproven = new Set<string>();
  readonly #decisions = new DecisionLog();
  readonly #live: LiveEndpoints;
  readonly #failing = new Map<string, Promise<void>>();

  constructor(deps: WorkerPoolDeps) {
    this.#deps = deps;
    this.#live = new LiveEndpoints(deps);
    deps.driver.onExit((exit) => void this.#exited(exit));
    this.#room = new Room({
      capacity: () => deps.driver.capacity(),
      endpoints: deps.endpoints,
      workers: () => deps.store.workers.list(),
      starting: this.#starting,
      gpuPreference: (endpoint) => deps.images.of(endpoint)?.gpuPreference ?? [],
      sample: (endpointId) => deps.link.sample(endpointId),
      mayStart: (endpoint) => this.mayStart(endpoint),
      peersWait: (endpointId) => deps.peersWait(endpointId),
      start: async (endpoint, why) => {
        if ((await this.#start(endpoint, false)) === undefined) this.#noteDecision(endpoint, 1, 0, why);
      },
      take: async (workerId, endpointId, why) => {
        await this.stop(workerId, why, false);
        const endpoint = await deps.endpoints.find(endpointId);
        if (endpoint !== undefined) this.#noteDecision(endpoint, 0, 1, why);
      },
      waits: (endpointId, reason) => this.#decisions.note(endpointId, { at: deps.clock(), start: 0, stop: 0, reason }),
      clock: deps.clock,
      onError: deps.onError,
    });
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
    this.#room.look();
  }

  /** How each worker was started, from its driver; lost when the platform restarts. */
  readonly #starts = new Map<string, WorkerStart>();

  /** The driver started it. */
  workerStarted(workerId: string, start: WorkerStart): void {
    this.#starts.set(workerId, start);
  }

  bootOf(workerId: string): WorkerBoot | undefined {
    return this.#deps.link.bootOf(workerId);
  }

  startOf(workerId: string): WorkerStart | undefined {
    return this.#starts.get(workerId);
  }

  /** Workers whose row is being written. */
  readonly #starting = new Map<string, Endpoint>();

  endpointChanged(endpoint: Endpoint): void {
    const before = this.#revisions.get(endpoint.id);
    this.#refused.delete(endpoint.id);
    if (before === endpoint.revision) return;
    this.#revisions.set(endpoint.id, endpoint.revision);
    if (before !== undefined) void this.#deps.driver.retire(endpoint.id, before);
    if (isLiveName(endpoint.name)) this.#live.changed(endpoint);
    else if (endpoint.buildId !== null) this.#unproven.add(endpoint.revision);
  }

  endpointRemoved(endpointId: string): void {
    const revision = this.#revisions.get(endpointId);
    this.#revisions.delete(endpointId);
    this.#refused.delete(endpointId);
    this.#room.forget(endpointId);
    this.#decisions.forget(endpointId);
    if (revision !== undefined) void this.#deps.driver.retire(endpointId, revision);
    void this.reconcile();
  }

  mustProve(endpoint: Endpoint): boolean {
    return this.#unproven.has(endpoint.revision) || this.#live.warms(endpoint.revision);
  }

  /** Whether a worker could start now; sets the preparation going when it is needed. */
  mayStart(endpoint: Endpoint): boolean {
    if (endpoint.buildId === null) return false;
    const { images, boots, clock } = this.#deps;
    if (!images.isPrepared(endpoint)) {
      images.prepare(endpoint);
      return false;
    }
    if (!isLiveName(endpoint.name) && !boots.mayStart(endpoint.revision)) return false;
    return clock() >= (this.#refused.get(endpoint.id)?.retryAt ?? 0);
  }

  /** Why workers were started and stopped, oldest first. */
  decisions(endpointId: string): readonly ScalingDecision[] {
    return this.#decisions.of(endpointId);
  }

  async apply(endpoint: Endpoint, decision: Decision): Promise<void> {
    const { start, stop, drain, reason } = decision;
    const started = start > 0 ? await this.#startSome(endpoint, decision) : 0;
    if (start === 0) this.#room.forget(endpoint.id);
    for (const id of stop) await this.stop(id, reason);
    for (const id of drain) await this.stop(id, reason, false);
    const stopped = stop.length + drain.length;
    if (started + stopped > 0) this.#noteDecision(endpoint, started, stopped, reason);
  }

  /** At once when there is room and nobody waits for it; else it waits for its turn. Resolves how many started. */
  async #startSome(endpoint: Endpoint, decision: Decision): Promise<number> {
    const beyond = (await this.#isNeededByPeers(endpoint.id)) ? 1 : 0;
    const atOnce = this.#room.isContended ? beyond : decision.start;
    const lacks = await Promise.all(Array.from({ length: atOnce }, (_, i) => this.#start(endpoint, i < beyond)));
    const started = lacks.filter((lack) => lack === undefined).length;
    if (started < decision.start && !this.#refused.has(endpoint.id)) {
      this.#room.want(endpoint.id, { ...decision, start: decision.start - started }, lacks.find(Boolean));
    }
    return started;
  }

  #noteDecision(endpoint: Endpoint, start: number, stop: number, reason: string): void {
    this.#decisions.note(endpoint.id, { at: this.#deps.clock(), start, stop, reason });
    this.#deps.log(`${endpoint.name}: +${start} -${stop} workers (${reason})`);
  }

  /** A worker has nothing to do: others may need its room. */
  workerIdle(): void {
    this.#room.workerIdle();
  }

  /** Workers of other endpoints sit and wait for this one, which has none: room or not, it must get one. */
  async #isNeededByPeers(endpointId: string): Promise<boolean> {
    if (!this.#deps.peersWait(endpointId)) return false;
    const rows = await this.#deps.store.workers.listByEndpoint(endpointId);
    return !rows.some((row) => isActive(row.state));
  }

  /** Lets the worker finish what it has, then ends it: without `hurry` however long that takes. */
  async stop(workerId: string, reason: string, hurry = true): Promise<void> {
    const { store, driver, link } = this.#deps;
    await store.workers.update(workerId, { state: "DRAINING", reason });
    if (!link.isConnected(workerId)) return driver.stop(workerId, CANCEL_GRACE_MS);
    link.drain(workerId, WORKER_DRAIN_GRACE_MS);
    if (hurry) setTimeout(() => void driver.stop(workerId, CANCEL_GRACE_MS), WORKER_DRAIN_GRACE_MS).unref();
  }

  async kill(workerId: string, reason: string): Promise<void> {
    await this.#deps.store.workers.update(workerId, { state: "DRAINING", reason });
    await this.#deps.driver.stop(workerId, 0);
  }

  /** Drains every worker and resolves when none is left, the grace is over, or `hurry` aborts. */
  async stopAll(graceMs: number, hurry: AbortSignal): Promise<void> {
    const { driver, clock, store } = this.#deps;
    this.#room.close();
    for (const row of await store.workers.list()) if (graceMs > 0) await this.stop(row.id, "the platform stops");
    const end = clock() + graceMs;
    while (clock() < end && !hurry.aborted && (await driver.list()).length > 0) await delay(STOP_POLL_MS);
  }

  async workerReady(worker: Worker): Promise<void> {
    const { store, boots, clock } = this.#deps;
    await setImmediate(); // The jobs that wait for this worker go first.
    boots.succeeded(worker.revision);
    this.#unproven.delete(worker.revision);
    this.#live.settled(worker.revision);
    this.#refused.delete(worker.endpointId);
    if (worker.state === "STARTING" || worker.state === "BOOTING") {
      await store.workers.update(worker.id, { state: "READY", readyAt: clock() });
    }
    this.#deps.wake(worker.endpointId);
  }

  /** Why it failed is being looked up: its exit waits for that. */
  bootFailing(workerId: string, told: Promise<void>): void {
    this.#failing.set(
      workerId,
      told.catch(() => {}).finally(() => this.#failing.delete(workerId)),
    );
  }

  async bootFailed(workerId: string, error: SvcError): Promise<void> {
    const { store, boots, link, driver } = this.#deps;
    const row = await store.workers.find(workerId);
    if (row === undefined || row.state === "FAILED") return;
    const reason = error.help ? `${error.message}\n${error.help}` : error.message;
    boots.failed(row.revision, reason);
    await store.workers.update(workerId, { state: "FAILED", reason });
    await link.failWaiting(row, error);
    await driver.stop(workerId, 0);
    await this.#live.bootFailed(row, error);
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
      throttled: this.#room.missing(endpointId),
      unhealthy: endpoint !== undefined && this.#deps.boots.isUnhealthy(endpoint.revision) ? 1 : 0,
    };
  }

  async health(endpointId: string): Promise<EndpointHealth> {
    const endpoint = await this.#deps.endpoints.find(endpointId);
    const workers = await this.#deps.store.workers.listByEndpoint(endpointId);
    const { images, boots } = this.#deps;
    const refused = this.#refused.get(endpointId)?.reason;
    return endpointHealth(endpoint, (found) => ({
      image: images.state(found),
      isPrepared: images.isPrepared(found),
      bootProblem: boots.reason(found.revision),
      isProven: !this.#unproven.has(found.revision),
      waits: refused === undefined ? this.#room.waits(endpointId) : { reason: refused, lasting: true },
      workers,
    }));
  }

  /**
   * The row is written while the worker comes up: it is there before the worker can say HELLO. Resolves why it was
   * refused, undefined when it was not.
   */
  async #start(endpoint: Endpoint, beyondCapacity: boolean): Promise<string | undefined> {
    const { store, driver, images, clock } = this.#deps;
    const prepared = images.of(endpoint);
    if (prepared === undefined) return "It is being prepared.";
    const { secret, hash } = newSecret("worker");
    const workerId = `w-${randomUUID().slice(0, 13)}`;
    this.#starting.set(workerId, endpoint);
    try {
      const env = await this.#deps.envOf(endpoint);
      const started = driver.start({
        workerId,
        token: secret,
        revision: endpoint.revision,
        image: prepared.image,
        appName: prepared.appName,
        environmentName: prepared.environmentName,
        kind: endpoint.kind,
        env,
        maxConcurrency: endpoint.maxConcurrency,
        instanceIds: endpoint.instanceIds,
        gpuIds: endpoint.gpuIds,
        gpuPreference: prepared.gpuPreference,
        gpuCount: endpoint.gpuCount,
        beyondCapacity,
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
      this.#refused.delete(endpoint.id);
      return undefined;
    } catch (error) {
      await store.workers.delete(workerId);
      if (!(error instanceof SvcError)) throw error;
      const reason = reasonOf(error);
      if (error.code !== "NO_CAPACITY") this.#refused.set(endpoint.id, { reason, retryAt: clock() + START_RETRY_MS });
      return reason;
    } finally {
      this.#starting.delete(workerId);
    }
  }

  async #exited(exit: WorkerExit): Promise<void> {
    const { store, boots, link } = this.#deps;
    await this.#failing.get(exit.workerId);
    await link.workerExited(exit.workerId, exit.reason);
    const row = await store.workers.find(exit.workerId);
    if (row === undefined) return this.#room.look();
    if (isInitializing(row.state)) {
      const error = new SvcError("BOOT_FAILED", `A worker ${exit.reason} while it started.`);
      boots.failed(row.revision, error.message);
      await link.failWaiting(row, error);
      await this.#live.bootFailed(row, error);
    }
    await store.workers.delete(exit.workerId);
    this.#starts.delete(exit.workerId);
    this.#deps.log(`worker ${exit.workerId} ${exit.reason}`);
    this.#deps.wake(row.endpointId);
    this.#room.look();
  }
}

function reasonOf(error: SvcError): string {
  return error.help ? `${error.message} ${error.help}` : error.message;
}
