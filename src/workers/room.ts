/**
 * Endpoints for whose workers the machine has no room, and what is done about it: domain/fair-share.ts decides, this
 * applies. It looks when an endpoint begins to wait, when a worker goes idle, and when one has ended.
 *
 * Of machines that other platforms have workers on, too, those are told what this one's endpoints hold and want. Each decides for all, and
 * does what is about its own endpoints: it starts their workers, and has workers make room for them, its own and, asked for, the others'.
 */

import { type Machine, type Need, needOf, type Share } from "../domain/capacity.ts";
import { SvcError } from "../domain/errors.ts";
import { type Contender, canBeServed, type Move, shareRoom } from "../domain/fair-share.ts";
import { FAIR_IDLE_MS, RIVAL_IMAGES_MAX, RIVALS_WAIT_MS, START_RETRY_MS } from "../domain/limits.ts";
import { asIfMade, type Fleet, placeAmong, wishesOf } from "../domain/placement.ts";
import { NO_RIVALS, type Rival, type Rivals, type RoomSide, type RoomTake, withLacking } from "../domain/rivals.ts";
import { type EndpointSample, isActive } from "../domain/worker.ts";
import type { OtherPlatforms } from "../drivers/worker-driver.ts";
import { notBefore } from "../lib/not-before.ts";
import type { Endpoint, Worker } from "../store/store.ts";

type Capacity = Fleet & { readonly shares: ReadonlyMap<string, Share> };

export interface RoomDeps {
  readonly capacity: () => Promise<Capacity>;
  readonly endpoints: { find(id: string): Endpoint | undefined | Promise<Endpoint | undefined> };
  readonly workers: () => Promise<readonly Worker[]>;
  readonly driver?: { readonly others?: OtherPlatforms };
  /** Workers of endpoints that are not this platform's yet: they end when its own wait. */
  readonly ahead?: { giveUp(): void } | undefined;
  /** Workers that are being started and may have no row yet: their endpoint by their id. */
  readonly starting: ReadonlyMap<string, Endpoint>;
  readonly gpuPreference: (endpoint: Endpoint) => readonly string[];
  readonly sample: (endpointId: string) => Pick<EndpointSample, "workers">;
  readonly mayStart: (endpoint: Endpoint) => boolean;
  /** Whether a worker of another endpoint waits for an answer of this one. */
  readonly peersWait: (endpointId: string) => boolean;
  /**
   * `host`: the machine that has the room; absent: the platform's own, or any. Resolves why it could not be, undefined when it could: the room
   * of machines that others have workers on may be taken by then.
   */
  readonly start: (endpoint: Endpoint, why: string, host: string | undefined) => Promise<string | undefined>;
  /** It finishes what it has, then goes. */
  readonly take: (workerId: string, endpointId: string, why: string) => Promise<void>;
  readonly waits: (endpointId: string, why: string) => void;
  /** The time of day, as the rows of workers have it. */
  readonly clock: () => number;
  /** For durations: no clock that is set moves it. */
  readonly now: () => number;
  readonly onError: (error: unknown) => void;
}

/** An endpoint that waits for room. */
export interface RoomWish {
  readonly endpointId: string;
  /** Workers it waits for. */
  readonly missing: number;
  /** What they lack, in words. */
  readonly reason: string;
  /** What each of them needs; undefined before that was looked at. */
  readonly need: Need | undefined;
}

interface Waiting {
  /** How many workers of its present revision it is to have. */
  readonly desired: number;
  readonly urgent: boolean;
  readonly why: string;
  readonly since: number;
  reason: string;
  need: Need | undefined;
  /** 0 while the last of them are being started. */
  missing: number;
  /** It waits in vain: the machine lacks what it needs, or others are guaranteed all of it. */
  inVain: boolean;
}

/** Stands for workers of other platforms of which nothing is known. */
const OTHERS = "";
/** What is asked for where no machine is known: a part of its GPUs is found where the worker is placed. */
const NOWHERE = { vcpus: 1, memoryGb: 1, hardware: { vcpus: 1, memoryGb: 1 }, gpus: [], emulatesGpu: false };

export class Room {
  readonly #deps: RoomDeps;
  readonly #waiting = new Map<string, Waiting>();
  #closed = false;
  #looking = false;
  #looksSoon = false;
  #retryTimer: NodeJS.Timeout | undefined;
  #again = false;
  /** Of other platforms somebody does, until then. */
  #rivalsWaitUntil = Number.NEGATIVE_INFINITY;
  /** Whoever asks for workers gets them one after another. */
  #giving: Promise<unknown> = Promise.resolve();

