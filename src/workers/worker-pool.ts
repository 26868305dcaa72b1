/**
 * Makes the workers that run equal to what the autoscaler decided and the store says: prepares images, starts and stops workers through the
 * driver, and cleans up after those that ended (worker-rows.ts).
 */
import { setImmediate } from "node:timers/promises";
import { SvcError } from "../domain/errors.ts";
import { CANCEL_GRACE_MS, WORKER_DRAIN_GRACE_MS } from "../domain/limits.ts";
import { isLiveName } from "../domain/names.ts";
import type { IsMine } from "../domain/own-endpoints.ts";
import { isRemoved } from "../domain/removal.ts";
import { unlessFull } from "../domain/storage.ts";
import {
  type Decision,
  type EndpointHealth,
  type EndpointSample,
  isActive,
  isInitializing,
  type ScalingDecision,
  type WorkerCounts,
  type WorkerStart,
  type WorkerView,
} from "../domain/worker.ts";
import type { WorkerExit } from "../drivers/worker-driver.ts";
import type { BriefEndpoint, Endpoint, Store, Worker } from "../store/store.ts";
import { type BootRecord, inWords, ofWorker, RefusedStarts } from "./boot-record.ts";
import type { BrokenCode } from "./broken-code.ts";
import type { DecisionLog } from "./decision-log.ts";
import { endpointHealth, workerCounts } from "./endpoint-health.ts";
import type { Images } from "./images.ts";
import { LiveEndpoints } from "./live-endpoints.ts";
import { Room, type RoomWish } from "./room.ts";
import { newWorkerId, type StartDeps, startWorker } from "./start-worker.ts";
import { Unproven } from "./unproven.ts";
import { ownRows, reconcileRows, untilEnded } from "./worker-rows.ts";
import type { WorkersAhead } from "./workers-ahead.ts";

interface WorkerPoolDeps extends StartDeps {
  readonly store: Store;
  readonly endpoints: { find(id: string): Endpoint | undefined | Promise<Endpoint | undefined> };
  readonly isMine: IsMine;
  /** Of those: it is given to another platform, and nothing is started for it any more. */
  readonly isLeaving: IsMine;
  readonly images: Images;
  readonly ahead?: Pick<WorkersAhead, "has" | "giveUp"> | undefined;
  readonly boots: BootRecord;
  readonly decisions: DecisionLog;
  readonly link: StartDeps["link"] & {
    drain(workerId: string, graceMs: number): void;
    isConnected(workerId: string): boolean;
    workerExited(workerId: string, reason: string, cause?: WorkerExit["cause"]): Promise<void>;
    switchOver(endpointId: string, revision: string): void;
    sample(endpointId: string): Pick<EndpointSample, "workers">;
  };
  /** Who waits for code that cannot start is told why. */
  readonly broken: Pick<BrokenCode, "tell">;
  /** Whether a worker of another endpoint waits for an answer of this one. */
  readonly peersWait: (endpointId: string) => boolean;
  /** The autoscaler should look at the endpoint again. */
  readonly wake: (endpointId: string) => void;
  /** A worker of the endpoint is no more. */
  readonly workerEnded: (endpointId: string) => void;
  /** For durations: no clock that is set moves it. Milliseconds. */
  readonly now: () => number;
  readonly log: (line: string) => void;
  readonly onError: (error: unknown) => void;
}

export class WorkerPool implements WorkerView {
  readonly #deps: WorkerPoolDeps;
  readonly #refused: RefusedStarts;
  readonly #room: Room;
  /** Revision last seen of each endpoint; a new one must show that it starts. */
  readonly #revisions = new Map<string, string>();
  readonly #unproven = new Unproven();
  readonly #live: LiveEndpoints;
  readonly #failing = new Map<string, Promise<void>>();
  #isRecovered = false;

