/**
 * Every ten seconds of the clock: what was counted since the last time and how loaded endpoints are now becomes a step of the series.
 * When the platform ends, what is left becomes a last one.
 */
import { setImmediate } from "node:timers/promises";
import { HISTORY_ROWS_AT_ONCE, SERIES_STEP_MS } from "../domain/limits.ts";
import { quantileMs } from "../domain/log-histogram.ts";
import { type Recorded, ROUTE_MARK, SAMPLES_END } from "../domain/series.ts";
import type { RecordedEndpoint, SeriesStore } from "../history/series-store.ts";
import { type Load, type LoadSamplerDeps, sampleLoads } from "./load-sampler.ts";
import type { EndpointTally, Tallies } from "./tallies.ts";

/** One step, as it is told to those who follow. */
export interface Step {
  /** When it began, milliseconds since the epoch. */
  readonly at: number;
  /** By endpoint. */
  readonly tallies: ReadonlyMap<string, EndpointTally>;
  /** What is kept, by endpoint; those on which nothing happened are missing. */
  readonly rows: ReadonlyMap<string, RecordedEndpoint>;
  readonly machine: Recorded;
}

export interface RecorderDeps extends LoadSamplerDeps {
  readonly series: Pick<SeriesStore, "record">;
  readonly tallies: Tallies;
  readonly machine: () => Promise<Recorded>;
  /** Machines that joined, by id. */
  readonly hosts: () => ReadonlyMap<string, Recorded>;
  /** Null: it belongs to none, or is gone. */
  readonly environmentOf: (endpointId: string) => Promise<string | null>;
  readonly onStep: (step: Step) => void;
  readonly onError: (error: unknown) => void;
}

export class Recorder {
  readonly #deps: RecorderDeps;
  #timer: NodeJS.Timeout | undefined;
  #recording: Promise<void> = Promise.resolve();

  constructor(deps: RecorderDeps) {
    this.#deps = deps;
  }

  start(): void {
    const passed = this.#deps.clock() % SERIES_STEP_MS;
    // A step that has just begun, by a clock that was set or a timer that came early, goes on.
    const left = SERIES_STEP_MS - passed;
    const waitMs = left < SERIES_STEP_MS / 2 ? left + SERIES_STEP_MS : left;
    this.#timer = setTimeout(() => {
      this.start();
      this.#record(this.#stepThatEnded());
    }, waitMs).unref();
  }

  async stop(): Promise<void> {
    clearTimeout(this.#timer);
    this.#record(Math.floor(this.#deps.clock() / SERIES_STEP_MS) * SERIES_STEP_MS);
    await this.#recording;
  }

  #stepThatEnded(): number {
    return Math.round(this.#deps.clock() / SERIES_STEP_MS) * SERIES_STEP_MS - SERIES_STEP_MS;
  }

  #record(at: number): void {
    this.#recording = this.#recording.then(() => this.#step(at)).catch(this.#deps.onError);
  }

  async #step(at: number): Promise<void> {
    const { series, onStep } = this.#deps;
    const loads = await sampleLoads(this.#deps);
    const machine = await this.#deps.machine();
    const tallies = this.#deps.tallies.take();
    const rows = await rowsOf(tallies, loads, this.#deps.environmentOf);
    series.record(at, rows, machine, this.#deps.hosts());
    onStep({ at, tallies, rows, machine });
  }
}

async function rowsOf(
  tallies: Step["tallies"],
  loads: ReadonlyMap<string, Load>,
  environmentOf: RecorderDeps["environmentOf"],
): Promise<Map<string, RecordedEndpoint>> {
  const rows = new Map<string, RecordedEndpoint>();
  for (const id of new Set([...tallies.keys(), ...loads.keys()])) {
    const { numbers, histograms } = tallies.get(id)?.recorded() ?? { numbers: {}, histograms: {} };
    const gauges = Object.entries(loads.get(id) ?? {}).filter(([, value]) => value > 0);
    const all = { ...Object.fromEntries(gauges), ...numbers };
    if (Object.keys(all).length > 0 || Object.keys(histograms).length > 0)
      rows.set(id, { environmentId: await environmentOf(id), numbers: all, histograms });
    if (rows.size % HISTORY_ROWS_AT_ONCE === 0) await setImmediate();
  }
  return rows;
}

/** The step as plain numbers for those who follow: gauges, counts, and of durations the 95th percentile. */
export function plainNumbers({ rows, machine }: Step) {
  const endpoints = new Map<string, Record<string, number>>();
  for (const [id, { numbers, histograms }] of rows) {
    const shown = Object.entries(numbers).filter(([name]) => !name.includes(ROUTE_MARK));
    const p95 = Object.entries(histograms).map(([name, histogram]) => [
      `${name}.p95`,
      quantileMs(histogram, 0.95) ?? 0,
    ]);
    endpoints.set(id, Object.fromEntries([...shown, ...p95]));
  }
  const ofMachine = Object.entries(machine.numbers).filter(([name]) => !name.endsWith(SAMPLES_END));
  return { endpoints, machine: Object.fromEntries(ofMachine) };
}
