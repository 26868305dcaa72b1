/** Endpoints, each with what it does now; their numbers are fetched for the rows that are seen. */
import { duration, number } from "../format.js";
import { html, useState } from "../html.js";
import { to } from "../route.js";
import { useData } from "../use-query.js";
import { Badge } from "./card.js";
import { Spark } from "./chart.js";
import { List } from "./list.js";
import { fetchSeries, fetchTotals } from "./series.js";

export const ENDPOINT_LIST = `{ myself { workersQuota endpoints {
  id name kind app environment workersMin workersMax gpuIds instanceIds status { state reason } pods { state }
} } }`;

/** Points of the small line of a row. */
const SPARK_POINTS = 30;
/** So many rows at once are asked about. */
const ROWS_MAX = 40;

export function inPlace({ app, environment }) {
  return (one) => app === undefined || (one.app === app && one.environment === environment);
}

/** What needs a look first: blocked, then those with the most workers. */
export function byNeed(one, other) {
  const blocked = ({ status }) => (status.state === "BLOCKED" ? 0 : 1);
  return blocked(one) - blocked(other) || other.pods.length - one.pods.length || (one.name < other.name ? -1 : 1);
}

export function isReady({ state }) {
  return state === "READY";
}

export function EndpointsTable({ endpoints, range, label }) {
  const [seen, setSeen] = useState([]);
  const numbers = useRowNumbers(seen.slice(0, ROWS_MAX), range);
  const of = ({ id }) => numbers[id] ?? {};
  const columns = [
    {
      title: "Endpoint",
      className: "name",
      cell: ({ id, name, app, environment }) => html`<a href=${to(["endpoint", id])}><b>${name}</b></a>
        <span class="soft"> ${app === null ? "" : `${app}/${environment}`}</span>`,
    },
    { title: "State", cell: ({ status }) => html`<${Badge} state=${status.state} />` },
    { title: "Workers", cell: (one) => html`<${Workers} endpoint=${one} />` },
    {
      title: "Waiting, over time",
      className: "wide",
      cell: (one) =>
        of(one).line && html`<${Spark} values=${of(one).line} label=${`waiting over the ${range.words}`} />`,
    },
    { title: "Waiting", className: "number", cell: (one) => number(of(one).waiting) },
    { title: "Running", className: "number", cell: (one) => number(of(one).running) },
    { title: "p50 / p95 run", className: "wide", cell: (one) => `${duration(of(one).p50)} / ${duration(of(one).p95)}` },
    {
      title: "Failed",
      className: "number",
      cell: (one) => {
        const { failed } = of(one);
        return failed > 0 ? html`<a class="bad" href=${failuresOf(one)}>${number(failed)}</a>` : number(failed);
      },
    },
    {
      title: "Runs on",
      className: "wide mono",
      cell: ({ gpuIds, instanceIds }) => gpuIds || instanceIds,
    },
  ];
  return html`<${List} label=${label} columns=${columns} rows=${endpoints} onSeen=${setSeen} empty="No endpoint is deployed here. In a project: svc deploy" />`;
}

function failuresOf({ id, kind }) {
  return kind === "queue"
    ? to("jobs", { endpoint: id, state: "FAILED" })
    : to("requests", { endpoint: id, status: "5xx" });
}

function Workers({ endpoint: { pods, workersMax } }) {
  const ready = pods.filter(isReady).length;
  return html`<span class="workers">
    <meter min="0" max=${Math.max(1, workersMax)} value=${ready} aria-hidden="true"></meter> ${ready}/${workersMax}
  </span>`;
}

function useRowNumbers(rows, range) {
  const wantedOf = ({ id, kind }) => {
    const isQueue = kind === "queue";
    const time = isQueue ? "runMs" : "requestMs";
    return [`${time}.p50`, `${time}.p95`, isQueue ? "failed" : "requests.5xx"].map((metric) => ({
      endpoint: id,
      metric,
    }));
  };
  const key = JSON.stringify(["rows", rows.map(({ id }) => id), range.ms]);
  const { data } = useData(
    key,
    async (signal) => {
      const now = Date.now();
      const lines = rows.flatMap(({ id }) => ["waiting", "running"].map((metric) => ({ endpoint: id, metric })));
      const stepMs = Math.max(range.stepMs, Math.ceil(range.ms / SPARK_POINTS / 10_000) * 10_000);
      const points = await fetchSeries(lines, { from: now - range.ms, to: now, stepMs }, signal);
      const totals = await fetchTotals(rows.flatMap(wantedOf), range, signal);
      const latest = (some) => some.findLast(({ value }) => value != null)?.value ?? 0;
      return Object.fromEntries(
        rows.map(({ id }, n) => {
          const [p50, p95, failed] = totals.slice(n * 3, n * 3 + 3);
          const line = points[2 * n].map(({ value }) => value);
          const numbers = { waiting: latest(points[2 * n]), running: latest(points[2 * n + 1]) };
          return [id, { line, ...numbers, p50, p95, failed: failed ?? 0 }];
        }),
      );
    },
    { topics: ["series"] },
  );
  return data ?? {};
}
