/** The queue's memory on its rows in PostgreSQL: rows that are at hand, and batches that are one statement each. */
import { hostname } from "node:os";
import { SvcError } from "../../domain/errors.ts";
import { QUEUE_FOLD_BATCHES, QUEUE_READ_ROWS, STREAM_CHUNK_COST_BYTES } from "../../domain/limits.ts";
import type { StorageWatch } from "../../domain/storage.ts";
import type { BodyStore } from "../bodies/body-store.ts";
import { type Body, IN_PROGRESS } from "../machine/job-row.ts";
import type { EndpointState } from "../machine/live-state.ts";
import { type QueueBounds, type QueueClocks, QueueMachine } from "../machine/machine.ts";
import type { StoredBodies } from "../machine/stored-bodies.ts";
import { BodyNames } from "./body-names.ts";
import type { Connections, Query } from "./connection.ts";
import { Heads } from "./heads.ts";
import { COUNTED, type LoadedState, loadState } from "./load.ts";
import { Ownership, shardOf } from "./ownership.ts";
import { Pipeline, type RunOptions } from "./pipeline.ts";
import { type JobRecord, type ReadRow, recordOf } from "./records.ts";
import { findRow, queuedAfter } from "./rows.ts";
import { SHARDS } from "./schema.ts";
import { ENDPOINT_IN, ENDPOINT_UP, JOURNAL_OUT, type Part, type StatementAnswer, statementOf } from "./statement.ts";
import { Unit } from "./unit.ts";

/** Numbers begin with the time, so that they rise over all shards, and end with the shard, so that no two owners give the same. */
export const SEQ_EPOCH_MS = 1_600_000_000_000;
export const SEQS_PER_MS = 16;
const UNIQUE_VIOLATION = "23505";

/** The first number of a moment. */
export const seqAt = (ms: number): number => Math.max(0, (ms - SEQ_EPOCH_MS) * SEQS_PER_MS * SHARDS);

export class PostgresCore extends QueueMachine {
  readonly db: Connections;
  readonly bodies: BodyNames;
  readonly heads = new Heads();
  readonly pipeline: Pipeline;
  readonly ownership = new Ownership();
  /** What the batch that is being made changes. */
  unit = new Unit();
  /** Chunks' references that are read before they are deleted. */
  readonly taking = new Set<string>();
  /** Called when another platform has taken over. */
  readonly lost: (error: SvcError) => void;
  /** By id: what runs, what is in heads, and until the batch is over what it read or made. */
  readonly #records = new Map<string, JobRecord>();
  readonly #batch = new Map<string, JobRecord>();
  /** Endpoints whose rows have older counts than the journal. */
  readonly #journalled = new Set<EndpointState>();
  readonly #shards = new Map<EndpointState, number>();
  /** Of statements, by name. */
  readonly #texts = new Map<string, string>();
  #batches = 0;
  #mustFold = false;
  #lastTick = 0;
  #lastNumber = 0;

  constructor(
    db: Connections,
    store: BodyStore,
    clocks: QueueClocks,
    bounds: QueueBounds,
    storage: StorageWatch,
    told: { lost(error: SvcError): void; own(work: Promise<unknown>): void },
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
    this.lost = told.lost;
    this.pipeline = new Pipeline({
      // Nothing is being written: every connection sees the same.
      load: (work) => work((text, values) => db.read(text, values, Number.POSITIVE_INFINITY)),
      alone: (work) => db.onWriter(work),
      write: () => this.#write(),
      committed: () => this.#committed(),
      rolledBack: (error) => this.#rolledBack(error),
      isCollision: (error) => (error as { cause?: { code?: string } }).cause?.code === UNIQUE_VIOLATION,
    });
  }

