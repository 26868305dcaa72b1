/** The queue's memory on its SQLite rows: statements, and batches that are one transaction each. */
import { STREAM_CHUNK_COST_BYTES } from "../../domain/limits.ts";
import { type StorageWatch, UNWATCHED } from "../../domain/storage.ts";
import { GroupCommit } from "../../lib/group-commit.ts";
import type { SqliteDatabase } from "../../lib/sqlite.ts";
import type { Body } from "../machine/job-row.ts";
import type { EndpointState } from "../machine/live-state.ts";
import { type QueueBounds, type QueueClocks, QueueMachine } from "../machine/machine.ts";
import type { ClaimHooks } from "../machine/pending-claims.ts";
import type { BodyFiles } from "./body-files.ts";
import { deleteLone, lastSeq, storedState } from "./load.ts";
import { prepareStatements, type Statements } from "./statements.ts";

/** Bodies: those in files. */
interface DeletedRow {
  readonly endpoint: number;
  readonly hooked: number;
  readonly input: string | null;
  readonly output: string | null;
  readonly error: string | null;
}

export class QueueCore extends QueueMachine {
  readonly sql: Statements;
  readonly files: BodyFiles;
  readonly #commit: GroupCommit;
  #lastSeq = 0;

  constructor(
    database: SqliteDatabase,
    files: BodyFiles,
    clocks: QueueClocks,
    bounds: QueueBounds,
    storage: StorageWatch = UNWATCHED,
  ) {
    const sql = prepareStatements(database.connection);
    super(clocks, bounds, storage, {
      nextQueued: (endpoint, count) =>
        sql.nextQueued.all(endpoint.number, count) as unknown as ReturnType<ClaimHooks["nextQueued"]>,
      claimed: (row, workerId, now) => {
        sql.claim.run(row.fence + 1, workerId, now, row.seq);
        return row.fence + 1;
      },
      readBody: (reference) => files.read(reference),
      deleteExpired: (seq, id) => this.delete(seq, id),
      waitsAgain: (endpoint) => this.feed(endpoint),
      keep: (read) => storage.keep(read),
    });
    this.sql = sql;
    this.files = files;
    deleteLone(sql, this.#load());
    this.sweepAll();
    this.#commit = new GroupCommit(database, {
      beforeCommit: () => this.handOut(),
      afterCommit: () => this.release(),
      rolledBack: (error) => {
        const reason = this.takeBack(error);
        this.#load();
        return reason;
      },
    });
  }

  run<T>(work: () => T): Promise<T> {
    return this.#commit.run(work);
  }

  keep<T>(work: () => T): Promise<T> {
    return this.storage.keep(() => this.run(work));
  }

  feed(endpoint: EndpointState): Promise<void> {
    return this.keep(() => this.touch(endpoint));
  }

  close(reason: Error): void {
    this.#commit.close(reason);
    this.endWaits();
  }

  nextSeq(): number {
    return ++this.#lastSeq;
  }

  /** What storedState found of endpoints that are gone. */
  #load(): ReadonlySet<number> {
    // All is read before anything is changed: a read may fail.
    const seq = lastSeq(this.sql);
    const stored = storedState(this.sql);
    this.live.load(stored);
    this.#lastSeq = Math.max(this.#lastSeq, seq);
    return stored.lone;
  }

  // Parts of a batch.

  /** Gives the endpoint its row. */
  number(endpoint: EndpointState): number {
    if (endpoint.number === 0) {
      this.live.numbered(endpoint, (this.sql.insertEndpoint.get(endpoint.id) as { number: number }).number);
    }
    return endpoint.number;
  }

  readonly isNamed = (name: string): boolean => this.sql.namesFile.get(name) !== undefined;

  named(endpoint: EndpointState, ...bodies: (Body | null)[]): void {
    for (const body of bodies) if (typeof body === "string") endpoint.files.named(body);
  }

  unnamed(endpoint: EndpointState, ...bodies: (Body | null)[]): void {
    for (const body of bodies) {
      if (typeof body !== "string") continue;
      endpoint.files.unnamed(body);
      this.files.dropped(body);
    }
  }

  owedWebhook(seq: number, url: string): void {
    this.sql.insertWebhook.run(seq, URL.parse(url)?.host ?? "", this.clock());
  }

  addRetry(endpoint: EndpointState): void {
    this.sql.addTotals.run(0, 0, 1, endpoint.number);
    endpoint.retried++;
  }

  /** Deletes a job's row, its chunks and what its files were kept for. The caller keeps the counts right. */
  delete(seq: number, id: string): void {
    const row = this.sql.delete.get(seq) as DeletedRow | undefined;
    if (row !== undefined) {
      const endpoint = this.live.of(row.endpoint);
      this.unnamed(endpoint, row.input, row.output, row.error);
      if (row.hooked === 1) this.sql.dropWebhook.run(seq);
      this.dropChunks(seq, id, endpoint);
    }
    this.deleted(id);
  }

  dropChunks(seq: number, id: string, endpoint: EndpointState): void {
    if (this.sql.anyChunk.get(seq) === undefined) return;
    for (const { bytes, body } of this.sql.dropChunks.all(seq) as unknown as { bytes: number; body: Body }[]) {
      this.live.chunks(endpoint, id, -(bytes + STREAM_CHUNK_COST_BYTES));
      if (typeof body === "string") this.files.dropped(body);
    }
  }
}