  constructor(deps: WorkerPoolDeps) {
    this.#deps = deps;
    this.#refused = new RefusedStarts(deps.now);
    this.#live = new LiveEndpoints(deps);
    deps.driver.onExit((exit) => this.#inBackground(this.#exited(exit)));
    this.#room = new Room({
      ...deps,
      capacity: () => deps.driver.capacity(),
      workers: () => this.#rows(),
      starting: this.#starting,
      gpuPreference: (endpoint) => deps.images.of(endpoint)?.gpuPreference ?? [],
      sample: (endpointId) => deps.link.sample(endpointId),
      mayStart: (endpoint) => this.mayStart(endpoint),
      start: async (endpoint, why, host) => {
        const lack = await this.#start(endpoint, false, host);
        if (lack === undefined) this.#noteDecision(endpoint, 1, 0, why);
        else if (this.isRefused(endpoint.id)) deps.wake(endpoint.id);
        return lack;
      },
      take: async (workerId, endpointId, why) => {
        await this.stop(workerId, why, false);
        const endpoint = await deps.endpoints.find(endpointId);
        if (endpoint !== undefined) this.#noteDecision(endpoint, 0, 1, why);
      },
      waits: (endpointId, reason) => deps.decisions.note(endpointId, { at: deps.clock(), start: 0, stop: 0, reason }),
    });
  }

  /** After a start of the platform, or when endpoints became this one's: workers that survived are kept, rows of those that did not are cleaned up. */
  async recover(): Promise<void> {
    const { store, isMine } = this.#deps;
    const unproven = new Set((await store.builds.listUnproven()).map(({ id }) => id));
    const endpoints = await store.endpoints.listBriefly();
    for (const { id, revision } of endpoints) this.#revisions.set(id, revision);
    const mustProve = ({ id, buildId, name }: BriefEndpoint) =>
      isMine(id) && unproven.has(buildId ?? "") && !isLiveName(name);
    await this.#prove(endpoints.filter(mustProve), () => store.workers.list());
    this.#isRecovered = true;
    await this.reconcile();
  }

  /** Orphans and ghosts; idempotent. While the driver cannot tell who runs, nobody is given up. */
  async reconcile(): Promise<void> {
    const { store, link, ahead, workerEnded } = this.#deps;
    const gone = async ({ id, endpointId }: Worker) => {
      await link.workerExited(id, "it did not survive");
      await store.workers.delete(id);
      workerEnded(endpointId);
    };
    const isStarting = (id: string) => this.#starting.has(id) || ahead?.has(id) === true;
    if (await reconcileRows({ ...this.#deps, isStarting, gone })) this.#room.look();
  }

  readonly #rows = () => ownRows(this.#deps);

  /** The driver can start workers and knows which run, perhaps after it could not. */
  driverAvailable(): void {
    for (const id of this.#refused.endPause()) this.#deps.wake(id);
    if (this.#isRecovered) this.#inBackground(this.reconcile());
  }

  /** What is not waited for: a fault is told, and what it left is found by the next `reconcile`. */
  #inBackground(work: Promise<unknown>): void {
    work.catch(this.#deps.onError);
  }

  /** How each worker was started, from its driver; lost when the platform restarts. */
  readonly #starts = new Map<string, WorkerStart>();

  workerStarted(workerId: string, start: WorkerStart): void {
    this.#starts.set(workerId, start);
  }
  readonly startOf = (workerId: string): WorkerStart | undefined => this.#starts.get(workerId);

  /** Workers whose row is being written. */
  readonly #starting = new Map<string, Endpoint>();

  endpointChanged(endpoint: Endpoint): void {
    const before = this.#revisions.get(endpoint.id);
    this.#refused.forget(endpoint.id);
    if (before === endpoint.revision) {
      this.#deps.boots.forget(endpoint); // Somebody looked after it, and may have corrected what kept it from starting.
      this.#deps.images.tryAgain(endpoint);
      return;
    }
    this.#revisions.set(endpoint.id, endpoint.revision);
    if (before !== undefined) this.#retire(endpoint.id, before);
    if (!this.#deps.isMine(endpoint.id)) return;
    if (!isRemoved(endpoint)) this.#deps.images.prepare(endpoint);
    if (isLiveName(endpoint.name)) this.#live.changed(endpoint);
    else if (endpoint.buildId !== null)
      this.#inBackground(this.#prove([endpoint], () => this.#deps.store.workers.listByEndpoint(endpoint.id)));
  }

  async #prove(...which: Parameters<Unproven["add"]>): Promise<void> {
    for (const { id } of await this.#unproven.add(...which)) this.#deps.wake(id);
  }

  endpointRemoved(endpointId: string): void {
    const revision = this.#revisions.get(endpointId);
    this.#revisions.delete(endpointId);
    this.#refused.forget(endpointId);
    this.#room.forget(endpointId);
    this.#deps.decisions.forget(endpointId);
    if (revision !== undefined) this.#retire(endpointId, revision);
    this.#inBackground(this.reconcile());
  }

  /** No worker of this revision is started any more: nothing about it is kept. */
  #retire(endpointId: string, revision: string): void {
    this.#inBackground(this.#deps.driver.retire(endpointId, revision));
    this.#deps.boots.forget({ id: endpointId, revision });
    this.#unproven.delete({ id: endpointId, revision });
    this.#live.settled(endpointId, revision);
  }

  mustProve(endpoint: Pick<Endpoint, "id" | "revision">): boolean {
    return this.#unproven.has(endpoint) || this.#live.warms(endpoint);
  }

  /** Its last start was refused, for another reason than room. */
  readonly isRefused = (endpointId: string): boolean => this.#refused.of(endpointId) !== undefined;

  /** Whether a worker could start now; sets the preparation going when it is needed. */
  mayStart(endpoint: Endpoint): boolean {
    const { images, boots, isMine, isLeaving } = this.#deps;
    if (isRemoved(endpoint) || !isMine(endpoint.id) || isLeaving(endpoint.id)) return false;
    if (!images.isPrepared(endpoint)) {
      images.prepare(endpoint);
      return false;
    }
    if (!isLiveName(endpoint.name) && !boots.mayStart(endpoint)) return false;
    return this.#refused.mayTry(endpoint.id);
  }

  /** Why workers were started and stopped, oldest first. */
  decisions(endpointId: string): readonly ScalingDecision[] {
    return this.#deps.decisions.of(endpointId);
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
    const { store, peersWait } = this.#deps;
    const has = async () => (await store.workers.listByEndpoint(endpoint.id)).some(({ state }) => isActive(state));
    // Workers of other endpoints sit and wait for this one: where it has none it must get one, room or not.
    const beyond = peersWait(endpoint.id) && !(await has()) ? 1 : 0;
    const atOnce = this.#room.isContended ? beyond : decision.start;
    const lacks = await Promise.all(Array.from({ length: atOnce }, (_, i) => this.#start(endpoint, i < beyond)));
    const started = lacks.filter((lack) => lack === undefined).length;
    if (started < decision.start && this.#refused.of(endpoint.id) === undefined) {
      this.#room.want(endpoint.id, { ...decision, start: decision.start - started }, lacks.find(Boolean));
    }
    return started;
  }

  #noteDecision(endpoint: Endpoint, start: number, stop: number, reason: string): void {
    this.#deps.decisions.note(endpoint.id, { at: this.#deps.clock(), start, stop, reason });
    this.#deps.log(`${endpoint.name}: +${start} -${stop} workers (${reason})`);
  }

  /** Endpoints for whose workers the machine has no room. */
  get waitingForRoom(): readonly RoomWish[] {
    return this.#room.queue;
  }

  get room(): Pick<Room, "isContended" | "side" | "give"> {
    return this.#room;
  }

  /** A worker has nothing to do: others may need its room. */
  workerIdle(): void {
    this.#room.workerIdle();
  }

  /** Lets the worker finish what it has, then ends it: without `hurry` however long that takes. */
  async stop(workerId: string, reason: string, hurry = true): Promise<void> {
    const { driver, link } = this.#deps;
    await this.#note(workerId, "DRAINING", reason);
    if (!link.isConnected(workerId)) return driver.stop(workerId, CANCEL_GRACE_MS);
    link.drain(workerId, WORKER_DRAIN_GRACE_MS);
    if (hurry)
      setTimeout(() => this.#inBackground(driver.stop(workerId, CANCEL_GRACE_MS)), WORKER_DRAIN_GRACE_MS).unref();
  }

  async kill(workerId: string, reason: string): Promise<void> {
    await this.#note(workerId, "DRAINING", reason).then(() => this.#deps.driver.stop(workerId, 0));
  }

  /** A worker goes also when the disk is too full to say so. */
  #note(id: string, state: "DRAINING" | "FAILED", reason: string): Promise<unknown> {
    return this.#deps.store.workers.update(id, { state, reason }).catch(unlessFull);
  }

  /** Drains every worker and resolves when none is left, the grace is over, or `hurry` aborts. */
  async stopAll(graceMs: number, hurry: AbortSignal): Promise<void> {
    this.#room.close();
    const rows = await this.#rows();
    for (const { id } of graceMs > 0 ? rows : []) await this.stop(id, "the platform stops");
    await untilEnded(this.#deps, graceMs, hurry, rows);
  }

  /** Workers of these endpoints get nothing more, and end when they have finished what they have. Resolves whose they are. */
  async drain(isMeant: IsMine): Promise<readonly string[]> {
    const rows = (await this.#rows()).filter(({ endpointId }) => isMeant(endpointId));
    await Promise.all(rows.map(({ id }) => this.stop(id, "another platform gets its endpoint")));
    return [...new Set(rows.map(({ endpointId }) => endpointId))];
  }

  async workerReady(worker: Worker): Promise<void> {
    const { store, boots, clock } = this.#deps;
    await setImmediate(); // The jobs that wait for this worker go first.
    if (this.#isKnown(worker)) boots.forget(ofWorker(worker));
    this.#unproven.delete(ofWorker(worker));
    this.#live.settled(worker.endpointId, worker.revision);
    this.#refused.forget(worker.endpointId);
    const isNew = isInitializing(worker.state);
    if (isNew) await store.workers.update(worker.id, { state: "READY", readyAt: clock() });
    this.#deps.wake(worker.endpointId);
  }

  /** Why it failed is being looked up: its exit waits for that. */
  bootFailing(workerId: string, told: Promise<void>): void {
    const known = told.catch(() => {}).finally(() => this.#failing.delete(workerId));
    this.#failing.set(workerId, known);
  }

  async bootFailed(workerId: string, error: SvcError): Promise<void> {
    const { store, boots, broken, driver } = this.#deps;
    const row = await store.workers.find(workerId);
    if (row === undefined || row.state === "FAILED") return;
    const reason = error.help ? `${error.message}\n${error.help}` : error.message;
    if (this.#isKnown(row)) boots.failed(ofWorker(row), reason);
    await this.#note(workerId, "FAILED", reason);
    this.#live.settled(row.endpointId, row.revision);
    await broken.tell(row, error);
    await driver.stop(workerId, 0);
    this.#deps.wake(row.endpointId);
  }

  async counts(endpointId: string): Promise<WorkerCounts> {
    const rows = await this.#deps.store.workers.listByEndpoint(endpointId);
    const connected = this.#deps.link.sample(endpointId).workers.filter((worker) => worker.ready);
    const endpoint = await this.#deps.endpoints.find(endpointId);
    return workerCounts(rows, connected, {
      throttled: this.#room.missing(endpointId) || (this.#refused.of(endpointId) === undefined ? 0 : 1),
      unhealthy: endpoint !== undefined && this.#deps.boots.isUnhealthy(endpoint) ? 1 : 0,
    });
  }

  async health(endpointId: string): Promise<EndpointHealth> {
    const endpoint = await this.#deps.endpoints.find(endpointId);
    const workers = await this.#deps.store.workers.listByEndpoint(endpointId);
    const { images, boots } = this.#deps;
    return endpointHealth(endpoint, (found) => ({
      image: images.state(found),
      isPrepared: images.isPrepared(found),
      bootProblem: boots.reason(found),
      isProven: !this.#unproven.has(found),
      waits: this.#refused.of(endpointId) ?? this.#room.waits(endpointId),
      workers,
    }));
  }

  /** Resolves why it was refused, undefined when it was not. */
  async #start(endpoint: Endpoint, beyondCapacity: boolean, onHost?: string): Promise<string | undefined> {
    const prepared = this.#deps.images.of(endpoint);
    if (prepared === undefined) return "It is being prepared.";
    const workerId = newWorkerId();
    this.#starting.set(workerId, endpoint);
    try {
      await startWorker(this.#deps, workerId, endpoint, prepared, { beyondCapacity, onHost });
      this.#refused.forget(endpoint.id);
      return undefined;
    } catch (error) {
      if (!(error instanceof SvcError)) throw error;
      if (error.code === "IMAGE_MISSING") this.#deps.images.forget(endpoint);
      if (error.code !== "NO_CAPACITY") this.#refused.note(endpoint.id, error);
      return inWords(error);
    } finally {
      this.#starting.delete(workerId);
    }
  }

  async #exited({ workerId, reason, cause }: WorkerExit): Promise<void> {
    const { store, link } = this.#deps;
    await this.#failing.get(workerId);
    await link.workerExited(workerId, reason, cause);
    this.#starts.delete(workerId);
    const row = await store.workers.find(workerId);
    if (row === undefined) return this.#room.look();
    if (isInitializing(row.state)) await this.#endedAtBoot(row, reason, cause);
    await store.workers.delete(workerId);
    this.#deps.log(`worker ${workerId} ${reason}`);
    this.#deps.workerEnded(row.endpointId);
    this.#room.look();
  }

  /** How it fares is of interest: no newer revision has replaced its own. */
  #isKnown({ endpointId, revision }: Worker): boolean {
    return (this.#revisions.get(endpointId) ?? revision) === revision;
  }

  async #endedAtBoot(row: Worker, reason: string, cause: WorkerExit["cause"]): Promise<void> {
    const paused = () => new SvcError("STARTS_PAUSED", `No worker could be started: ${reason}.`);
    if (cause !== undefined) return this.#refused.note(row.endpointId, paused());
    const error = new SvcError("BOOT_FAILED", `A worker ${reason} while it started.`);
    if (this.#isKnown(row)) this.#deps.boots.failed(ofWorker(row), error.message);
    this.#live.settled(row.endpointId, row.revision);
    await this.#deps.broken.tell(row, error);
  }
}
