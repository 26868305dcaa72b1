/** Puts together what one or several platforms have recorded of the same steps. */
import { pointOf, RecordedSum } from "../domain/series.ts";
import type { SeriesAnswer, SeriesParts, SeriesQuestion } from "./series-store.ts";
import { floorTo } from "./series-sweeps.ts";

/** All parts have steps of the same length. */
export function seriesAnswer({ metric, from, to }: SeriesQuestion, parts: readonly SeriesParts[]): SeriesAnswer {
  const { stepMs } = parts[0]!;
  const recorded = parts.map(({ steps }) => new Map(steps.map(([at, ...step]) => [at, step])));
  const valueAt = (at: number): number | null => {
    const found = recorded.flatMap((steps) => {
      const [samples = 0, sum] = steps.get(at) ?? [];
      return samples === 0 || sum === undefined ? [] : [{ samples, sum }];
    });
    if (found.length === 0) return null;
    const together = new RecordedSum();
    if (metric.kind !== "gauge") {
      for (const { sum } of found) together.add(sum);
      return pointOf(metric, together, 1);
    }
    // Each looked as often as it was there.
    for (const { samples, sum } of found) together.add(meanOf(metric.name, sum.numbers[metric.name] ?? 0, samples));
    return pointOf(metric, together, 1);
  };
  const points = [];
  for (let at = floorTo(from, stepMs); at < to; at += stepMs) points.push({ at, value: valueAt(at) });
  return { stepMs, points };
}

function meanOf(name: string, sum: number, samples: number) {
  return { numbers: { [name]: sum / samples }, histograms: {} };
}
