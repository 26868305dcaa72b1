import type { EndpointSettings } from "../domain/endpoint.ts";
import { MAX_CONCURRENCY_LIMIT } from "../domain/limits.ts";
import type { ManifestFunction } from "../domain/manifest.ts";
import type { At } from "./facts.ts";
import type { Report } from "./sources.ts";

/** How many calls a worker takes at once where functions are batched: those of one batch, and those of the next while it runs. */
export function concurrencyOf(
  settings: EndpointSettings,
  givenAt: At | undefined,
  functions: readonly ManifestFunction[],
  report: Report,
): number {
  const size = Math.max(0, ...functions.map(({ batchSize = 0 }) => batchSize));
  const { maxConcurrency } = settings;
  if (size === 0 || (givenAt !== undefined && maxConcurrency >= size)) return maxConcurrency;
  const enough = Math.min(2 * size, MAX_CONCURRENCY_LIMIT);
  if (givenAt !== undefined) {
    report({
      severity: "error",
      rule: "batched-concurrency",
      message: `max_concurrency=${maxConcurrency} is less than the ${size} inputs of a batch, so none would ever be full.`,
      help: `Leave max_concurrency out (it is ${enough} then), or make max_size smaller.`,
      at: givenAt,
    });
  }
  return enough;
}
