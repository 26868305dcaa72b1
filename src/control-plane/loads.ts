/** What ran on endpoints lately, from series; worked out at most once in a while, however many watch. */
import type { EndpointKind } from "../domain/endpoint.ts";
import { CACHED_ENDPOINTS_MAX, LOAD_CACHED_MS, LOAD_SPAN_MS, SERIES_MINUTE_MS } from "../domain/limits.ts";
import { metricOf } from "../domain/series.ts";
import type { SeriesStore } from "../history/series-store.ts";

interface Lately {
  /** Of the newest minutes in which something ran; null: none. */
  readonly p50Ms: number | null;
  readonly p95Ms: number | null;
  /** Jobs that failed, requests that were answered with 500 or more. */
  readonly failed: number;
}

interface LoadsDeps {
  readonly series: Pick<SeriesStore, "read">;
  /** Milliseconds since the epoch. */
  readonly clock: () => number;
  /** Milliseconds of a clock that nobody sets. */
  readonly now: () => number;
}

export class Loads {
  readonly #deps: LoadsDeps;
  readonly #known = new Map<string, { readonly at: number; readonly found: Promise<Lately> }>();

  constructor(deps: LoadsDeps) {
    this.#deps = deps;
  }

  lately(id: string, kind: EndpointKind): Promise<Lately> {
    const at = this.#deps.now();
    const known = this.#known.get(id);
    if (known !== undefined && at - known.at < LOAD_CACHED_MS) return known.found;
    const found = this.#read(id, kind);
    if (this.#known.size >= CACHED_ENDPOINTS_MAX) this.#known.clear();
    this.#known.set(id, { at, found });
    return found;
  }

  async #read(id: string, kind: EndpointKind): Promise<Lately> {
    const to = this.#deps.clock();
    const values = async (name: string, stepMs: number): Promise<number[]> => {
      const question = { metric: metricOf(name)!, ids: [id], from: to - LOAD_SPAN_MS, to, stepMs };
      return (await this.#deps.series.read(question)).points.flatMap(({ value }) => value ?? []);
    };
    const [times, failures] = kind === "queue" ? ["runMs", "failed"] : ["requestMs", "requests.5xx"];
    const [p50, p95, failed] = await Promise.all([
      values(`${times}.p50`, LOAD_SPAN_MS),
      values(`${times}.p95`, LOAD_SPAN_MS),
      values(failures!, SERIES_MINUTE_MS),
    ]);
    return { p50Ms: p50.at(-1) ?? null, p95Ms: p95.at(-1) ?? null, failed: failed.reduce((sum, n) => sum + n, 0) };
  }
}
