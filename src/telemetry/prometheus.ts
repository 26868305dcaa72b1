/**
 * The metrics in Prometheus' text format (docs/reference/metrics.md): what was counted since the platform started, and how things are
 * at the moment of the scrape. prom-client writes the text and knows the process's own metrics; it is loaded by the first scrape.
 */
import { METRICS_FRESH_MS } from "../domain/limits.ts";
import { type LogHistogram, upperBoundMs } from "../domain/log-histogram.ts";
import { VERSION } from "../domain/version.ts";
import { type EndpointTotals, HISTOGRAMS, type Totals } from "./endpoint-totals.ts";
import type { GpuUse } from "./gpu-meter.ts";
import type { Load } from "./load-sampler.ts";
import { known, type MachineUse } from "./machine-use.ts";
import { STATUS_CLASSES } from "./tallies.ts";

type Labels = Readonly<Record<string, string>>;

interface Value {
  readonly labels: Labels;
  readonly value: number;
  readonly metricName?: string;
}

interface Metric {
  readonly name: string;
  readonly help: string;
  readonly type: "counter" | "gauge" | "histogram";
  readonly values: readonly Value[];
}

interface PrometheusDeps {
  readonly totals: EndpointTotals;
  readonly loads: () => Promise<ReadonlyMap<string, Load>>;
  readonly machine: () => Promise<MachineUse>;
  /** Name, app and environment of an endpoint; undefined when it is gone. */
  readonly named: (endpointId: string) => Promise<Labels | undefined>;
  /** Milliseconds of a clock that is never set. */
  readonly now: () => number;
}

const OTHER: Labels = { endpoint_id: "other", endpoint: "other", app: "", environment: "" };
/** Every doubling from 1 ms to 17 min: buckets of LogHistogram. */
const BOUNDS = Array.from({ length: 21 }, (_, i) => 8 + 4 * i);
const GB = 1024 ** 3;

const DURATIONS: Readonly<Record<(typeof HISTOGRAMS)[number], readonly [name: string, help: string]>> = {
  wait: ["svc_job_wait_seconds", "From a job's submission to its last start."],
  run: ["svc_job_run_seconds", "From a job's last start to its end."],
  boot: ["svc_worker_boot_seconds", "Starting a worker, without importing its code."],
  import: ["svc_worker_import_seconds", "Importing a worker's code."],
  request: ["svc_request_duration_seconds", "From a load-balanced request's arrival to the end of its answer."],
};

export class PrometheusText {
  readonly #deps: PrometheusDeps;
  #process: ReturnType<typeof processMetrics> | undefined;
  #last: { readonly at: number; readonly text: Promise<{ contentType: string; text: string }> } | undefined;

  constructor(deps: PrometheusDeps) {
    this.#deps = deps;
  }

