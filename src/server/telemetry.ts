/** What the platform records of itself, wired: counts and samples become series, metrics and events. */
import { statfs } from "node:fs/promises";
import path from "node:path";
import type { DatabaseSync } from "node:sqlite";
import type { ControlPlaneDeps } from "../control-plane/context.ts";
import { errorKind, requestErrorKind } from "../domain/error-kind.ts";
import type { HostsView } from "../domain/host.ts";
import type { EndedRequest } from "../domain/request.ts";
import type { Traces } from "../domain/traces.ts";
import type { ScalingDecision, WorkerBoot } from "../domain/worker.ts";
import type { WorkerDriver } from "../drivers/worker-driver.ts";
import { openHistory } from "../history/history-database.ts";
import type { Failure, RecordedRequest, RecordStore } from "../history/record-store.ts";
import type { SeriesStore } from "../history/series-store.ts";
import { SqliteRecords } from "../history/sqlite-records.ts";
import { SqliteSeries } from "../history/sqlite-series.ts";
import type { Log } from "../lib/log.ts";
import type { FinishedJob, JobReader, QueueEvents } from "../queue/queue.ts";
import type { Endpoint, Store, Worker } from "../store/store.ts";
import { EndpointTotals } from "../telemetry/endpoint-totals.ts";
import { EventHub } from "../telemetry/event-hub.ts";
import { GpuMeter } from "../telemetry/gpu-meter.ts";
import { type LoadSamplerDeps, sampleLoads } from "../telemetry/load-sampler.ts";
import { MachineMeter, recordedHosts, recordedUse } from "../telemetry/machine-use.ts";
import { PrometheusText } from "../telemetry/prometheus.ts";
import { plainNumbers, Recorder } from "../telemetry/recorder.ts";
import { RouteNames } from "../telemetry/route-names.ts";
import { Tallies } from "../telemetry/tallies.ts";
import { openTraces } from "../telemetry/tracing.ts";
import type { Config } from "./config.ts";

export const HISTORY_FILE = "history.db";
const SERVER_ERROR = 500;

interface TelemetryNeeds extends LoadSamplerDeps {
  readonly config: Pick<Config, "dataDir" | "metrics" | "traces">;
  readonly store: Store;
  readonly endpoints: { find(id: string): Endpoint | undefined | Promise<Endpoint | undefined> };
  readonly queue: LoadSamplerDeps["queue"] & Pick<JobReader, "find"> & { readonly events: QueueEvents };
  readonly link: LoadSamplerDeps["link"] & { bootOf(workerId: string): WorkerBoot | undefined };
  readonly driver: Pick<WorkerDriver, "capacity" | "list">;
  readonly hostsView: HostsView;
  /** Milliseconds of a clock that is never set. */
  readonly now: () => number;
  readonly log: Log;
  readonly onError: (error: unknown) => void;
}

export interface Telemetry extends Pick<ControlPlaneDeps, "machine" | "events" | "metrics" | "notReady" | "closing"> {
  readonly series: SeriesStore;
  readonly records: RecordStore;
  /** Undefined: no traces are collected. */
  readonly traces: Traces | undefined;
  /** For backups. */
  readonly history: DatabaseSync;
  workerReady(worker: Worker): void;
  workerGone(endpointId: string): void;
  /** The newest of an endpoint, oldest first. */
  recentDecisions(endpointId: string, count: number): ScalingDecision[];
  decided(endpointId: string, decision: ScalingDecision): void;
  requestEnded(request: EndedRequest): void;
  start(): void;
  /** The platform begins to stop: who follows events is let go. */
  endFollowers(): void;
  /** Records what is left, while the platform's other parts still run. */
  stop(): Promise<void>;
  close(): Promise<void>;
}

