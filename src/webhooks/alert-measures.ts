/** What alerts measure: endpoints that cannot run, failures of the last minutes, the longest wait, the disk. */
import type { AlertKind } from "../domain/alert.ts";
import { ALERT_ERRORS_MIN, LOAD_SPAN_MS, SERIES_MINUTE_MS } from "../domain/limits.ts";
import { isRemoved } from "../domain/removal.ts";
import { metricOf } from "../domain/series.ts";
import type { WorkerView } from "../domain/worker.ts";
import type { SeriesStore } from "../history/series-store.ts";
import type { JobReader } from "../queue/queue.ts";
import type { AlertRecord } from "../store/alerts.ts";
import type { Endpoint, Store } from "../store/store.ts";
import type { Measured } from "./alerts.ts";

export interface MeasureDeps {
  readonly store: Pick<Store, "endpoints">;
  readonly queue: Pick<JobReader, "counts">;
  readonly workers: Pick<WorkerView, "health">;
  readonly series: Pick<SeriesStore, "read">;
  /** Of requests, in milliseconds. */
  readonly oldestWaitMs: (endpointId: string) => number | Promise<number>;
  readonly machine: { disk(): Promise<{ readonly freeBytes: number; readonly totalBytes: number }> };
  /** Milliseconds since the epoch. */
  readonly clock: () => number;
}

type About = Pick<AlertRecord, "kind" | "environmentId" | "endpointId" | "threshold">;

export function measures(deps: MeasureDeps): (alert: About) => Promise<Measured> {
  const measured: Readonly<Record<Exclude<AlertKind, "disk.full">, (endpoint: Endpoint) => Promise<One | undefined>>> =
    {
      "endpoint.blocked": async ({ id }) => {
        const { state, reason } = await deps.workers.health(id);
        return state === "BLOCKED" ? { value: 1, words: reason.split("\n")[0] ?? "" } : undefined;
      },
      "errors.rate": (endpoint) => errorRate(endpoint, deps),
      "wait.oldest": async ({ id, kind }) => {
        const { oldestQueuedAt } = await deps.queue.counts(id);
        const waitedMs =
          kind === "load-balanced"
            ? await deps.oldestWaitMs(id)
            : oldestQueuedAt === null
              ? 0
              : deps.clock() - oldestQueuedAt;
        const seconds = Math.max(0, Math.round(waitedMs / 1_000));
        return { value: seconds, words: `waits for ${seconds} s` };
      },
    };
  return async ({ kind, environmentId, endpointId, threshold }) => {
    if (kind === "disk.full") return diskUse(await deps.machine.disk());
    const all = (await deps.store.endpoints.list()).filter((one) => !isRemoved(one));
    const ofIt = all.filter(
      (one) =>
        (endpointId === null || one.id === endpointId) &&
        (environmentId === null || one.environmentId === environmentId),
    );
    let value = 0;
    const subjects: string[] = [];
    for (const endpoint of ofIt) {
      const one = await measured[kind](endpoint);
      if (one === undefined) continue;
      value = Math.max(value, one.value);
      if (one.value >= threshold) subjects.push(`${endpoint.name} (${endpoint.id}): ${one.words}`);
    }
    return { value, subjects };
  };
}

interface One {
  readonly value: number;
  readonly words: string;
}

/** In percent; undefined where too little ran to say. */
async function errorRate({ id, kind }: Endpoint, { series, clock }: MeasureDeps): Promise<One | undefined> {
  const to = clock();
  const sum = async (name: string): Promise<number> => {
    const question = {
      metric: metricOf(name)!,
      ids: [id],
      from: to - LOAD_SPAN_MS,
      to,
      stepMs: SERIES_MINUTE_MS,
    };
    return (await series.read(question)).points.reduce((total, { value }) => total + (value ?? 0), 0);
  };
  const [bad, all] = kind === "queue" ? ["failed", "done"] : ["requests.5xx", "requests"];
  const [failed, ended] = await Promise.all([sum(bad!), sum(all!)]);
  if (ended < ALERT_ERRORS_MIN) return undefined;
  const percent = Math.round((1_000 * failed) / ended) / 10;
  return { value: percent, words: `${failed} of ${ended} failed (${percent} %)` };
}

function diskUse({ freeBytes, totalBytes }: { readonly freeBytes: number; readonly totalBytes: number }): Measured {
  const percent = totalBytes === 0 ? 0 : Math.round((1_000 * (totalBytes - freeBytes)) / totalBytes) / 10;
  return { value: percent, subjects: [`the disk of the data directory is ${percent} % full`] };
}
