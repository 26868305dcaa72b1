/** The queue's memory on its rows in PostgreSQL: rows that are at hand, and batches that are one statement each. */
import type { SvcError } from "../../domain/errors.ts";
import { movedAway } from "../../domain/own-endpoints.ts";
import type { ShardHold } from "../../domain/ownership.ts";
import type { StorageWatch } from "../../domain/storage.ts";
import type { BodyStore } from "../bodies/body-store.ts";
import { type Body, IN_PROGRESS } from "../machine/job-row.ts";
import type { EndpointState } from "../machine/live-state.ts";
import { type QueueBounds, type QueueClocks, QueueMachine } from "../machine/machine.ts";
import { takenOver, unreadable } from "../machine/refusals.ts";
import type { StoredBodies } from "../machine/stored-bodies.ts";
import { RecordsAtHand } from "./at-hand.ts";
import { Batches, ShardsLost, seenOf } from "./batches.ts";
import { BodyNames } from "./body-names.ts";
import { type Connections, inSnapshot, isCollision, type Query } from "./connection.ts";
import { EarlyJobs, type EarlyOptions } from "./early-jobs.ts";
import { Heads } from "./heads.ts";
import { type LoadedState, type LoadScope, loadState } from "./load.ts";
import { Numbers, seqAt } from "./numbers.ts";
import { Ownership, shardOf, shardOfNumber } from "./ownership.ts";
import { Pipeline, type RunOptions } from "./pipeline.ts";
import { readHeads } from "./read-heads.ts";
import { type JobRecord, type ReadRow, recordOf } from "./records.ts";
import { forgetReplica, type Last, takeShards } from "./takeover.ts";
import { Unit } from "./unit.ts";
import { wakeGone, wakeMoved } from "./wake.ts";

export class PostgresCore extends QueueMachine {
  readonly db: Connections;
  readonly bodies: BodyNames;
  readonly heads = new Heads();
  readonly pipeline: Pipeline;
  readonly ownership: Ownership;
  readonly batches: Batches;
  readonly early: EarlyJobs;
  /** What the batch that is being made changes. */
  unit = new Unit();
  /** Chunks' references that are read before they are deleted. */
  readonly taking = new Set<string>();
  /** Called with shards that another has taken over. Throws where this platform cannot go on without them. */
  lost: (shards: readonly number[]) => void;
  /** Called with the endpoints whose jobs another has now. */
  dropped: (endpointIds: readonly string[]) => void = () => {};
  /** What is in memory was read again, and may be older than what was believed. */
  reread: () => Promise<void> = async () => {};
  readonly #atHand = new RecordsAtHand();
  readonly #shards = new Map<EndpointState, number>();
  readonly #own: (work: Promise<unknown>) => void;
  readonly #tailLost: () => void;
  /** The platform cannot go on, for this reason. */
  readonly #end: (error: SvcError) => never;
  readonly #numbers: Numbers;

