/** Every route below /v2/<endpoint>, by name. */
import type { JobRoute } from "./job-route.ts";
import { cancel } from "./routes/cancel.ts";
import { health } from "./routes/health.ts";
import { purgeQueue } from "./routes/purge-queue.ts";
import { requests } from "./routes/requests.ts";
import { retry } from "./routes/retry.ts";
import { run } from "./routes/run.ts";
import { runsync } from "./routes/runsync.ts";
import { status } from "./routes/status.ts";
import { statusSync } from "./routes/status-sync.ts";
import { stream } from "./routes/stream.ts";

export const JOB_ROUTES: ReadonlyMap<string, JobRoute> = new Map(
  [run, runsync, status, statusSync, stream, cancel, retry, purgeQueue, health, requests].map((route) => [
    route.name,
    route,
  ]),
);
