import type { Store, Worker, WorkerRepository } from "./store.ts";

/**
 * The store, with the tokens of workers that were just made in memory: a cold start does not wait for a look-up in the database.
 * What is kept of a worker goes with its first change, whoever makes it.
 */
export function withWorkerTokens(store: Store): Store {
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
      await store.workers.insert(worker);
      fresh.set(worker.tokenHash, worker);
      tokens.set(worker.id, worker.tokenHash);
    },
    async findByToken(tokenHash) {
      return fresh.get(tokenHash) ?? (await store.workers.findByToken(tokenHash));
    },
  };
  return { ...store, workers };
}
