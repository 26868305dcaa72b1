/** Preloaded into a platform (NODE_OPTIONS=--import): its pool is so slow to stop a worker that it never does. */
import { WorkerPool } from "../../src/workers/worker-pool.ts";

WorkerPool.prototype.stop = async () => {};