  constructor(deps: RoomDeps) {
    this.#deps = deps;
  }

  /** Somebody waits: who wants to start must wait for its turn too. */
  get isContended(): boolean {
    if (this.#deps.now() < this.#rivalsWaitUntil) return true;
    return [...this.#waiting.values()].some((one) => one.missing > 0 && !one.inVain);
  }

  /** Why the endpoint waits, and whether no waiting will help; undefined when it does not wait. */
  waits(endpointId: string): { readonly reason: string; readonly lasting: boolean } | undefined {
    const waiting = this.#waiting.get(endpointId);
    if (waiting === undefined || waiting.missing <= 0) return undefined;
    return { reason: waiting.reason, lasting: waiting.inVain };
  }

  /** All that wait. */
  get queue(): readonly RoomWish[] {
    const all = [...this.#waiting].filter(([, { missing }]) => missing > 0);
    return all.map(([endpointId, { missing, reason, need }]) => ({ endpointId, missing, reason, need }));
  }

  /** Workers it waits for. */
  missing(endpointId: string): number {
    return this.#waiting.get(endpointId)?.missing ?? 0;
  }

  want(endpointId: string, wish: { desired: number; start: number; urgent: boolean; reason: string }, lack = ""): void {
    if (this.#closed) return;
    this.#deps.ahead?.giveUp();
    const before = this.#waiting.get(endpointId);
    this.#waiting.set(endpointId, {
      desired: wish.desired,
      urgent: wish.urgent,
      why: wish.reason,
      since: before?.since ?? this.#deps.now(),
      reason: lack || (before?.reason ?? "The machine is full, and others wait for it too."),
      need: before?.need,
      missing: wish.start,
      inVain: before?.inVain ?? false,
    });
    this.look();
  }

  forget(endpointId: string): void {
    if (this.#waiting.delete(endpointId)) this.look();
  }

  /** Nothing starts any more. */
  close(): void {
    this.#closed = true;
    this.#waiting.clear();
  }

  /** What other platforms are to know of this one's endpoints; `waits`: one of theirs does, so nobody starts without its turn. */
  async side(waits: boolean): Promise<RoomSide> {
    if (waits) this.#rivalsWait();
    const all = await this.#deps.workers();
    const { endpoints, rowsOf } = await this.#known(all);
    const contenders = [...endpoints.values()].map((one) => this.#rival(one, rowsOf(one.id), NOWHERE, () => true));
    return { contenders, leaving: all.flatMap(({ id, state }) => (isActive(state) ? [] : [id])) };
  }

  /** Another platform's endpoint waits for the room of this worker: it goes if it still may. Throws when it is not to. */
  give(asked: RoomTake): Promise<void> {
    const given = this.#giving.then(() => this.#give(asked));
    this.#giving = given.catch(() => {});
    return given;
  }

  async #give({ workerId, endpointId, idle, why }: RoomTake): Promise<void> {
    const { endpoints, workers, sample, take } = this.#deps;
    const endpoint = await endpoints.find(endpointId);
    const rows = (await workers()).filter((row) => row.endpointId === endpointId && isActive(row.state));
    if (endpoint === undefined || !rows.some(({ id }) => id === workerId)) throw stays("It is none that runs here.");
    if (rows.length <= endpoint.workersMin) throw stays("Its endpoint has no more than its minimum.");
    const isBusy = sample(endpointId).workers.find(({ id }) => id === workerId)?.busy;
    if (idle && isBusy) throw stays("It has something to do.");
    this.#rivalsWait();
    await take(workerId, endpointId, why);
  }

  #rivalsWait(): void {
    this.#rivalsWaitUntil = this.#deps.now() + RIVALS_WAIT_MS;
  }

  workerIdle(): void {
    if (this.#waiting.size === 0 || this.#looksSoon) return;
    this.#looksSoon = true;
    notBefore(FAIR_IDLE_MS, () => {
      this.#looksSoon = false;
      this.look();
    });
  }

  look(): void {
    this.#again = true;
    if (!this.#looking && this.#waiting.size > 0) this.#lookUntilQuiet().catch(this.#deps.onError);
  }

  async #lookUntilQuiet(): Promise<void> {
    this.#looking = true;
    while (this.#again && this.#waiting.size > 0) {
      this.#again = false;
      await this.#settle().catch(this.#deps.onError);
    }
    this.#looking = false;
  }

  async #settle(): Promise<void> {
    const { capacity, workers } = this.#deps;
    const [fleet, rivals] = await Promise.all([capacity(), this.#rivals()]);
    const machine = withLacking(fleet, rivals.lacking);
    const { contenders, leaving, endpoints } = await this.#contenders(machine, rivals, await workers());
    const moves = shareRoom(machine, contenders, leaving);
    const starts = moves.filter((move) => move.kind === "start");
    const waiting = new Map(this.#waiting);
    for (const contender of contenders) this.#note(machine, contender, starts, contenders);
    const idle = new Set(
      contenders.flatMap((one) => one.workers.flatMap(({ id, idleMs }) => (idleMs > 0 ? [id] : []))),
    );
    // Of endpoints of other platforms their own take care.
    for (const move of moves) {
      if (move.kind === "start" && endpoints.has(move.endpointId)) await this.#start(move, endpoints, waiting);
      else if (move.kind === "take" && endpoints.has(move.forEndpoint)) await this.#take(move, endpoints, idle);
    }
    for (const [id, one] of waiting) if (one.missing <= 0 && this.#waiting.get(id) === one) this.#waiting.delete(id);
  }

  /** What endpoints of other platforms hold and want. */
  async #rivals(): Promise<Rivals> {
    const { driver, endpoints } = this.#deps;
    if (driver?.others === undefined) return NO_RIVALS;
    const images: string[] = [];
    for (const id of [...this.#waiting.keys()].slice(0, RIVAL_IMAGES_MAX)) {
      const endpoint = await endpoints.find(id);
      const image = endpoint && wishesOf(endpoint).of?.image;
      if (image !== undefined) images.push(image);
    }
    const waits = [...this.#waiting.values()].some((one) => one.need !== undefined && one.missing > 0 && !one.inVain);
    return driver.others.rivals({ images, waits });
  }

  async #take(
    { workerId, endpointId, forEndpoint }: Move & { readonly kind: "take" },
    endpoints: ReadonlyMap<string, Endpoint>,
    idle: ReadonlySet<string>,
  ): Promise<void> {
    const why =
      endpointId === forEndpoint
        ? "the new revision needs its room"
        : `endpoint "${endpoints.get(forEndpoint)!.name}" waits for its room`;
    if (endpoints.has(endpointId)) return this.#deps.take(workerId, endpointId, why);
    try {
      await this.#deps.driver?.others?.take({ workerId, endpointId, idle: idle.has(workerId), why });
    } catch {
      // It has become busy, or its platform does not answer: what is true by then is looked at.
      this.#retry();
    }
  }

  async #start(
    { endpointId, host }: Move & { readonly kind: "start" },
    endpoints: ReadonlyMap<string, Endpoint>,
    waiting: ReadonlyMap<string, Waiting>,
  ): Promise<void> {
    if (this.#closed) return;
    const one = waiting.get(endpointId)!;
    const lack = await this.#deps.start(endpoints.get(endpointId)!, one.why, host);
    if (lack === undefined) return;
    one.missing++;
    one.reason = lack;
    // Who has the room may have left it already.
    this.#retry();
  }

  #retry(): void {
    this.#retryTimer ??= setTimeout(() => {
      this.#retryTimer = undefined;
      this.look();
    }, START_RETRY_MS).unref();
  }

  /** What is known about who waits. */
  #note(
    machine: Capacity,
    { id, need, wanted, workers }: Contender,
    starts: readonly Move[],
    all: readonly Contender[],
  ): void {
    const waiting = this.#waiting.get(id);
    if (waiting === undefined) return;
    waiting.need = need;
    waiting.missing = wanted - starts.filter((move) => move.endpointId === id).length;
    if (waiting.missing <= 0) return;
    const own = all.filter((one) => one.id !== OTHERS);
    waiting.inVain = !canBeServed(asIfMade(machine), own, id);
    const alone = placeAmong(machine, [], need);
    const beyond = workers.length === 0 && this.#deps.peersWait(id);
    const beside = "lack" in alone ? alone : placeAmong(machine, machine.shares.values(), need, { beyond });
    if ("lack" in beside) waiting.reason = [beside.lack, beside.help ?? ""].join(" ").trim();
    this.#deps.waits(id, waiting.reason);
  }

  async #contenders(machine: Capacity, rivals: Rivals, all: readonly Worker[]) {
    const { driver, starting } = this.#deps;
    const { endpoints, rowsOf } = await this.#known(all);
    const own = new Set([...all.map(({ id }) => id), ...starting.keys()]);
    const contenders: Contender[] = [...endpoints.values()].map((endpoint) =>
      withShares(
        this.#rival(endpoint, rowsOf(endpoint.id), machine, (id) => machine.shares.has(id)),
        machine,
      ),
    );
    const active = new Set(contenders.flatMap(({ workers }) => workers.map(({ id }) => id)));
    for (const rival of rivals.contenders) {
      if (endpoints.has(rival.id)) continue;
      const workers = rival.workers.filter(({ id }) => !own.has(id));
      contenders.push(withShares({ ...rival, workers }, machine));
      for (const { id } of workers) active.add(id);
    }
    const goes = new Set(rivals.leaving);
    const rest = [...machine.shares].filter(([id]) => !active.has(id));
    const isLeaving = (id: string) => driver?.others === undefined || own.has(id) || goes.has(id);
    const leaving = rest.flatMap(([id, share]) => (isLeaving(id) ? [share] : []));
    // Of other platforms' endpoints that are not known of.
    const others = rest.filter(([id]) => !isLeaving(id));
    if (others.length > 0) contenders.push(heldByOthers(others));
    return { contenders, leaving, endpoints };
  }

  /** Endpoints that hold workers or wait, and the active ones of these by endpoint. */
  async #known(all: readonly Worker[]) {
    const rows = Map.groupBy(
      all.filter((row) => isActive(row.state)),
      ({ endpointId }) => endpointId,
    );
    const starting = [...this.#deps.starting.values()].map(({ id }) => id);
    const endpoints = new Map<string, Endpoint>();
    for (const id of new Set([...this.#waiting.keys(), ...rows.keys(), ...starting])) {
      const endpoint = await this.#deps.endpoints.find(id);
      if (endpoint === undefined) this.#waiting.delete(id);
      else endpoints.set(id, endpoint);
    }
    return { endpoints, rowsOf: (id: string) => rows.get(id) ?? [] };
  }

  /** Of its workers those that are there. */
  #rival(endpoint: Endpoint, rows: readonly Worker[], machine: Machine, isThere: (id: string) => boolean): Rival {
    const { sample, starting, clock, mayStart } = this.#deps;
    const waiting = this.#waiting.get(endpoint.id);
    const seen = new Map(sample(endpoint.id).workers.map((worker) => [worker.id, worker]));
    const now = this.#deps.now();
    const time = clock();
    const workers = rows.map(({ id, revision, readyAt }) => {
      const worker = seen.get(id);
      const idleMs = worker?.ready && !worker.busy ? worker.idleMs : 0;
      const upMs = readyAt === null ? 0 : Math.max(0, time - readyAt);
      return { id, idleMs, upMs, stale: revision !== endpoint.revision };
    });
    for (const [id, { id: endpointId, revision }] of starting) {
      if (endpointId !== endpoint.id || rows.some((row) => row.id === id)) continue;
      workers.push({ id, idleMs: 0, upMs: 0, stale: revision !== endpoint.revision });
    }
    const there = workers.filter(({ id }) => isThere(id));
    const current = there.filter(({ stale }) => !stale).length;
    const wanted = waiting === undefined ? 0 : Math.min(waiting.desired, endpoint.workersMax) - current;
    return {
      id: endpoint.id,
      need: { ...needOf(machine, endpoint, this.#deps.gpuPreference(endpoint)), ...wishesOf(endpoint) },
      workersMin: endpoint.workersMin,
      wanted: wanted > 0 && mayStart(endpoint) ? wanted : 0,
      urgent: waiting?.urgent ?? false,
      waitingMs: waiting === undefined ? 0 : now - waiting.since,
      workers: there,
    };
  }
}

function withShares(rival: Rival, { shares }: Capacity): Contender {
  const workers = rival.workers.flatMap((worker) => {
    const share = shares.get(worker.id);
    return share === undefined ? [] : [{ ...worker, share }];
  });
  return { ...rival, workers };
}

function stays(why: string): SvcError {
  return new SvcError("NO_CAPACITY", why);
}

/** They stay where they are. */
function heldByOthers(shares: readonly (readonly [string, Share])[]): Contender {
  const workers = shares.map(([id, share]) => ({ id, share, idleMs: 0, upMs: 0, stale: false }));
  const need = { vcpus: 0, memoryGb: 0, gpuIds: "", gpuPreference: [], gpuCount: 0 };
  return { id: OTHERS, need, workersMin: workers.length, wanted: 0, urgent: false, waitingMs: 0, workers };
}