  /** Takes the shards over and reads what is in them. */
  async open(): Promise<void> {
    await this.db.transaction((query) => this.ownership.take(query, `${hostname()} ${process.pid}`));
    this.#loaded(await this.db.onWriter(loadState));
    this.sweepAll();
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
    return this.keep(() => this.touch(endpoint), { load: (query) => this.#readHeads(query, endpoint) });
  }

  /** What was said is written first, unless the database is away. */
  async close(reason: Error, bodies: StoredBodies): Promise<void> {
    const said = bodies.idle().then(() => this.pipeline.idle());
    if (this.db.outage === undefined)
      await Promise.race([said, new Promise<void>((away) => this.db.onOutage(() => away()))]);
    this.pipeline.end(reason);
    this.endWaits();
    // Those who waited read their job once more before the connections go.
    await new Promise((resolve) => setImmediate(resolve));
    await this.db.close();
  }

  /** The highest number given so far. */
  lastSeq(): number {
    return (this.#lastTick + 1) * SHARDS - 1;
  }

  readonly seqAt = seqAt;

  nextSeq(shard: number): number {
    this.#lastTick = Math.max(this.#lastTick + 1, (this.clock() - SEQ_EPOCH_MS) * SEQS_PER_MS);
    return this.#lastTick * SHARDS + shard;
  }

  // Rows that are at hand.

  record(id: string): JobRecord | undefined {
    return this.#batch.get(id) ?? this.#records.get(id);
  }

  /** The one record of a row that was read. */
  adopt(row: ReadRow, place: "open" | "done"): JobRecord {
    const known = this.record(row.id);
    if (known !== undefined) return known;
    const record = recordOf(row, place);
    this.#batch.set(row.id, record);
    return record;
  }

  /** Reads the job's row for the work that comes. Resolves what its chunks count. */
  async need(query: Query, jobId: string): Promise<number> {
    const found = await findRow(query, jobId);
    if (found === undefined) return 0;
    const { place, chunk_bytes = 0, chunk_count = 0, ...row } = found;
    this.adopt(row, place);
    return chunk_bytes + chunk_count * STREAM_CHUNK_COST_BYTES;
  }

  // Parts of a batch.

  made(record: JobRecord): void {
    this.#batch.set(record.id, record);
    this.changed(record);
  }

  changed(record: JobRecord): void {
    this.unit.jobs.add(record);
    this.counted(this.live.of(record.endpoint));
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
      this.#lastNumber++;
      this.live.numbered(endpoint, this.#lastNumber * SHARDS + this.shard(endpoint));
      this.unit.newEndpoints.add(endpoint);
    }
    return endpoint.number;
  }

  removed(endpoint: EndpointState): void {
    if (!this.unit.newEndpoints.delete(endpoint)) this.unit.goneEndpoints.push(endpoint.number);
    this.unit.endpoints.delete(endpoint);
    this.#journalled.delete(endpoint);
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
    record.fence = this.ownership.nextFence(record.fence);
    Object.assign(record, { state: IN_PROGRESS, worker_id: workerId, started_at: now });
    this.changed(record);
    return record.fence;
  }

  async #readHeads(query: Query, endpoint: EndpointState): Promise<undefined> {
    if (endpoint.number === 0 || endpoint.claims.length === 0) return;
    const wanted = endpoint.claims.reduce((sum, { room }) => sum + room, 0);
    for (;;) {
      const lacking = this.heads.lacking(endpoint, wanted);
      if (lacking === undefined) return;
      const { lowPriority, after } = lacking;
      const rows = await queuedAfter(query, endpoint.number, lowPriority, after, QUEUE_READ_ROWS);
      if (rows.length === 0) return;
      const jobs = rows.map((row) => {
        const record = this.adopt(row, "open");
        record.input ??= row.input_ref ?? row.input!;
        return record;
      });
      this.heads.filled(endpoint, lowPriority, jobs, after);
    }
  }

  async #write(): Promise<void> {
    this.handOut();
    const { unit } = this;
    const changes = unit.changes();
    const mustFold = this.#mustFold || this.#batches >= QUEUE_FOLD_BATCHES;
    const counts: number[][] = [];
    const add = (part: Part<never>, rows: readonly unknown[]) => rows.length > 0 && changes.set(part, rows);
    add(
      ENDPOINT_IN as Part<never>,
      [...unit.newEndpoints].map((endpoint) => {
        const [number, ...values] = countsOf(endpoint);
        return [number, endpoint.id, this.shard(endpoint), ...values];
      }),
    );
    for (const endpoint of unit.endpoints) {
      if (unit.newEndpoints.has(endpoint)) continue;
      this.#journalled.add(endpoint);
      if (!mustFold) counts.push(countsOf(endpoint));
    }
    const fence = this.ownership.fence(
      new Set([...unit.endpoints, ...unit.newEndpoints].map((e) => this.shard(e))),
      this.lastSeq(),
    );
    if (mustFold) {
      const stored = [...this.#journalled].filter(
        (endpoint) => endpoint.number > 0 && !unit.newEndpoints.has(endpoint),
      );
      add(ENDPOINT_UP as Part<never>, stored.map(countsOf));
      add(JOURNAL_OUT as Part<never>, [[fence.epoch, fence.n]]);
    }
    const statement = statementOf(changes, fence, JSON.stringify(counts), this.#texts);
    if (statement === undefined) return;
    for (;;) {
      const [answer] = await this.db.write<StatementAnswer>(statement.text, statement.values, statement.name);
      if (answer!.log === 1 || answer!.before === 1) {
        for (const reference of answer!.refs ?? []) if (!this.taking.has(reference)) this.bodies.drop(reference);
        break;
      }
      if (answer!.own < fence.shards.length) throw this.#lose();
      // An earlier try was committed while this one waited for it: the next look sees it.
    }
    this.#batches = mustFold ? 0 : this.#batches + 1;
    if (mustFold) {
      this.#mustFold = false;
      this.#journalled.clear();
    }
  }

  #committed(): void {
    const { unit } = this;
    this.unit = new Unit();
    for (const record of [...unit.jobs, ...this.#batch.values()]) this.#settle(record);
    this.#batch.clear();
    for (const reference of unit.refsGone) this.bodies.drop(reference);
    for (const endpoint of this.release()) {
      const starves = endpoint.claims.length > 0 && endpoint.inQueue > 0;
      if (starves) this.feed(endpoint).catch(() => {}); // The claims were told.
    }
  }

  /** The record stays as long as it is needed at hand. */
  #settle(record: JobRecord): void {
    if (!record.isGone && record.state <= IN_PROGRESS) record.stored = "open";
    else record.stored = "done";
    record.storedFence = record.fence;
    const isQueued = this.heads.has(record);
    if (!isQueued && typeof record.input !== "string") record.input = undefined;
    if (isQueued || this.live.running.get(record.id)?.fence === record.fence) this.#records.set(record.id, record);
    else this.#records.delete(record.id);
  }

  async #rolledBack(error: unknown): Promise<unknown> {
    const reason = this.takeBack(error);
    this.unit = new Unit();
    this.#loaded(await this.db.insist(loadState));
    return reason;
  }

  #loaded(state: LoadedState): void {
    this.heads.clear();
    this.#records.clear();
    this.#batch.clear();
    this.live.load(state);
    for (const row of state.runningRows) this.#records.set(row.id, recordOf(row, "open"));
    this.#journalled.clear();
    this.#mustFold = state.isJournalled;
    for (const endpoint of state.isJournalled ? this.live.endpoints.values() : []) {
      if (endpoint.number > 0) this.#journalled.add(endpoint);
    }
    this.#lastTick = Math.max(this.#lastTick, Math.floor(state.lastSeq / SHARDS));
    for (const { number } of this.live.endpoints.values()) {
      this.#lastNumber = Math.max(this.#lastNumber, Math.floor(number / SHARDS));
    }
  }

  #lose(): SvcError {
    const error = new SvcError(
      "SHUTTING_DOWN",
      "Another platform has taken over this database; this one has stopped.",
      {
        help: "Run one platform on a database. Give each its own in SVC_DATABASE_URL.",
      },
    );
    this.pipeline.end(error);
    this.endWaits();
    this.lost(error);
    return error;
  }
}

/** The number, then as COUNTED. */
function countsOf(endpoint: EndpointState): number[] {
  const { number, inQueue, inQueueLowPriority, delayed, completed, failed, retried } = endpoint;
  const counts: Record<(typeof COUNTED)[number], number> = {
    in_queue: inQueue,
    in_queue_low: inQueueLowPriority,
    delayed,
    completed,
    failed,
    retried,
  };
  return [number, ...COUNTED.map((name) => counts[name])];
}
