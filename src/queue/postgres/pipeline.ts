/**
 * Batches of work, one after the other, each one statement:
 *
 *   run(a) run(b) … ──setImmediate──▶ what they need is read ──▶ a b … handOut ──▶ sent … committed ──▶ promises settle, effects
 *                                          what comes meanwhile is the next batch ──▶ …
 *
 * What was handed out early (early-jobs.ts) runs before it is sent: what comes within a moment, their ends among it, goes with them.
 *
 * So batches grow by themselves with the time that a commit takes. Work is synchronous, sees what all work before it did, and must
 * throw before it changes anything. A batch that was not written is forgotten: what is in memory is read again.
 */
import { QUEUE_BATCH_MAX_BYTES, QUEUE_BATCH_MAX_ITEMS } from "../../domain/limits.ts";
import type { Query } from "./connection.ts";

export interface RunOptions<L> {
  /** Reads what the work needs, when nothing is being written. */
  readonly load?: (query: Query) => Promise<L>;
  /** Read before that, when the batch collided with an id that is there already and is done again piece by piece. */
  readonly careful?: (query: Query) => Promise<unknown>;
  /** What it adds to the statement, roughly. */
  readonly bytes?: number;
  /** Its caller is told when the database stays away. */
  readonly isImpatient?: boolean;
  /** The job that it ends. */
  readonly ends?: string;
}

interface Item extends RunOptions<unknown> {
  readonly work: ((loaded: unknown) => unknown) | undefined;
  /** In place of work: statements of its own. */
  readonly alone?: (query: Query) => Promise<unknown>;
  /** As alone, without a connection. */
  readonly between?: () => Promise<unknown>;
  readonly resolve: (value: unknown) => void;
  readonly reject: (error: unknown) => void;
  isCareful: boolean;
  value: unknown;
  error: unknown;
  failed: boolean;
}

export interface PipelineHooks {
  /** Reads, several things at a time. */
  load<T>(work: (query: Query) => Promise<T>): Promise<T>;
  /** On the writer's connection. */
  alone<T>(work: (query: Query) => Promise<T>): Promise<T>;
  /** The last work of a batch. Returns jobs that run already, by id: their ends are worth a moment's wait. */
  handOut(): ReadonlyMap<string, unknown>;
  /** Calls `done` when that moment is over, unless what is returned is called before. */
  inAMoment(done: () => void): () => void;
  /** Its statement until it is carried out. Rejects when it was not and will not be. */
  write(): Promise<void>;
  /** After the promises of the batch were settled. */
  committed(): void;
  /** Reads what is in memory again; resolves what the batch is rejected with. */
  rolledBack(error: unknown): Promise<unknown>;
  /** Whether two jobs of the batch, or one and an earlier one, have the same id. */
  isCollision(error: unknown): boolean;
  /** Whether the batch is done again: what cannot be done any more throws in its work then. */
  isToRepeat(error: unknown): boolean;
}

export class Pipeline {
  readonly #hooks: PipelineHooks;
  #pending: Item[] = [];
  #writing: readonly Item[] = [];
  #running: Promise<void> | undefined;
  #ended: unknown;
  /** A batch waits for the ends of these. */
  #coming: { readonly jobs: Set<string>; readonly came: () => void } | undefined;

  constructor(hooks: PipelineHooks) {
    this.#hooks = hooks;
  }

  /** Whether work is on its way whose effects are in memory, and perhaps not in the rows. */
  get isWriting(): boolean {
    return this.#writing.length > 0;
  }

  run<T, L = undefined>(work: (loaded: L) => T, options: RunOptions<L> = {}): Promise<T> {
    return this.#add({ ...(options as RunOptions<unknown>), work: work as (loaded: unknown) => unknown }) as Promise<T>;
  }

  /** Between two batches. It may be carried out more than once. */
  alone<T>(statements: (query: Query) => Promise<T>): Promise<T> {
    return this.#add({ work: undefined, alone: statements }) as Promise<T>;
  }

  /** When nothing of a batch is under way. Carried out once. */
  between<T>(work: () => Promise<T>): Promise<T> {
    return this.#add({ work: undefined, between: work }) as Promise<T>;
  }

