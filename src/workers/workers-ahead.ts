/**
 * Workers that are started for endpoints before those come to this platform: another one, which is about to give their shard, asks for them
 * and waits for the answer.
 *
 *   asked ──prepared, and there is room──▶ starting ──its code is loaded──▶ ready ──the endpoint comes──▶ it has a row, and gets work
 *     └──somebody waits for room──▶ none      └──it fails, others need its room, or nothing comes for WORKER_AHEAD_MAX_MS──▶ ended
 *
 * They have no row: who has the endpoint does not know of them, and counts nothing of them out. What a platform that is killed leaves of
 * them it ends when it starts again, as any worker without a row.
 */
import { SvcError } from "../domain/errors.ts";
import { CANCEL_GRACE_MS, WORKER_AHEAD_MAX_MS, WORKERS_AHEAD_MAX } from "../domain/limits.ts";
import { isLiveName } from "../domain/names.ts";
import type { IsMine } from "../domain/own-endpoints.ts";
import { isRemoved } from "../domain/removal.ts";
import type { AheadWish } from "../domain/worker.ts";
import type { Endpoint, Store, Worker } from "../store/store.ts";
import type { Images } from "./images.ts";
import { newWorkerId, type StartDeps, startWorker } from "./start-worker.ts";

interface AheadDeps extends Omit<StartDeps, "store"> {
  readonly store: Store;
  readonly isMine: IsMine;
  readonly images: Pick<Images, "makeReady" | "of">;
  /** Endpoints wait for room for their workers. */
  readonly isCrowded: () => boolean;
  /** It has a row, and may get work. */
  readonly adopted: (workerId: string) => void;
  readonly log: (line: string) => void;
  readonly onError: (error: unknown) => void;
}

interface Ahead {
  readonly id: string;
  readonly endpoint: Endpoint;
  /** Resolves when it is ready, or is none any more. */
  readonly settled: PromiseWithResolvers<void>;
  /** Resolves when its start is under way, or was refused. */
  started: Promise<void>;
  /** That it is to have; undefined before it is being started. */
  row: Worker | undefined;
  isReady: boolean;
  adopting: Promise<void> | undefined;
  late: NodeJS.Timeout | undefined;
}

export class WorkersAhead {
  readonly #deps: AheadDeps;
  readonly #all = new Map<string, Ahead>();
  #isClosed = false;

  constructor(deps: AheadDeps) {
    this.#deps = deps;
  }

