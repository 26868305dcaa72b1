/** Series of the platform: many metrics in one request. */
import { query } from "../platform.js";
import { useData } from "../use-query.js";

/** Fields of one document are bounded: so many series at once. */
const AT_ONCE = 80;

/** Arguments that differ from one series to the next. */
const OF = { endpoint: "String", app: "String", environment: "String", host: "String", metric: "String!" };

/** `wanted`: {metric, and endpoint, an id, or app and environment, or host, a name, or none for all}[]. Resolves for each its points. */
export async function fetchSeries(wanted, { from, to, stepMs }, signal) {
  const found = [];
  for (let at = 0; at < wanted.length; at += AT_ONCE) {
    const some = wanted.slice(at, at + AT_ONCE);
    const variables = { from, to, step: stepMs };
    const declared = [];
    const fields = [];
    for (const [n, one] of some.entries()) {
      const given = Object.keys(OF).filter((name) => one[name] != null);
      for (const name of given) variables[`${name}${n}`] = one[name];
      declared.push(...given.map((name) => `$${name}${n}: ${OF[name]}`));
      const values = given.map((name) => `${name}: $${name}${n}`).join(", ");
      fields.push(`s${n}: series(${values}, from: $from, to: $to, step: $step) { points { at value } }`);
    }
    const data = await query(
      `query ($from: Float!, $to: Float!, $step: Int, ${declared.join(", ")}) { ${fields.join(" ")} }`,
      variables,
      signal,
    );
    found.push(...some.map((_one, n) => data[`s${n}`].points));
  }
  return found;
}

/** Lines for a chart: {at, values: {metric: (number | null)[]}}. `of`: {endpoint}, {app, environment}, or {} for all. */
export function useSeries(of, metrics, { ms, stepMs }) {
  const key = JSON.stringify(["series", of, metrics, ms, stepMs]);
  return useData(
    key,
    async (signal) => {
      const to = Date.now();
      const wanted = metrics.map((metric) => ({ ...of, metric }));
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

/** For each of `wanted`, as of fetchSeries, one number over the range, or null. */
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

/** {metric: number | null} over the range. `of`: {endpoint}, {app, environment}, or {} for all. */
export function useTotals(of, metrics, range) {
  const key = JSON.stringify(["totals", of, metrics, range.ms]);
  return useData(
    key,
    async (signal) => {
      const totals = await fetchTotals(
        metrics.map((metric) => ({ ...of, metric })),
        range,
        signal,
      );
      return Object.fromEntries(metrics.map((metric, n) => [metric, totals[n]]));
    },
    { topics: ["series"] },
  );
}