export async function openTelemetry(needs: TelemetryNeeds): Promise<Telemetry> {
  const { config, store, endpoints, queue, link, driver, clock, now, log, onError } = needs;
  const told = (line: string, facts?: Readonly<Record<string, unknown>>) => log.error(line, facts);
  const traces = config.traces ? await openTraces({ clock, told }) : undefined;
  const { history, series, records } = openHistory(path.join(config.dataDir, HISTORY_FILE), log, (history) => ({
    history,
    series: new SqliteSeries(history),
    records: new SqliteRecords(history),
  }));
  const tallies = new Tallies();
  const totals = new EndpointTotals(now);
  const events = new EventHub();
  const routes = new RouteNames(store, onError);
  const meter = new MachineMeter();
  const closing = new AbortController();
  const gpuMeter = new GpuMeter({ now, told });
  const use = async () => {
    const capacity = await driver.capacity();
    return meter.read(capacity, capacity.gpus.some(({ emulated }) => !emulated) ? gpuMeter.read() : []);
  };
  const recorder = new Recorder({
    ...needs,
    series,
    tallies,
    machine: async () => recordedUse(await use()),
    hosts: () => recordedHosts(needs.hostsView.hosts()),
    environmentOf: async (id) => (await endpoints.find(id))?.environmentId ?? null,
    onStep(step) {
      totals.add(step.tallies);
      events.tell(() => ({ topic: "series", at: step.at, ...plainNumbers(step) }));
    },
  });
  const prometheus = new PrometheusText({
    totals,
    loads: () => sampleLoads(needs),
    machine: use,
    named: async (id) => labelsOf(store, await endpoints.find(id)),
    now,
  });
  queue.events.jobFinished((job) => {
    tallies.of(job.endpointId).jobFinished(job);
    if (job.state === "FAILED" || job.state === "TIMED_OUT") records.failed(failureOfJob(job, queue));
    if (traces !== undefined) {
      const boot = link.bootOf(job.workerId);
      traces.jobFinished(job, boot !== undefined && boot.startedAt >= job.createdAt ? boot : undefined);
    }
    events.tell(() => {
      const { id, endpointId, state, finishedAt } = job;
      return { topic: "jobs", endpointId, data: { id, state, at: finishedAt } };
    });
  });
  store.onChange((change) => {
    if (change.table === "hosts" && change.host === undefined) series.forget(change.id).catch(onError);
    if (change.table !== "endpoints") return;
    const { id, endpoint } = change;
    const what = endpoint === undefined ? "removed" : "changed";
    events.tell(() => ({ topic: "endpoints", endpointId: id, data: { what } }));
    if (endpoint !== undefined) return;
    totals.forget(id);
    series.forget(id).catch(onError);
    records.forget(id).catch(onError);
  });
  const workersChanged = (endpointId: string) =>
    events.tell(() => ({ topic: "endpoints", endpointId, data: { what: "workers" } }));
  return {
    series,
    records,
    traces,
    events,
    closing: closing.signal,
    metrics: { access: config.metrics, read: () => prometheus.read() },
    machine: {
      capacity: () => driver.capacity(),
      async used() {
        const { vcpus, memory, gpus } = await use();
        return { vcpus: vcpus.used, memoryGb: memory.used, gpus: gpus.measured };
      },
      async disk() {
        const { bavail, blocks, bsize } = await statfs(config.dataDir);
        return { freeBytes: bavail * bsize, totalBytes: blocks * bsize };
      },
    },
    async notReady() {
      return (await driver.list()) === undefined ? ["Workers cannot be started: the launcher is away."] : [];
    },
    workerReady({ id, endpointId }) {
      const boot = link.bootOf(id);
      if (boot !== undefined) tallies.of(endpointId).workerReady(boot.bootMs, boot.importMs);
      workersChanged(endpointId);
    },
    workerGone: workersChanged,
    recentDecisions: (endpointId, count) => records.recentDecisions(endpointId, count),
    decided(endpointId, decision) {
      records.decided(endpointId, decision);
      events.tell(() => ({ topic: "decisions", endpointId, data: { ...decision } }));
    },
    requestEnded(request) {
      const { endpoint, method, path: wanted, status, totalMs } = request;
      const route = routes.find(endpoint, method, wanted);
      tallies.of(endpoint.id).requestEnded(route, status, totalMs);
      const isBad = status >= SERVER_ERROR;
      if (!isBad && !records.takesRequest(status)) return;
      const ended = recordOf(request, route, needs.clock());
      records.requestEnded(ended);
      if (isBad) records.failed(failureOfRequest(ended));
    },
    start: () => recorder.start(),
    endFollowers: () => closing.abort(),
    stop: () => recorder.stop(),
    history: history.connection,
    async close() {
      gpuMeter.close();
      await Promise.all([history.close(), traces?.close()]);
    },
  };
}

async function labelsOf(store: Store, endpoint: Endpoint | undefined) {
  if (endpoint === undefined) return undefined;
  const { id, name, environmentId } = endpoint;
  const environment = environmentId === null ? undefined : await store.environments.find(environmentId);
  const app =
    environment === undefined ? undefined : (await store.apps.list()).find((one) => one.id === environment.appId);
  return { endpoint_id: id, endpoint: name, app: app?.name ?? "", environment: environment?.name ?? "" };
}

function failureOfJob({ id, endpointId, finishedAt: at }: FinishedJob, queue: Pick<JobReader, "find">): Failure {
  const kind = async () => {
    const job = await queue.find(id, 0);
    return job === undefined || job.error === "" ? undefined : errorKind(endpointId, job.error);
  };
  return { endpointId, at, jobId: id, kind };
}

function failureOfRequest({ endpointId, at, status, route }: RecordedRequest): Failure {
  return { endpointId, at, jobId: null, kind: () => requestErrorKind(endpointId, status, route) };
}

function recordOf(
  { endpoint, served, method, path, status, totalMs }: EndedRequest,
  route: string,
  at: number,
): RecordedRequest {
  const { queueMs: waitMs, execMs: runMs, bootMs, importMs } = served?.timing ?? {};
  return {
    endpointId: endpoint.id,
    id: served?.id ?? "",
    method,
    route,
    path,
    status,
    at,
    waitMs: waitMs ?? null,
    runMs: runMs ?? null,
    totalMs,
    workerId: served?.workerId ?? null,
    coldStart: bootMs === undefined || importMs === undefined ? null : bootMs + importMs > 0,
  };
}