  /** The database stays away: callers that can come again are told. What is on its way may be carried out yet. */
  refuse(error: unknown): void {
    for (const item of [...this.#writing, ...this.#pending]) if (item.isImpatient) item.reject(error);
    this.#pending = this.#pending.filter((item) => !item.isImpatient);
  }

  /** Nothing is done any more. */
  end(error: unknown): void {
    this.#ended ??= error;
    for (const item of [...this.#writing, ...this.#pending.splice(0)]) item.reject(this.#ended);
  }

  async idle(): Promise<void> {
    while (this.#running !== undefined) await this.#running;
  }

  #add(item: Pick<Item, "work" | "alone" | "between"> & RunOptions<unknown>): Promise<unknown> {
    return new Promise((resolve, reject) => {
      if (this.#ended !== undefined) return reject(this.#ended);
      const { load, ...others } = item;
      this.#pending.push({
        ...others,
        ...(load !== undefined && { load }),
        resolve,
        reject,
        isCareful: false,
        value: undefined,
        error: undefined,
        failed: false,
      });
      if (item.ends !== undefined) this.#cameIn(item.ends);
      this.#running ??= this.#drain().finally(() => {
        this.#running = undefined;
      });
    });
  }

  async #drain(): Promise<void> {
    for (;;) {
      // All of this turn, and what is done in answer to the batch before, goes together.
      await new Promise((resolve) => setImmediate(resolve));
      if (this.#pending.length === 0 || this.#ended !== undefined) return;
      const batch = this.#take();
      this.#writing = batch;
      try {
        if (batch[0]!.work === undefined) await this.#alone(batch[0]!);
        else await this.#batch(batch);
      } finally {
        this.#writing = [];
      }
    }
  }

  #take(): Item[] {
    const first = this.#pending[0]!;
    if (first.work === undefined || first.isCareful) return this.#pending.splice(0, 1);
    return this.#takeWork();
  }

  #takeWork(batch: readonly Item[] = [], fits: (item: Item) => boolean = () => true): Item[] {
    let bytes = 0;
    let count = 0;
    for (const item of batch) bytes += item.bytes ?? 0;
    for (const item of this.#pending) {
      if (item.work === undefined || item.isCareful || !fits(item)) break;
      if (batch.length + count === QUEUE_BATCH_MAX_ITEMS || bytes > QUEUE_BATCH_MAX_BYTES) break;
      bytes += item.bytes ?? 0;
      count++;
    }
    return this.#pending.splice(0, count);
  }

  async #alone(item: Item): Promise<void> {
    try {
      item.resolve(await (item.alone === undefined ? item.between!() : this.#hooks.alone(item.alone)));
    } catch (error) {
      item.reject(error);
    }
  }

  async #batch(batch: Item[]): Promise<void> {
    try {
      const loaded = batch.some(isNeedy) ? await this.#load(batch) : [];
      for (const [index, item] of batch.entries()) attempt(item, loaded[index]);
      const early = this.#hooks.handOut();
      if (early.size > 0) {
        await this.#comeIn(early);
        if (this.#ended !== undefined) return;
        const more = this.#takeWork(batch, (item) => !isNeedy(item));
        batch.push(...more);
        for (const item of more) attempt(item, undefined);
        this.#hooks.handOut();
      }
      await this.#hooks.write();
    } catch (error) {
      await this.#rollBack(batch, error);
      return;
    }
    if (this.#ended !== undefined) return;
    for (const item of batch) {
      if (item.failed) item.reject(item.error);
      else item.resolve(item.value);
    }
    this.#writing = [];
    this.#hooks.committed();
  }

  /** Resolves when all these ended, or that takes too long. */
  async #comeIn(early: ReadonlyMap<string, unknown>): Promise<void> {
    const jobs = new Set(early.keys());
    for (const { ends } of this.#pending) if (ends !== undefined) jobs.delete(ends);
    if (jobs.size === 0) return;
    await new Promise<void>((resolve) => {
      const callOff = this.#hooks.inAMoment(resolve);
      this.#coming = {
        jobs,
        came() {
          callOff();
          resolve();
        },
      };
    });
    this.#coming = undefined;
  }

  #cameIn(jobId: string): void {
    if (this.#coming?.jobs.delete(jobId) && this.#coming.jobs.size === 0) this.#coming.came();
  }

  #load(items: readonly Item[]): Promise<unknown[]> {
    return this.#hooks.load(async (query) => {
      for (const { isCareful, careful } of items) if (isCareful) await careful?.(query);
      return await Promise.all(items.map((item) => item.load?.(query)));
    });
  }

  async #rollBack(batch: readonly Item[], error: unknown): Promise<void> {
    let reason = error;
    try {
      reason = await this.#hooks.rolledBack(error);
    } catch (failure) {
      this.end(failure);
      return;
    }
    if (this.#hooks.isToRepeat(error)) {
      for (const item of batch) Object.assign(item, { failed: false, error: undefined });
      this.#pending.unshift(...batch);
      return;
    }
    const isCollision = this.#hooks.isCollision(error) && !batch.some(({ isCareful }) => isCareful);
    if (!isCollision) {
      for (const item of batch) item.reject(item.failed ? item.error : reason);
      return;
    }
    for (const item of batch) Object.assign(item, { isCareful: true, failed: false, error: undefined });
    this.#pending.unshift(...batch);
  }
}

function isNeedy({ load, careful, isCareful }: Item): boolean {
  return load !== undefined || (isCareful && careful !== undefined);
}

function attempt(item: Item, loaded: unknown): void {
  try {
    item.value = item.work!(loaded);
  } catch (error) {
    item.failed = true;
    item.error = error;
  }
}
