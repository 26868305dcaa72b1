/**
 * Several replicas on one database, in one process and in turns that fast-check's scheduler chooses: the real machine of ownership, its
 * keeper, the real queue. What is made up is the database, the network to it, the clocks, the callers and the workers.
 *
 * A statement travels in two steps, there and back, and may be lost in each. A replica that stands still takes no answer, but what it
 * had sent is carried out. Its clock goes on by its own beats alone, so each may think that the others are silent.
 */
import fc from "fast-check";
import { SvcError } from "../../../src/domain/errors.ts";
import { RESTART_LEASE_GRACE_MS } from "../../../src/domain/limits.ts";
import { UNWATCHED } from "../../../src/domain/storage.ts";
import type { BodyStore } from "../../../src/queue/bodies/body-store.ts";
import { DelayedJobs } from "../../../src/queue/machine/delayed-jobs.ts";
import { boundsWith } from "../../../src/queue/machine/machine.ts";
import { RunningJobs } from "../../../src/queue/machine/running-jobs.ts";
import { StoredBodies } from "../../../src/queue/machine/stored-bodies.ts";
import { queueChanges } from "../../../src/queue/postgres/changes.ts";
import type { Connections } from "../../../src/queue/postgres/connection.ts";
import { PostgresCore } from "../../../src/queue/postgres/core.ts";
import { Ownership, shardOf } from "../../../src/queue/postgres/ownership.ts";
import { delayedRows, runningRows } from "../../../src/queue/postgres/running.ts";
import type { ShardKeeper } from "../../../src/queue/postgres/shard-keeper.ts";
import { keepShards } from "../../../src/queue/postgres/shard-memory.ts";
import type { ClaimedJob, NewJob, Queue } from "../../../src/queue/queue.ts";
import { Database, type Fault, isFinal, Violation } from "./database.ts";

export const SHARDS = 3;
/** One endpoint in each shard. */
const ENDPOINTS = Array.from({ length: SHARDS }, (_, shard) => {
  for (let n = 0; ; n++) if (shardOf(`e${n}`) === shard) return `e${n}`;
});
const BEAT_MS = 1_000;
const START = 1_700_000_000_000;
const OUTPUT = Buffer.from("1");
const INPUT = Buffer.from("{}");

export type Step =
  | { readonly do: "turns"; readonly count: number }
  | { readonly do: "submit"; readonly endpoint: number }
  | { readonly do: "kill" | "stop" | "cut" | "leave"; readonly replica: number }
  | { readonly do: "suspect"; readonly replica: number; readonly of: number }
  | { readonly do: "expire"; readonly replica: number }
  | { readonly do: "mend" }
  | { readonly do: "failover"; readonly lost: number };

