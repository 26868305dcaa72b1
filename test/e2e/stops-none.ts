/** Preloaded into a platform (NODE_OPTIONS=--import): its pool is so slow to stop a worker that it never does. */
import { WorkerPool } from "../../src/reconcilers/worker-pool.ts";

WorkerPool.prototype.stop = async () => {};