  read(): Promise<{ contentType: string; text: string }> {
    const at = this.#deps.now();
    if (this.#last === undefined || at - this.#last.at >= METRICS_FRESH_MS) this.#last = { at, text: this.#text() };
    return this.#last.text;
  }

  async #text(): Promise<{ contentType: string; text: string }> {
    this.#process ??= processMetrics();
    const { Registry, registry: ofProcess } = await this.#process;
    const registry = new Registry();
    for (const metric of [...(await this.#endpoints()), ...machineMetrics(await this.#deps.machine())]) {
      // All that a registry asks of a metric; its own kinds count by themselves, and ours are counted already.
      registry.registerMetric({ ...metric, get: async () => metric } as never);
    }
    const text = `${await registry.metrics()}\n${await ofProcess.metrics()}`;
    return { contentType: registry.contentType, text };
  }

  async #endpoints(): Promise<Metric[]> {
    const { totals, loads, named } = this.#deps;
    const counted: [Labels, Totals][] = [[OTHER, totals.other]];
    const labelsOf = new Map<string, Labels>();
    for (const [id, own] of totals.own) {
      const labels = await named(id);
      if (labels === undefined) continue;
      labelsOf.set(id, labels);
      counted.push([labels, own]);
    }
    const now = new Map<Labels, Load>();
    for (const [id, load] of await loads()) {
      const labels = labelsOf.get(id) ?? OTHER;
      now.set(labels, together(now.get(labels), load));
    }
    return [...countMetrics(counted), ...loadMetrics(now)];
  }
}

async function processMetrics() {
  const { Registry, collectDefaultMetrics } = await import("prom-client");
  const registry = new Registry();
  collectDefaultMetrics({ register: registry });
  return { Registry, registry };
}

function together(one: Load | undefined, other: Load): Load {
  if (one === undefined) return other;
  const sums = Object.entries(other).map(([name, value]) => {
    const before = one[name as keyof Load];
    return [name, name === "oldestWaitMs" ? Math.max(before, value) : before + value];
  });
  return Object.fromEntries(sums) as unknown as Load;
}

function countMetrics(counted: readonly [Labels, Totals][]): Metric[] {
  const values = (of: (totals: Totals) => readonly [Labels, number][]) =>
    counted.flatMap(([labels, totals]) =>
      of(totals).map(([more, value]) => ({ labels: { ...labels, ...more }, value })),
    );
  return [
    {
      name: "svc_jobs_total",
      help: "Jobs that ended.",
      type: "counter",
      values: values(({ done, failed }) => [
        [{ outcome: "done" }, done],
        [{ outcome: "failed" }, failed],
      ]),
    },
    {
      name: "svc_requests_total",
      help: "Load-balanced requests that ended, by the class of their status.",
      type: "counter",
      values: values(({ statuses }) => STATUS_CLASSES.map((first, i) => [{ status: `${first}xx` }, statuses[i]!])),
    },
    {
      name: "svc_cold_starts_total",
      help: "Workers that became ready.",
      type: "counter",
      values: values(({ coldStarts }) => [[{}, coldStarts]]),
    },
    ...HISTOGRAMS.map((kind): Metric => {
      const [name, help] = DURATIONS[kind];
      const all = counted.flatMap(([labels, { histograms }]) => {
        const histogram = histograms[kind];
        return histogram === undefined ? [] : histogramValues(name, labels, histogram);
      });
      return { name, help, type: "histogram", values: all };
    }),
  ];
}

function histogramValues(name: string, labels: Labels, { counts, total, sumMs }: LogHistogram): Value[] {
  const buckets: Value[] = [];
  let sum = 0;
  let bucket = 0;
  for (const bound of BOUNDS) {
    for (; bucket <= bound; bucket++) sum += counts[bucket]!;
    buckets.push({
      metricName: `${name}_bucket`,
      labels: { ...labels, le: String(upperBoundMs(bound) / 1000) },
      value: sum,
    });
  }
  return [
    ...buckets,
    { metricName: `${name}_bucket`, labels: { ...labels, le: "+Inf" }, value: total },
    { metricName: `${name}_sum`, labels, value: sumMs / 1000 },
    { metricName: `${name}_count`, labels, value: total },
  ];
}

function loadMetrics(loads: ReadonlyMap<Labels, Load>): Metric[] {
  const gauge = (name: string, help: string, of: (load: Load) => readonly [Labels, number][]): Metric => {
    const values = [...loads].flatMap(([labels, load]) =>
      of(load).map(([more, value]) => ({ labels: { ...labels, ...more }, value })),
    );
    return { name, help, type: "gauge", values };
  };
  return [
    gauge("svc_waiting", "Jobs in the queue and requests without a worker.", ({ waiting }) => [[{}, waiting]]),
    gauge("svc_oldest_wait_seconds", "How long the one that waits longest has waited.", ({ oldestWaitMs }) => [
      [{}, oldestWaitMs / 1000],
    ]),
    gauge("svc_running", "Jobs and requests on workers.", ({ running }) => [[{}, running]]),
    gauge("svc_workers", "Workers by state; throttled ones are wanted and have no room.", (load) => [
      [{ state: "ready" }, load.workersReady],
      [{ state: "starting" }, load.workersStarting],
      [{ state: "throttled" }, load.workersThrottled],
    ]),
  ];
}

function machineMetrics({ vcpus, memory, gpus }: MachineUse): Metric[] {
  const gauge = (name: string, help: string, values: readonly (readonly [string, number])[]): Metric => {
    return { name, help, type: "gauge", values: values.map(([kind, value]) => ({ labels: { kind }, value })) };
  };
  const ofGpus = (name: string, help: string, of: (gpu: GpuUse) => number | null): Metric => {
    const values = gpus.measured.flatMap((gpu) => {
      const value = of(gpu);
      return value === null ? [] : { labels: { gpu: String(gpu.index), ...(gpu.host && { host: gpu.host }) }, value };
    });
    return { name, help, type: "gauge", values };
  };
  const busy = known(gpus.measured, "busy");
  const free = ({ total, promised }: { total: number; promised: number }) => Math.max(0, total - promised);
  return [
    gauge("svc_machine_vcpus", "vCPUs promised to workers, left to promise, and busy.", [
      ["promised", vcpus.promised],
      ["free", free(vcpus)],
      ["used", vcpus.used],
    ]),
    gauge("svc_machine_memory_bytes", "Memory promised to workers, left to promise, and in use.", [
      ["promised", memory.promised * GB],
      ["free", free(memory) * GB],
      ["used", memory.used * GB],
    ]),
    gauge("svc_machine_gpus", "GPUs promised to workers, left to promise, and busy where that is measured.", [
      ["promised", gpus.promised],
      ["free", free(gpus)],
      ...(busy === undefined ? [] : [["used", busy] as const]),
    ]),
    ofGpus("svc_gpu_busy_ratio", "Part of the time that something ran on the GPU.", ({ busy: part }) => part),
    ofGpus("svc_gpu_memory_used_bytes", "Memory in use on the GPU, by whomever.", ({ memoryGb }) =>
      memoryGb === null ? null : memoryGb * GB,
    ),
    {
      name: "svc_build_info",
      help: "The platform's version.",
      type: "gauge",
      values: [{ labels: { version: VERSION }, value: 1 }],
    },
  ];
}