/** Numbers that a seed gives. */
function randomOf(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

const turn = () => new Promise<void>((resolve) => setImmediate(resolve));

interface Replica {
  readonly id: string;
  readonly keeper: ShardKeeper;
  readonly queue: Pick<Queue, "enqueue" | "claim" | "finish"> & { expireLeases(): Promise<number> };
  isDead: boolean;
  /** Cannot reach the database. */
  isCut: boolean;
  /** Resolves when it goes on. */
  stopped: Promise<void> | undefined;
  goOn: () => void;
  isLeaving: boolean;
  /** Of callers whose connections break with it. */
  readonly callers: Set<(error: Error) => void>;
  clockMs: number;
}

export class World {
  readonly database: Database;
  readonly replicas: Replica[] = [];
  readonly #scheduler: fc.Scheduler;
  readonly #random: () => number;
  readonly #accepted = new Set<string>();
  readonly #finished = new Set<string>();
  readonly #lostWithTail = new Set<string>();
  readonly #over = new AbortController();
  /** Nothing fails, and all beat in step. */
  #isCalm = false;
  #beats: (() => void)[] = [];
  #waiting: (() => void)[] = [];
  #jobs = 0;
  #ids = 0;
  violation: unknown;

  constructor(scheduler: fc.Scheduler, seed: number, fault?: Fault) {
    this.#scheduler = scheduler;
    this.#random = randomOf(seed);
    this.database = new Database(SHARDS, fault);
    for (let n = 0; n < 3; n++) this.#start();
    for (const endpoint of ENDPOINTS) this.#own(this.#work(endpoint));
  }

  async run(steps: readonly Step[]): Promise<void> {
    await this.#calmly(() => this.#owned() === SHARDS);
    this.#isCalm = false;
    for (const beat of this.#beats.splice(0)) beat();
    for (const step of steps) {
      // What was answered is heard before anything else happens.
      for (let settles = 0; settles < 5; settles++) await turn();
      this.#do(step);
      await this.#turns(step.do === "turns" ? step.count : 2);
    }
    this.#mend();
    if (this.replicas.every(({ isDead, isLeaving }) => isDead || isLeaving)) this.#start();
    await this.#calmly(() => this.#isOver());
    this.#check();
  }

  end(): void {
    this.#over.abort();
    for (const replica of this.replicas) replica.isDead = true;
  }

  #do(step: Step): unknown {
    const replica = "replica" in step ? this.replicas.filter(({ isDead }) => !isDead)[step.replica] : undefined;
    switch (step.do) {
      case "submit":
        return this.#own(this.#submit(ENDPOINTS[step.endpoint]!));
      case "kill":
        if (replica === undefined) return undefined;
        replica.isDead = true;
        hangUp(replica);
        return this.#start();
      case "stop":
        if (replica === undefined || replica.stopped !== undefined) return undefined;
        replica.stopped = new Promise((resolve) => {
          replica.goOn = resolve;
        });
        return hangUp(replica);
      case "cut":
        if (replica !== undefined) replica.isCut = true;
        return undefined;
      case "leave":
        if (replica === undefined) return undefined;
        replica.isLeaving = true;
        return this.#own(replica.keeper.drain());
      case "suspect": {
        const other = this.replicas[step.of];
        if (replica !== undefined && other !== undefined)
          replica.keeper.tell({ type: "gone", now: replica.clockMs, replica: other.id });
        return undefined;
      }
      case "expire":
        if (replica === undefined) return undefined;
        replica.clockMs += RESTART_LEASE_GRACE_MS + 1;
        return this.#own(replica.queue.expireLeases());
      case "mend":
        return this.#mend();
      case "failover":
        return this.#failOver(step.lost);
    }
  }

  #mend(): void {
    for (const replica of this.replicas) {
      replica.isCut = false;
      replica.goOn();
      replica.stopped = undefined;
    }
  }

  #failOver(lost: number): void {
    const { open, done } = this.database;
    const ids = () => new Set([...open.values(), ...done.values()].map(({ id }) => id));
    const before = ids();
    this.database.failOver(lost);
    const there = ids();
    const final = new Set([...done.values()].map(({ id }) => id));
    for (const id of before) if (!there.has(id)) this.#lostWithTail.add(id);
    // What ended in the lost tail may end again.
    for (const id of this.#finished) if (!final.has(id)) this.#finished.delete(id);
  }

  /** A replica of its own name. */
  #start(): void {
    const id = `r${this.#ids++}`;
    const state = { isDead: false, isCut: false, isLeaving: false, stopped: undefined, goOn: () => {}, clockMs: 0 };
    const replica = { id, ...state, callers: new Set() } as unknown as Replica;
    const clock = () => START + replica.clockMs;
    const monotonic = () => replica.clockMs;
    const draw = (below: number) => Math.floor(this.#random() * below);
    const told = { lost: () => {}, tailLost: () => {}, own: (work: Promise<unknown>) => this.#own(work) };
    const db = this.#connections(replica) as unknown as Connections;
    const core = new PostgresCore(db, {} as BodyStore, { clock, monotonic }, boundsWith(), UNWATCHED, told, {
      ownership: new Ownership(draw),
      inAMoment: (done) => {
        let isOff = false;
        this.#own(this.#step(replica, "moment").then(() => isOff || done()));
        return () => {
          isOff = true;
        };
      },
    });
    const bodies = new StoredBodies(core, core.bodies);
    const jobs = new RunningJobs(core, bodies, new DelayedJobs(core.steady, delayedRows(core)), runningRows(core));
    const keeper = keepShards(
      core,
      {
        ...{ id, address: id, links: { first: 1, last: 1 } },
        // Those with workers go one by one, all others together.
        live: () => new Set(ENDPOINTS.flatMap((_, shard) => (this.#random() < 0.5 ? [shard] : []))),
        leaves: async () => {
          await this.#step(replica, "workers of what leaves");
          if (this.#fails(0.1)) throw new SvcError("DATABASE_AWAY", "The workers' rows cannot be read.");
          return !this.#fails(0.2);
        },
      },
      { own: told.own, loaded: async () => {}, shards: SHARDS, pause: () => this.#pause(replica) },
    );
    const { enqueue } = queueChanges(core, bodies);
    const { claim, finish } = jobs;
    Object.assign(replica, { keeper, queue: { enqueue, claim, finish, expireLeases: () => jobs.expireLeases() } });
    this.replicas.push(replica);
    this.#own(startAgain(keeper));
  }

  /** One beat of the replica's clock. */
  async #pause(replica: Replica): Promise<void> {
    if (this.#isCalm) await new Promise<void>((resolve) => this.#beats.push(resolve));
    else await this.#step(replica, "beat");
    replica.clockMs += BEAT_MS;
  }

  /** The replica's next turn; never comes for one that is dead. */
  async #step(replica: Replica, what: string): Promise<void> {
    await this.#scheduler.schedule(Promise.resolve(), `${what} ${replica.id}`);
    while (replica.stopped !== undefined && !replica.isDead) await replica.stopped;
    if (replica.isDead) await new Promise(() => {});
  }

  #connections(replica: Replica) {
    type Query = (text: string, values?: readonly unknown[], name?: string) => Promise<unknown[]>;
    /** There and back. Throws when it is not known whether it was carried out. */
    const once = async <T>(what: string, work: (query: Query) => Promise<T>): Promise<T> => {
      await this.#step(replica, `${what} of`);
      const { generation } = this.database;
      if (replica.isCut || this.#fails(0.08)) throw new Error("lost on its way there");
      // From here on it is on its way, whatever becomes of the replica.
      await this.#scheduler.schedule(Promise.resolve(), `${what} arrives from ${replica.id}`);
      if (this.database.generation !== generation) throw new Error("the server is gone");
      let value: T | undefined;
      let refused: unknown;
      try {
        value = await this.database.commit(work as never);
      } catch (error) {
        refused = error;
        if (error instanceof Violation) this.violation ??= error;
      }
      await this.#step(replica, `answer of ${what} to`);
      for (const wake of this.#waiting.splice(0)) wake();
      if (replica.isCut || this.database.generation !== generation || this.#fails(0.08))
        throw new Error("lost on its way back");
      if (refused !== undefined) throw Object.assign(refused as Error, { isAnswer: true });
      return value as T;
    };
    const again = async <T>(what: string, work: (query: Query) => Promise<T>): Promise<T> => {
      for (;;) {
        try {
          return await once(what, work);
        } catch (error) {
          if ((error as { isAnswer?: true }).isAnswer) throw error;
        }
      }
    };
    return {
      outage: undefined,
      refusal: undefined,
      onOutage: () => {},
      write: (text: string, values: readonly unknown[], name: string) =>
        again("batch", (query) => query(text, values, name)),
      read: (text: string, values?: readonly unknown[]) => again("read", (query) => query(text, values)),
      readSame: <T>(work: (query: Query) => Promise<T>) => again("reads", work),
      onWriter: async <T>(work: (query: Query) => Promise<T>) => {
        if (this.#fails(0.1)) throw new SvcError("STORAGE_FULL", "The statement is refused.");
        return again("statement", work);
      },
      insist: <T>(work: (query: Query) => Promise<T>) => again("statement", work),
      transaction: <T>(work: (query: Query) => Promise<T>) => again("transaction", work),
      apart: <T>(work: (query: Query) => Promise<T>) => once("look", work),
    };
  }

  #fails(chance: number): boolean {
    return !this.#isCalm && this.#random() < chance;
  }

  /** Any that lives, as a caller behind a balancer finds it. */
  #any(): Replica | undefined {
    const alive = this.replicas.filter(({ isDead }) => !isDead);
    return alive[Math.floor(this.#random() * alive.length)];
  }

  /** Calls at one replica after the other until one answers; one that dies is not waited for. */
  async #anywhere<T>(what: string, call: (replica: Replica, isAgain: boolean) => Promise<T>): Promise<T | undefined> {
    for (let isAgain = false; !this.#over.signal.aborted; isAgain = true) {
      await this.#scheduler.schedule(Promise.resolve(), what);
      const replica = this.#any();
      if (replica === undefined) continue;
      try {
        return await connected(replica, call(replica, isAgain));
      } catch (error) {
        if (!(error instanceof SvcError) && !(error instanceof Gone)) throw error;
      }
      // To try again makes sense when something has changed.
      await new Promise<void>((resolve) => this.#waiting.push(resolve));
    }
    return undefined;
  }

  async #submit(endpointId: string): Promise<void> {
    const id = `j${this.#jobs++}`;
    const common = { method: "", webhook: "", idempotencyKey: "", lowPriority: false };
    const times = { executionTimeoutMs: 60_000, ttlMs: 10 ** 12, retentionMs: 10 ** 12 };
    const accepted = await this.#anywhere("submit", (replica, isSentAgain) => {
      const job: NewJob = { id, endpointId, input: INPUT, ...common, ...times, isSentAgain, isAwaited: true };
      return replica.queue.enqueue(job);
    });
    if (accepted !== undefined) this.#accepted.add(id);
  }

  /** The endpoint's worker: takes jobs where they are, brings the results where they go. */
  async #work(endpointId: string): Promise<void> {
    while (!this.#over.signal.aborted) {
      const claims = await this.#anywhere("claim", ({ queue }) => queue.claim(endpointId, "w", 1, this.#over.signal));
      for (const claim of claims ?? []) this.#own(this.#finish(claim));
      await turn();
    }
  }

  async #finish(claim: ClaimedJob): Promise<void> {
    const done = await this.#anywhere("finish", ({ queue }) =>
      queue.finish(claim, { state: "COMPLETED", output: OUTPUT }),
    );
    if (done !== true) return;
    if (this.#finished.has(claim.jobId)) this.violation ??= new Violation(`${claim.jobId} was finished twice`);
    this.#finished.add(claim.jobId);
  }

  async #turns(count: number): Promise<void> {
    for (let n = 0; n < count && this.violation === undefined; n++) {
      for (let settles = 0; settles < 3; settles++) await turn();
      for (let settles = 0; settles < 3 && this.#scheduler.count() === 0; settles++) await turn();
      // All wait for the next beat, or the next step.
      if (this.#scheduler.count() === 0) return;
      await this.#scheduler.waitNext(1);
    }
  }

  /** Nothing fails, and all beat in step: each shard finds its owner, each job its end. */
  async #calmly(isOver: () => boolean): Promise<void> {
    this.#isCalm = true;
    // Leases that pass make others seem silent, so shards move to and fro for a while: rarely more than 120 rounds are needed.
    for (let round = 0; round < 400 && this.violation === undefined && !isOver(); round++) {
      await this.#turns(30);
      for (const beat of this.#beats.splice(0)) beat();
      // Jobs whose workers heard nothing of them come back when their leases pass.
      if (round % 20 !== 19) continue;
      for (const replica of this.replicas) {
        if (replica.isDead) continue;
        replica.clockMs += RESTART_LEASE_GRACE_MS + 1;
        this.#own(replica.queue.expireLeases());
      }
    }
  }

  #isOver(): boolean {
    return (
      this.#owned() === SHARDS &&
      this.database.open.size === 0 &&
      [...Array(this.#jobs).keys()].every((n) => this.#accepted.has(`j${n}`))
    );
  }

  /** Shards whose rows are as a replica that lives took them, and has read them. */
  #owned(): number {
    const alive = this.replicas.filter(({ isDead }) => !isDead);
    const isOwned = (shard: number, { epoch, nonce }: { readonly epoch: number; readonly nonce: number }) =>
      alive.some(({ keeper: { ownership } }) => {
        const hold = ownership.stateOf(shard) === "OWNER" ? ownership.holdOf(shard) : undefined;
        return hold?.epoch === epoch && hold.nonce === nonce;
      });
    return [...this.database.shards].filter(([shard, row]) => isOwned(shard, row)).length;
  }

  #check(): void {
    if (this.violation !== undefined) throw this.violation;
    const { open, done, endpoints } = this.database;
    const ids = [...open.values(), ...done.values()].map(({ id }) => id);
    if (new Set(ids).size !== ids.length) throw new Violation("a job is there twice");
    for (const id of this.#accepted)
      if (!ids.includes(id) && !this.#lostWithTail.has(id)) throw new Violation(`${id} was accepted and is lost`);
    if (this.#owned() !== SHARDS) throw new Violation(`${this.#owned()} of ${SHARDS} shards have an owner in the end`);
    if (open.size > 0)
      throw new Violation(`${[...open.values()].map(({ id, state }) => `${id} in ${state}`)} without end`);
    for (const row of done.values()) if (!isFinal(row.state)) throw new Violation(`${row.id} is in ${row.state}`);
    for (const [number] of endpoints) {
      const completed = [...done.values()].filter((row) => row.endpoint === number && row.state === 2).length;
      const { counted, queued } = this.#counted(number);
      if (counted !== completed || queued !== 0)
        throw new Violation(
          `endpoint ${number} has ${completed} completed jobs, and counts ${counted}; none waits, and it counts ${queued}`,
        );
    }
  }

  /** As a replica would load it. */
  #counted(number: number) {
    const { endpoints, journal, shards } = this.database;
    const { epoch } = shards.get(number % 256)!;
    const row = endpoints.get(number)!;
    let [queued, counted] = [row.in_queue, row.completed];
    for (const { counts } of [...journal.values()].sort((a, b) => a.n - b.n))
      for (const [of, inQueue, , , completed, , , at] of JSON.parse(counts) as number[][])
        if (of === number && at === epoch) [queued, counted] = [inQueue, completed];
    return { queued, counted };
  }

  #own(work: Promise<unknown>): void {
    work.catch((error) => {
      if (!(error instanceof SvcError) && !(error instanceof Gone)) this.violation ??= error;
    });
  }
}

async function startAgain(keeper: ShardKeeper): Promise<void> {
  await keeper.start().catch(() => startAgain(keeper));
}

class Gone extends Error {}

function hangUp({ callers }: Replica): void {
  for (const hangUp of callers) hangUp(new Gone());
  callers.clear();
}

/** Rejects when the replica dies or stands still: its connections break, or are taken for broken. */
function connected<T>(replica: Replica, call: Promise<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    if (replica.isDead || replica.stopped !== undefined) reject(new Gone());
    replica.callers.add(reject);
    call.then(resolve, reject).finally(() => replica.callers.delete(reject));
  });
}

const replica = fc.nat(2);
const step: fc.Arbitrary<Step> = fc.oneof(
  { weight: 6, arbitrary: fc.record({ do: fc.constant("turns" as const), count: fc.integer({ min: 1, max: 40 }) }) },
  { weight: 8, arbitrary: fc.record({ do: fc.constant("submit" as const), endpoint: fc.nat(SHARDS - 1) }) },
  {
    weight: 4,
    arbitrary: fc.record({
      do: fc.constantFrom("kill" as const, "stop" as const, "cut" as const, "leave" as const),
      replica,
    }),
  },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("suspect" as const), replica, of: fc.nat(4) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("expire" as const), replica }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("mend" as const) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("failover" as const), lost: fc.nat(4) }) },
);

/** A run of it; throws what it finds wrong. */
export function schedules(fault?: Fault) {
  return fc.asyncProperty(
    fc.scheduler(),
    fc.integer(),
    fc.array(step, { minLength: 10, maxLength: 40 }),
    async (scheduler, seed, steps) => {
      const world = new World(scheduler, seed, fault);
      try {
        await world.run(steps);
      } finally {
        world.end();
      }
    },
  );
}