  /**
   * Resolves how many workers are ready for these endpoints when those that can be are, or have failed. Of machines that platforms share
   * none is started ahead: their room is counted elsewhere.
   */
  async prepare(wishes: readonly AheadWish[]): Promise<number> {
    await this.#deps.images.makeReady(wishes.map(({ endpointId }) => endpointId));
    if (this.#deps.driver.endsAstray !== undefined) return 0;
    const ready = await Promise.all(wishes.map((wish) => this.#prepare(wish)));
    return ready.reduce((sum, count) => sum + count, 0);
  }

  has(workerId: string): boolean {
    return this.#all.has(workerId);
  }

  /** The row that it is to have. */
  find(workerId: string): Worker | undefined {
    return this.#all.get(workerId)?.row;
  }

  ofToken(tokenHash: string): Worker | undefined {
    for (const { row } of this.#all.values()) if (row?.tokenHash === tokenHash) return row;
    return undefined;
  }

  /** Its code is loaded. False: it is none of them, or no more. */
  ready(workerId: string): boolean {
    const one = this.#all.get(workerId);
    if (one === undefined) return false;
    one.isReady = true;
    one.settled.resolve();
    return true;
  }

  /** False: it is none of them. */
  failed(workerId: string): boolean {
    if (!this.#all.has(workerId)) return false;
    this.#end(workerId);
    return true;
  }

  exited(workerId: string): void {
    this.#forget(workerId);
  }

  /** These endpoints are here. Undefined: nothing was started ahead for them. Resolves when those workers are as any others. */
  adopt(isMeant: IsMine): Promise<unknown> | undefined {
    const own = this.#of(isMeant);
    if (own.length === 0) return undefined;
    for (const one of own) one.adopting ??= this.#adopt(one).catch(this.#deps.onError);
    return Promise.all(own.map(({ adopting }) => adopting));
  }

  /** Others wait for their room. */
  giveUp(): void {
    for (const { id, adopting } of [...this.#all.values()]) if (adopting === undefined) this.#end(id);
  }

  /** None is started any more. */
  close(): void {
    this.#isClosed = true;
    this.giveUp();
  }

  async #prepare({ endpointId, revision, workers }: AheadWish): Promise<number> {
    const { store, images, isMine, isCrowded, log } = this.#deps;
    const endpoint = await store.endpoints.find(endpointId);
    // One that has newer code gets workers of that when it comes.
    if (endpoint?.revision !== revision || isRemoved(endpoint) || isLiveName(endpoint.name)) return 0;
    const prepared = images.of(endpoint);
    if (prepared === undefined || prepared.image.pulls !== undefined || isMine(endpointId)) return 0;
    const wanted = Math.min(workers, endpoint.workersMax);
    const its = () => this.#of((id) => id === endpointId).filter((one) => one.endpoint.revision === revision);
    let starts = 0;
    while (its().length < wanted && this.#all.size < WORKERS_AHEAD_MAX) {
      if (this.#isClosed || isCrowded()) break;
      this.#start(endpoint, prepared);
      starts++;
    }
    const own = its();
    for (const one of own) this.#keep(one);
    await Promise.all(own.map(({ settled }) => settled.promise));
    const ready = own.filter(({ id, isReady }) => isReady && this.#all.has(id)).length;
    if (starts > 0)
      log(`${endpoint.name}: ${ready} of ${wanted} workers are ready, before it comes from another platform`);
    return ready;
  }

  #start(endpoint: Endpoint, prepared: NonNullable<ReturnType<Images["of"]>>): void {
    const one: Ahead = {
      ...{ id: newWorkerId(), endpoint, settled: Promise.withResolvers<void>() },
      ...{ started: Promise.resolve(), row: undefined, isReady: false, adopting: undefined, late: undefined },
    };
    this.#all.set(one.id, one);
    const workers = {
      async insert(row: Worker) {
        one.row = row;
      },
      async delete() {},
    };
    const deps = { ...this.#deps, store: { workers } };
    one.started = startWorker(deps, one.id, endpoint, prepared, { beyondCapacity: false }).catch((error: unknown) => {
      this.#forget(one.id);
      // There is no room, or another reason that whoever starts workers tells when they are needed.
      if (!(error instanceof SvcError)) this.#deps.onError(error);
    });
  }

  /** For so long from now on. */
  #keep(one: Ahead): void {
    clearTimeout(one.late);
    if (one.adopting === undefined) one.late = setTimeout(() => this.#end(one.id), WORKER_AHEAD_MAX_MS).unref();
  }

  async #adopt(one: Ahead): Promise<void> {
    const { store, adopted } = this.#deps;
    const { id, endpoint } = one;
    clearTimeout(one.late);
    await one.started;
    const now = await store.endpoints.find(endpoint.id);
    if (!this.#all.has(id)) return;
    if (now?.revision !== endpoint.revision) return this.#end(id);
    try {
      await store.workers.insert(one.row!);
    } catch (error) {
      this.#end(id);
      // Nobody needs it where its endpoint was removed just now.
      if ((await store.endpoints.find(endpoint.id)) !== undefined) throw error;
    }
    // It ended meanwhile.
    if (!this.#all.has(id)) return store.workers.delete(id);
    this.#forget(id);
    if (one.isReady) adopted(id);
  }

  #of(isMeant: IsMine): Ahead[] {
    return [...this.#all.values()].filter(({ endpoint }) => isMeant(endpoint.id));
  }

  #end(workerId: string): void {
    this.#forget(workerId);
    this.#deps.driver.stop(workerId, CANCEL_GRACE_MS).catch(this.#deps.onError);
  }

  #forget(workerId: string): void {
    const one = this.#all.get(workerId);
    if (one === undefined) return;
    clearTimeout(one.late);
    this.#all.delete(workerId);
    one.settled.resolve();
  }
}
