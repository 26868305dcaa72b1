/**
 * Endpoints for whose workers the machine has no room, and what is done about it: domain/fair-share.ts decides, this
 * applies. It looks when an endpoint begins to wait, when a worker goes idle, and when one has ended.
 */
import { type Need, needOf, type Share } from "../domain/capacity.ts";
import { type Contender, canBeServed, type HeldWorker, type Move, shareRoom } from "../domain/fair-share.ts";
import { FAIR_IDLE_MS, START_RETRY_MS } from "../domain/limits.ts";
import { asIfMade, type Fleet, placeAmong, wishesOf } from "../domain/placement.ts";
import { type EndpointSample, isActive } from "../domain/worker.ts";
import { notBefore } from "../lib/not-before.ts";
import type { Endpoint, Worker } from "../store/store.ts";

type Capacity = Fleet & { readonly shares: ReadonlyMap<string, Share> };

export interface RoomDeps {
  readonly capacity: () => Promise<Capacity>;
  readonly endpoints: { find(id: string): Endpoint | undefined | Promise<Endpoint | undefined> };
  readonly workers: () => Promise<readonly Worker[]>;
  /** With `endsAstray`, other platforms have workers on the same machines. */
  readonly driver?: { readonly endsAstray?: unknown };
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

/** Stands for the endpoints of other platforms. */
const OTHERS = "";

export class Room {
  readonly #deps: RoomDeps;
  readonly #waiting = new Map<string, Waiting>();
  #closed = false;
  #looking = false;
  #looksSoon = false;
  #retryTimer: NodeJS.Timeout | undefined;
  #again = false;

  constructor(deps: RoomDeps) {
    this.#deps = deps;
  }

  /** Somebody waits: who wants to start must wait for its turn too. */
  get isContended(): boolean {
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
    const machine = await this.#deps.capacity();
    const { contenders, leaving, endpoints } = await this.#contenders(machine);
    const moves = shareRoom(machine, contenders, leaving);
    const starts = moves.filter((move) => move.kind === "start");
    const waiting = new Map(this.#waiting);
    for (const contender of contenders) this.#note(machine, contender, starts, contenders);
    for (const move of moves) await this.#apply(move, endpoints, waiting);
    for (const [id, one] of waiting) if (one.missing <= 0 && this.#waiting.get(id) === one) this.#waiting.delete(id);
  }

  async #apply(
    move: Move,
    endpoints: ReadonlyMap<string, Endpoint>,
    waiting: ReadonlyMap<string, Waiting>,
  ): Promise<void> {
    if (move.kind === "take") {
      const { name } = endpoints.get(move.forEndpoint)!;
      const isOwn = move.endpointId === move.forEndpoint;
      const why = isOwn ? "the new revision needs its room" : `endpoint "${name}" waits for its room`;
      await this.#deps.take(move.workerId, move.endpointId, why);
      return;
    }
    if (this.#closed) return;
    const one = waiting.get(move.endpointId)!;
    const lack = await this.#deps.start(endpoints.get(move.endpointId)!, one.why, move.host);
    if (lack === undefined) return;
    one.missing++;
    one.reason = lack;
    // Who has the room may have left it already.
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

  async #contenders(machine: Capacity) {
    const all = await this.#deps.workers();
    const rows = all.filter((row) => isActive(row.state));
    const held = new Set([...rows.map((row) => row.id), ...this.#deps.starting.keys()]);
    const rest = [...machine.shares].filter(([id]) => !held.has(id));
    // Of other platforms' endpoints none is known to leave, or to make room.
    const known = new Set(all.map((row) => row.id));
    const isLeaving = (id: string) => this.#deps.driver?.endsAstray === undefined || known.has(id);
    const leaving = rest.flatMap(([id, share]) => (isLeaving(id) ? [share] : []));
    const others = rest.filter(([id]) => !isLeaving(id));
    const ids = new Set([...this.#waiting.keys(), ...rows.map((row) => row.endpointId)]);
    const endpoints = new Map<string, Endpoint>();
    const contenders: Contender[] = [];
    for (const id of ids) {
      const endpoint = await this.#deps.endpoints.find(id);
      if (endpoint === undefined) {
        this.#waiting.delete(id);
        continue;
      }
      endpoints.set(id, endpoint);
      const mine = rows.filter((row) => row.endpointId === id);
      contenders.push(this.#contender(endpoint, mine, machine));
    }
    if (others.length > 0) contenders.push(heldByOthers(others));
    return { contenders, leaving, endpoints };
  }

  #contender(endpoint: Endpoint, rows: readonly Worker[], machine: Capacity): Contender {
    const { shares } = machine;
    const { sample, starting, clock, mayStart } = this.#deps;
    const waiting = this.#waiting.get(endpoint.id);
    const seen = new Map(sample(endpoint.id).workers.map((worker) => [worker.id, worker]));
    const now = this.#deps.now();
    const time = clock();
    const workers: HeldWorker[] = rows.flatMap(({ id, revision, readyAt }) => {
      const share = shares.get(id);
      const worker = seen.get(id);
      const idleMs = worker?.ready && !worker.busy ? worker.idleMs : 0;
      const upMs = readyAt === null ? 0 : Math.max(0, time - readyAt);
      return share === undefined ? [] : [{ id, share, idleMs, upMs, stale: revision !== endpoint.revision }];
    });
    for (const [id, { id: endpointId, revision }] of starting) {
      const share = shares.get(id);
      if (endpointId !== endpoint.id || share === undefined || rows.some((row) => row.id === id)) continue;
      workers.push({ id, share, idleMs: 0, upMs: 0, stale: revision !== endpoint.revision });
    }
    const current = workers.filter((worker) => !worker.stale).length;
    const wanted = waiting === undefined ? 0 : Math.min(waiting.desired, endpoint.workersMax) - current;
    return {
      id: endpoint.id,
      need: { ...needOf(machine, endpoint, this.#deps.gpuPreference(endpoint)), ...wishesOf(endpoint) },
      workersMin: endpoint.workersMin,
      wanted: mayStart(endpoint) ? Math.max(0, wanted) : 0,
      urgent: waiting?.urgent ?? false,
      waitingMs: waiting === undefined ? 0 : now - waiting.since,
      workers,
    };
  }
}

/** They stay where they are. */
function heldByOthers(shares: readonly (readonly [string, Share])[]): Contender {
  const workers = shares.map(([id, share]) => ({ id, share, idleMs: 0, upMs: 0, stale: false }));
  const need = { vcpus: 0, memoryGb: 0, gpuIds: "", gpuPreference: [], gpuCount: 0 };
  return { id: OTHERS, need, workersMin: workers.length, wanted: 0, urgent: false, waitingMs: 0, workers };
}
