/**
 * Series: what is recorded of endpoints and of the machine, step by step. A step keeps sums, so that steps add up to longer ones:
 *
 *   gauge      the sum over its samples; what is shown is divided by their number
 *   peak       the largest of its samples
 *   count      how many in the step
 *   histogram  durations of what ended in the step; `.p50`, `.p95` and `.p99` are read from it
 */
import { HistogramSum, quantileMs, type SparseHistogram } from "./log-histogram.ts";

/** Of the machine's own series. */
export const MACHINE = "machine";

export type MetricKind = "gauge" | "peak" | "count" | "histogram";

export const ENDPOINT_METRICS = {
  waiting: { kind: "gauge", unit: "jobs" },
  oldestWaitMs: { kind: "peak", unit: "ms" },
  running: { kind: "gauge", unit: "jobs" },
  workersReady: { kind: "gauge", unit: "workers" },
  workersStarting: { kind: "gauge", unit: "workers" },
  workersThrottled: { kind: "gauge", unit: "workers" },
  done: { kind: "count", unit: "jobs" },
  failed: { kind: "count", unit: "jobs" },
  coldStarts: { kind: "count", unit: "workers" },
  waitMs: { kind: "histogram", unit: "ms" },
  bootMs: { kind: "histogram", unit: "ms" },
  importMs: { kind: "histogram", unit: "ms" },
  runMs: { kind: "histogram", unit: "ms" },
  requests: { kind: "count", unit: "requests" },
  "requests.2xx": { kind: "count", unit: "requests" },
  "requests.3xx": { kind: "count", unit: "requests" },
  "requests.4xx": { kind: "count", unit: "requests" },
  "requests.5xx": { kind: "count", unit: "requests" },
  requestMs: { kind: "histogram", unit: "ms" },
} as const satisfies Readonly<Record<string, { kind: MetricKind; unit: string }>>;

/** Ends the name of the number that counts how often a gauge was known, for one that is not always. */
export const SAMPLES_END = ".samples";

interface MachineMetric {
  readonly kind: MetricKind;
  readonly unit: string;
  /** The number that counts its samples; without it each sample of the machine has it. */
  readonly samples?: string;
}

const machineGauge = (name: string, unit: string, more = {}): [string, MachineMetric] => [
  `machine.${name}`,
  { kind: "gauge", unit, ...more },
];
const whereMeasured = (name: string, unit: string) =>
  machineGauge(name, unit, { samples: `machine.${name}${SAMPLES_END}` });

export const MACHINE_METRICS: Readonly<Record<string, MachineMetric>> = Object.fromEntries([
  ...["Promised", "Used", "Free"].map((of) => machineGauge(`vcpu${of}`, "vcpu")),
  ...["Promised", "Used", "Free"].map((of) => machineGauge(`gb${of}`, "GB")),
  ...["Promised", "Free"].map((of) => machineGauge(`gpu${of}`, "gpu")),
  whereMeasured("gpuUsed", "gpu"),
  whereMeasured("gpuGbUsed", "GB"),
]);

export const QUANTILES = { p50: 0.5, p95: 0.95, p99: 0.99 } as const;

/** Between a metric of requests and the route that is meant. */
export const ROUTE_MARK = "@";

/** One step of one subject. What is 0 is left out. */
export interface Recorded {
  readonly numbers: Readonly<Record<string, number>>;
  readonly histograms: Readonly<Record<string, SparseHistogram>>;
}

/** What a name asks for; undefined when there is no such metric. */
export interface Metric {
  /** As it is recorded. */
  readonly name: string;
  readonly kind: MetricKind;
  readonly unit: string;
  /** Of a histogram. */
  readonly quantile?: number;
  readonly ofMachine: boolean;
  /** The number that counts its samples, where that is not known of each. */
  readonly samples?: string;
  /** Of one route of an endpoint. */
  readonly ofRoute?: boolean;
}

export function metricOf(name: string): Metric | undefined {
  const machine = own(MACHINE_METRICS, name);
  if (machine !== undefined) return { name, ...machine, ofMachine: true };
  const mark = name.indexOf(ROUTE_MARK);
  const base = mark === -1 ? name : name.slice(0, mark);
  const found = own(ENDPOINT_METRICS, base);
  if (mark !== -1) {
    return base.startsWith("requests") && found !== undefined
      ? { name, ...found, ofMachine: false, ofRoute: true }
      : undefined;
  }
  if (found !== undefined && found.kind !== "histogram") return { name, ...found, ofMachine: false };
  const dot = name.lastIndexOf(".");
  const quantile = own(QUANTILES, name.slice(dot + 1));
  const histogram = own(ENDPOINT_METRICS, name.slice(0, Math.max(0, dot)));
  if (quantile === undefined || histogram?.kind !== "histogram") return undefined;
  return { name: name.slice(0, dot), ...histogram, quantile, ofMachine: false };
}

/** Every name that metricOf knows but those of routes. */
export function metricNames(): string[] {
  const ofEndpoint = Object.entries(ENDPOINT_METRICS).flatMap(([name, { kind }]) =>
    kind === "histogram" ? Object.keys(QUANTILES).map((quantile) => `${name}.${quantile}`) : [name],
  );
  return [...ofEndpoint, ...Object.keys(MACHINE_METRICS)];
}

const PEAKS: ReadonlySet<string> = new Set(
  Object.entries(ENDPOINT_METRICS).flatMap(([name, { kind }]) => (kind === "peak" ? [name] : [])),
);

/** Steps, or endpoints, as one. */
export class RecordedSum {
  readonly #numbers = new Map<string, number>();
  readonly #histograms = new Map<string, HistogramSum>();

  /** `only`: the metrics that are of interest. */
  add({ numbers, histograms }: Recorded, only?: ReadonlySet<string>): void {
    for (const name in numbers) {
      if (only !== undefined && !only.has(name)) continue;
      const before = this.#numbers.get(name) ?? 0;
      this.#numbers.set(name, PEAKS.has(name) ? Math.max(before, numbers[name]!) : before + numbers[name]!);
    }
    for (const name in histograms) {
      if (only !== undefined && !only.has(name)) continue;
      const sum = this.#histograms.get(name) ?? new HistogramSum();
      this.#histograms.set(name, sum);
      sum.add(histograms[name]!);
    }
  }

  number(name: string): number {
    return this.#numbers.get(name) ?? 0;
  }

  histogram(name: string): SparseHistogram {
    return this.#histograms.get(name)?.sparse ?? [];
  }

  get recorded(): Recorded {
    const histograms = [...this.#histograms].map(([name, sum]) => [name, sum.sparse] as const);
    return { numbers: Object.fromEntries(this.#numbers), histograms: Object.fromEntries(histograms) };
  }
}

/** What a point of the metric shows. `samples`: how often was looked in that time; 0: nothing was recorded. */
export function pointOf(metric: Metric, sum: RecordedSum | undefined, samples: number): number | null {
  if (samples === 0) return null;
  if (metric.quantile !== undefined) return quantileMs(sum?.histogram(metric.name) ?? [], metric.quantile) ?? null;
  const value = sum?.number(metric.name) ?? 0;
  return metric.kind === "gauge" ? Math.round((value / samples) * 1000) / 1000 : value;
}

function own<T>(record: Readonly<Record<string, T>>, key: string): T | undefined {
  return Object.hasOwn(record, key) ? record[key] : undefined;
}
