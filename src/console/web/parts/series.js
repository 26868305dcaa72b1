/** Series of the platform: many metrics in one request. */
import { query } from "../platform.js";
import { useData } from "../use-query.js";

/** Fields of one document are bounded: so many series at once. */
const AT_ONCE = 80;

/** `wanted`: {endpoint, metric}[]. Resolves for each its points. */
export async function fetchSeries(wanted, { from, to, stepMs }, signal) {
  const found = [];
  for (let at = 0; at < wanted.length; at += AT_ONCE) {
    const some = wanted.slice(at, at + AT_ONCE);
    const fields = some.map(
      (_one, n) =>
        `s${n}: series(endpoint: $e${n}, metric: $m${n}, from: $from, to: $to, step: $step) { points { at value } }`,
    );
    const declared = some.map((_one, n) => `$e${n}: String, $m${n}: String!`).join(", ");
    const variables = { from, to, step: stepMs };
    for (const [n, { endpoint, metric }] of some.entries())
      Object.assign(variables, { [`e${n}`]: endpoint, [`m${n}`]: metric });
    const data = await query(
      `query ($from: Float!, $to: Float!, $step: Int, ${declared}) { ${fields.join(" ")} }`,
      variables,
      signal,
    );
    found.push(...some.map((_one, n) => data[`s${n}`].points));
  }
  return found;
}

/** Lines for a chart: {at, values: {metric: (number | null)[]}}. */
export function useSeries(endpoint, metrics, { ms, stepMs }) {
  const key = JSON.stringify(["series", endpoint, metrics, ms, stepMs]);
  return useData(
    key,
    async (signal) => {
      const to = Date.now();
      const wanted = metrics.map((metric) => ({ endpoint, metric }));
      const found = await fetchSeries(wanted, { from: to - ms, to, stepMs }, signal);
      const at = found[0].map((point) => point.at);
      const values = Object.fromEntries(metrics.map((metric, n) => [metric, found[n].map(({ value }) => value)]));
      return { at, values };
    },
    { topics: ["series"] },
  );
}

const COUNTED = new Set([
  "done",
  "failed",
  "coldStarts",
  "requests",
  "requests.2xx",
  "requests.3xx",
  "requests.4xx",
  "requests.5xx",
]);

/** One number for a whole range: the counts of its steps are added up; of the rest, read in steps of the range, the larger one counts. */
function summed(metric, points) {
  const known = points.map(({ value }) => value).filter((value) => value != null);
  if (known.length === 0) return null;
  return COUNTED.has(metric) ? known.reduce((sum, value) => sum + value, 0) : Math.max(...known);
}

/** For each of `wanted` ({endpoint, metric}) one number over the range, or null. */
export async function fetchTotals(wanted, { ms, stepMs }, signal) {
  const to = Date.now();
  const isCounted = ({ metric }) => COUNTED.has(metric);
  const [counts, rest] = [wanted.filter(isCounted), wanted.filter((one) => !isCounted(one))];
  const range = { from: to - ms, to };
  const found = new Map();
  for (const [some, step] of [
    [counts, stepMs],
    [rest, ms],
  ]) {
    const points = await fetchSeries(some, { ...range, stepMs: step }, signal);
    for (const [n, one] of some.entries()) found.set(one, summed(one.metric, points[n]));
  }
  return wanted.map((one) => found.get(one));
}

/** {metric: number | null} over the range. */
export function useTotals(endpoint, metrics, range) {
  const key = JSON.stringify(["totals", endpoint, metrics, range.ms]);
  return useData(
    key,
    async (signal) => {
      const totals = await fetchTotals(
        metrics.map((metric) => ({ endpoint, metric })),
        range,
        signal,
      );
      return Object.fromEntries(metrics.map((metric, n) => [metric, totals[n]]));
    },
    { topics: ["series"] },
  );
}
