/** What calls need of the store at once: kept in memory, and dropped as soon as the store says that it changed. */
import { CACHED_BUILDS_MAX, CACHED_ENDPOINTS_MAX } from "../domain/limits.ts";
import { type Cached, cached } from "../lib/cached.ts";
import type { Endpoint, Store, Worker, WorkerRepository } from "./store.ts";

/** Endpoints by id. */
export function createEndpointCache(store: Store): Pick<Cached<Endpoint>, "find"> {
  const endpoints = cached(CACHED_ENDPOINTS_MAX, (id) => store.endpoints.find(id));
  store.onChange(({ table, id }) => {
    if (table === "endpoints") endpoints.changed(id);
  });
  return endpoints;
}

/** The source layer of each build, by the build's id. A build never changes, so what is known stays true. */
export function createSourceLayers(store: Store): Cached<string>["find"] {
  return cached(CACHED_BUILDS_MAX, async (id) => (await store.builds.find(id))?.manifest.sourceLayer).find;
}

/**
 * The store, with the tokens of workers that were just made in memory: a cold start does not wait for a look-up in the database,
 * and a worker that comes up, or ends, sooner than its row is written waits for that. What is kept of a worker goes with its first change,
 * whoever makes it.
 */
export function withWorkerTokens(store: Store): Store {
  /** Of rows that are being written, by their tokens and ids. */
  const coming = new Map<string, Promise<void>>();
  const fresh = new Map<string, Worker>();
  const tokens = new Map<string, string>();
  store.onChange(({ table, id }) => {
    if (table !== "workers") return;
    fresh.delete(tokens.get(id) ?? "");
    tokens.delete(id);
  });
  const workers: WorkerRepository = {
    ...store.workers,
    async insert(worker) {
      const names = [worker.tokenHash, worker.id];
      const written = store.workers.insert(worker);
      for (const name of names) coming.set(name, written);
      await written.finally(() => {
        for (const name of names) coming.delete(name);
      });
      fresh.set(worker.tokenHash, worker);
      tokens.set(worker.id, worker.tokenHash);
    },
    async find(id) {
      await coming.get(id)?.catch(() => {});
      return store.workers.find(id);
    },
    async findByToken(tokenHash) {
      await coming.get(tokenHash)?.catch(() => {});
      return fresh.get(tokenHash) ?? (await store.workers.findByToken(tokenHash));
    },
  };
  return { ...store, workers };
}