  constructor(
    db: Connections,
    store: BodyStore,
    clocks: QueueClocks,
    bounds: QueueBounds,
    storage: StorageWatch,
    told: { lost(error: SvcError): void; own(work: Promise<unknown>): void; tailLost(): void },
    { ownership = new Ownership(), ...early }: EarlyOptions & { readonly ownership?: Ownership } = {},
  ) {
    super(clocks, bounds, storage, {
      nextQueued: (endpoint, count) => this.heads.next(endpoint, count),
      claimed: (row, workerId, now) => this.#claimed(row as JobRecord, workerId, now),
      readBody: (reference) => this.bodies.read(reference),
      deleteExpired: (_, id) => this.delete(this.record(id)!),
      waitsAgain: (endpoint) => this.feed(endpoint),
      keep: (read) => storage.keep(read),
    });
    this.db = db;
    this.bodies = new BodyNames(store, clocks.clock, told.own);
    this.ownership = ownership;
    this.#own = told.own;
    this.#tailLost = told.tailLost;
    this.#numbers = new Numbers(clocks.clock);
    this.batches = new Batches(db, ownership, (endpoint) => this.shard(endpoint));
    this.early = new EarlyJobs(() => (db.outage ?? storage.lack) === undefined, this.claims, this.finals, early);
    this.#end = (error) => {
      this.pipeline.end(error);
      this.endWaits();
      told.lost(error);
      throw error;
    };
    this.lost = () => this.#end(takenOver());
    this.pipeline = new Pipeline({
      // Nothing is being written: every connection sees the same.
      load: (work) => work((text, values) => db.read(text, values, Number.POSITIVE_INFINITY)),
      alone: (work) => db.onWriter(work),
      handOut: () => {
        this.handOut();
        return this.early.handOut();
      },
      inAMoment: this.early.inAMoment,
      write: async () => {
        const gone = await this.batches.write(this.unit, this.lastSeq());
        for (const reference of gone) if (!this.taking.has(reference)) this.bodies.drop(reference);
      },
      committed: () => this.#committed(),
      rolledBack: (error) => this.#rolledBack(error),
      isCollision,
      isToRepeat: (error) => error instanceof ShardsLost,
    });
  }

  /** Takes all shards over, whoever has them, and reads what is in them. `owner`: for people who look at the table. */
  async openAll(owner: string): Promise<void> {
    const { writer } = this.ownership;
    const nonce = this.ownership.nonce();
    const taken = await this.db.transaction((query) => takeShards(query, { owner, writer, nonce }, "all"));
    this.ownership.took(taken.won);
    this.given(taken.lastSeq);
    this.#loaded(await this.db.onWriter((query) => inSnapshot(query, (same) => loadState(same, this.#scope()))));
    this.sweepAll();
  }

  /** Numbers up to this one were given. */
  given(lastSeq: number): void {
    this.#numbers.given(lastSeq);
  }

  /** Shards are this platform's, with what was read of them; their workers have so long to come back. Between two batches. */
  add(state: LoadedState, holds: readonly ShardHold[], leaseMs: number): void {
    this.ownership.took(holds);
    this.live.add(state);
    for (const { id } of state.runningRows) this.live.running.get(id)!.leaseUntil = this.live.lease(leaseMs);
    this.#adopt(state);
    this.sweepAll();
  }

  /**
   * Forgets shards that are another's, and sends those who wait there. Between two batches. Returns the ids of their endpoints.
   */
  dropShards(shards: readonly number[]): string[] {
    this.ownership.gave(shards);
    const gone = new Set(shards);
    const endpoints = [...this.live.endpoints.values()].filter((endpoint) => gone.has(this.shard(endpoint)));
    const sets = [this.batches.journalled, this.finalSince, this.failedSince, this.expiredSince];
    for (const endpoint of endpoints) {
      for (const claim of [...endpoint.claims]) this.claims.refuse(claim, movedAway(endpoint.id));
      for (const set of sets) set.delete(endpoint);
      this.#shards.delete(endpoint);
      this.heads.forget(endpoint);
      this.live.dropped(endpoint);
    }
    this.#atHand.dropShards(gone);
    if (this.ownership.shards.length === 0) this.batches.forget();
    this.#own(wakeMoved(this, shards));
    return endpoints.map(({ id }) => id);
  }

  get last(): Last {
    return { writer: this.ownership.writer, n: this.batches.last };
  }

  /** The database was seen without this batch: a job may wait in the rows that is believed to run, or to be over. */
  tailLost(last: number): void {
    // A batch may notice it first.
    this.#own(this.pipeline.between(async () => (this.batches.last === last ? this.readAgain() : undefined)));
  }

  override check(endpointId: string): void {
    if (!this.ownership.hasAll && !this.ownership.has(shardOf(endpointId))) throw movedAway(endpointId);
  }

  /** As check, of a row. */
  checkNumber(number: number): void {
    if (!this.ownership.has(shardOfNumber(number))) throw movedAway(this.live.idOf(number) ?? "the endpoint");
  }

  /** Part of the next batch; resolves after its commit. */
  run<T, L = undefined>(work: (loaded: L) => T, options?: RunOptions<L>): Promise<T> {
    return this.pipeline.run(work, options);
  }

  /** As run, for what must not be lost: while it cannot be stored it waits. */
  keep<T, L = undefined>(work: (loaded: L) => T, options?: RunOptions<L>): Promise<T> {
    return this.storage.keep(() => this.run(work, options));
  }

  /** As run, for what a caller can try again: refused while it could not be stored, or the database is away for long. */
  ask<T, L = undefined>(work: (loaded: L) => T, options: RunOptions<L> = {}): Promise<T> {
    const { refusal } = this.db;
    if (refusal !== undefined) return Promise.reject(refusal);
    return this.offer(() => this.run(work, { ...options, isImpatient: true }));
  }

  feed(endpoint: EndpointState): Promise<void> {
    return this.keep(() => this.touch(endpoint), { load: (query) => readHeads(this, query, endpoint) });
  }

  /** What was said is written first, unless the database is away. */
  async close(reason: Error, bodies: StoredBodies, replica?: string): Promise<void> {
    const said = bodies.idle().then(() => this.pipeline.idle());
    if (!this.db.isAway) await Promise.race([said, new Promise<void>((away) => this.db.onOutage(() => away()))]);
    this.pipeline.end(reason);
    this.endWaits();
    // Those who waited read their job once more before the connections go.
    await new Promise((resolve) => setImmediate(resolve));
    // Others need not wait until it has been silent for long enough.
    if (replica !== undefined && !this.db.isAway)
      await this.db.apart((query) => forgetReplica(query, replica)).catch(() => {});
    await this.db.close();
  }

  /** The highest number given so far. */
  lastSeq(): number {
    return this.#numbers.last();
  }

  readonly seqAt = seqAt;

  nextSeq(shard: number): number {
    return this.#numbers.next(shard);
  }

  record(id: string): JobRecord | undefined {
    return this.#atHand.get(id);
  }

  /** The one record of a row that was read. */
  adopt(row: ReadRow, place: "open" | "done"): JobRecord {
    return this.#atHand.adopt(row, place);
  }

  /** Reads the job's row for the work that comes. Resolves what its chunks count. */
  need(query: Query, jobId: string): Promise<number> {
    return this.#atHand.need(query, jobId);
  }

  // Parts of a batch.

  made(record: JobRecord): void {
    this.#atHand.add(record);
    this.changed(record);
  }

  changed(record: JobRecord): void {
    this.counted(this.live.of(record.endpoint));
    this.unit.jobs.add(record);
  }

  counted(endpoint: EndpointState): void {
    this.unit.endpoints.add(endpoint);
  }

  /** The job begins to wait. It is not counted yet. */
  queued(record: JobRecord): void {
    this.heads.add(this.live.of(record.endpoint), record);
  }

  shard(endpoint: EndpointState): number {
    let shard = this.#shards.get(endpoint);
    if (shard === undefined) {
      shard = shardOf(endpoint.id);
      this.#shards.set(endpoint, shard);
    }
    return shard;
  }

  /** Gives the endpoint its row. */
  number(endpoint: EndpointState): number {
    if (endpoint.number === 0) {
      this.live.numbered(endpoint, this.#numbers.nextEndpoint(this.shard(endpoint)));
      this.unit.newEndpoints.add(endpoint);
    }
    return endpoint.number;
  }

  removed(endpoint: EndpointState): void {
    this.unit.removed(endpoint, this.shard(endpoint));
    this.batches.journalled.delete(endpoint);
    this.#shards.delete(endpoint);
    this.heads.forget(endpoint);
    this.live.removed(endpoint);
  }

  named(endpoint: EndpointState, ...bodies: (Body | null)[]): void {
    for (const body of bodies) {
      if (typeof body !== "string") continue;
      endpoint.files.named(body);
      this.bodies.named(body);
    }
  }

  unnamed(endpoint: EndpointState, ...bodies: (Body | null | undefined)[]): void {
    for (const body of bodies) {
      if (typeof body !== "string") continue;
      endpoint.files.unnamed(body);
      if (!endpoint.files.has(body)) this.unit.refsGone.push(body);
    }
  }

  /** Of a hand-out of a job. */
  nextFence(fence: number, seq: number): number {
    return this.ownership.nextFence(fence, shardOfNumber(seq));
  }

  /** Deletes an open job. The caller keeps the counts right. */
  delete(record: JobRecord): void {
    const endpoint = this.live.of(record.endpoint);
    this.heads.remove(endpoint, record);
    record.isGone = true;
    this.changed(record);
    this.unnamed(endpoint, record.input, record.output);
    if (record.key !== "") this.unit.holdKey(record.endpoint, record.key, null);
    this.deleted(record.id);
  }

  /** `cost`: what they count. */
  dropChunks(seq: number, id: string, endpoint: EndpointState, cost: number): void {
    if (cost === 0) return;
    this.live.chunks(endpoint, id, -cost);
    this.unit.refsGone.push(...this.unit.dropChunks(seq));
  }

  #claimed(record: JobRecord, workerId: string, now: number): number {
    this.heads.remove(this.live.of(record.endpoint), record);
    record.fence = this.nextFence(record.fence, record.seq);
    Object.assign(record, { state: IN_PROGRESS, worker_id: workerId, started_at: now });
    this.changed(record);
    return record.fence;
  }

  #committed(): void {
    const { unit } = this;
    this.unit = new Unit();
    this.#atHand.settle(
      unit.jobs,
      (job) => this.heads.has(job),
      ({ id, fence }) => this.live.running.get(id)?.fence === fence,
    );
    for (const reference of unit.refsGone) this.bodies.drop(reference);
    for (const endpoint of this.release()) {
      const starves = endpoint.claims.length > 0 && endpoint.inQueue > 0;
      if (starves) this.feed(endpoint).catch(() => {}); // The claims were told.
    }
    this.early.over();
  }

  async #rolledBack(error: unknown): Promise<unknown> {
    const isLost = error instanceof ShardsLost;
    const reason = this.takeBack(error, isLost || isCollision(error));
    this.early.over();
    this.unit = new Unit();
    if (isLost) this.#leave(error.shards);
    await this.readAgain();
    // Claims that wait on, and what was given to them does.
    if (!isLost) this.feedStarving();
    return reason;
  }

  #leave(shards: readonly number[]): void {
    if (shards.length === 0) return;
    this.lost(shards);
    this.dropped(this.dropShards(shards));
  }

  /** All that is in memory. Nothing of a batch is under way. */
  async readAgain(): Promise<void> {
    const [{ lost, hadTail }, state] = await this.db.insist((query) =>
      inSnapshot(query, async (same) => {
        return [await seenOf(same, this.ownership, this.last), await loadState(same, this.#scope())] as const;
      }),
    );
    try {
      this.#loaded(state);
    } catch (error) {
      this.#end(unreadable(error));
    }
    this.#leave(lost); // What others wrote there may go with their tail, and these would be its own again.
    if (hadTail) return;
    this.ownership.tailLost();
    this.#tailLost();
    this.feedStarving();
    this.#own(wakeGone(this));
    this.#own(this.reread());
  }

  #scope(): LoadScope {
    const { hasAll, shards, writer } = this.ownership;
    return { epochOf: (shard) => this.ownership.epochOf(shard), shards: hasAll ? undefined : shards, writer };
  }

  #loaded(state: LoadedState): void {
    this.heads.clear();
    this.#atHand.clear();
    this.live.load(state);
    this.batches.loaded(state.lastBatch);
    this.#adopt(state);
  }

  #adopt(state: LoadedState): void {
    for (const row of state.runningRows) this.#atHand.keep(recordOf(row, "open"));
    for (const number of state.journalled) this.batches.journalled.add(this.live.of(number));
    for (const { number } of this.live.endpoints.values()) this.#numbers.givenEndpoint(number);
  }
}
