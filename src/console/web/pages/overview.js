/** What runs, why it scaled, and what failed. */
import { duration, number } from "../format.js";
import { html, useMemo } from "../html.js";
import { Card, Tile, Wait } from "../parts/card.js";
import { byNeed, ENDPOINT_LIST, EndpointsTable, inPlace, isReady } from "../parts/endpoints-table.js";
import { JOB_FIELDS, JobsTable } from "../parts/jobs-table.js";
import { LoadCard, useLoad, WhyCard } from "../parts/load.js";
import { rangeOf } from "../parts/range.js";
import { useTotals } from "../parts/series.js";
import { CallAndStart, ColdShare } from "../parts/where-time-goes.js";
import { chosenPlace, to } from "../route.js";
import { useQuery } from "../use-query.js";

const ROWS = 12;
const LINES = [
  { metric: "waiting", label: "waiting", tone: "wait", fill: true },
  { metric: "running", label: "running", tone: "run" },
  { metric: "workersReady", label: "workers", tone: "main", fill: true },
];
const TOTALS = [
  "done",
  "failed",
  "coldStarts",
  "runMs.p95",
  "waitMs.p95",
  "waitMs.p50",
  "bootMs.p50",
  "importMs.p50",
  "runMs.p50",
];
const DECISIONS = `query ($app: String, $environment: String) {
  decisions(app: $app, environment: $environment, first: 14) { decisions { at endpointId endpoint start stop reason times } }
}`;
const FAILURES = `query ($app: String, $environment: String) {
  jobs(filter: { app: $app, environment: $environment, states: ["FAILED", "TIMED_OUT"] }, first: 5) { jobs { ${JOB_FIELDS} } }
}`;

export function Overview({ params }) {
  const place = chosenPlace(params);
  const range = rangeOf(params);
  const { data, error } = useQuery(ENDPOINT_LIST, {}, { topics: ["endpoints", "workers"] });
  const decisions = useQuery(DECISIONS, place, { topics: ["decisions"] });
  const failures = useQuery(FAILURES, place, { topics: ["jobs"] });
  const load = useLoad(place, LINES, range);
  const totals = useTotals(place, TOTALS, range);
  const { app, environment } = place;
  const endpoints = useMemo(
    () => (data?.myself.endpoints ?? []).filter(inPlace({ app, environment })).sort(byNeed),
    [data, app, environment],
  );
  const numbers = totals.data ?? {};
  return html`
    <h1 class="unseen">Overview</h1>
    <div class="tiles">
      <${Tiles} endpoints=${endpoints} quota=${data?.myself.workersQuota} newest=${load.newest} numbers=${numbers} range=${range} />
    </div>
    <div class="halves">
      <${LoadCard} load=${load} params=${params}>
        ${
          totals.data === undefined
            ? html`<${Wait} error=${totals.error} />`
            : html`<${CallAndStart}
                  call=${{ wait: numbers["waitMs.p50"], run: numbers["runMs.p50"] }}
                  start=${{ boot: numbers["bootMs.p50"], import: numbers["importMs.p50"] }}
                />
                <${ColdShare} numbers=${numbers} />`
        }
      </${LoadCard}>
      <${WhyCard} decisions=${decisions} />
    </div>
    <${Card}
      id="endpoints"
      title="Endpoints"
      aside=${endpoints.length > ROWS && html`<a href=${to("endpoints")}>all ${number(endpoints.length)}</a>`}
    >
      ${
        data === undefined
          ? html`<${Wait} error=${error} />`
          : html`<${EndpointsTable} endpoints=${endpoints.slice(0, ROWS)} range=${range} label="Endpoints" />`
      }
    </${Card}>
    <${Card} id="failures" title="Newest failures" aside=${html`<a href=${to("errors")}>by kind</a>`}>
      ${
        failures.data === undefined
          ? html`<${Wait} error=${failures.error} />`
          : html`<${JobsTable} label="Newest failures" jobs=${failures.data.jobs.jobs} empty="No job failed." retry />`
      }
    </${Card}>`;
}

function Tiles({ endpoints, quota, newest, numbers, range }) {
  const blocked = endpoints.filter(({ status }) => status.state === "BLOCKED").length;
  const ready = endpoints.flatMap(({ pods }) => pods).filter(isReady).length;
  const promised = endpoints.reduce((sum, { workersMax }) => sum + workersMax, 0);
  const ended = (numbers.done ?? 0) + (numbers.failed ?? 0);
  return html`
    <${Tile} label="Endpoints" value=${number(endpoints.length)} below=${`${blocked} blocked`} tone=${blocked > 0 ? "bad" : ""} href=${to("endpoints")} />
    <${Tile} label="Waiting" value=${number(newest("waiting"))} below=${`${number(newest("running"))} running`} href=${to("jobs", { state: "IN_QUEUE" })} />
    <${Tile} label="Workers" value=${number(ready)} below=${`at most ${number(promised)} of ${number(quota)}`} href=${to("capacity")} />
    <${Tile} label="Failed" value=${number(numbers.failed ?? 0)} below=${`of ${number(ended)} in the last ${range.words}`} tone=${numbers.failed > 0 ? "bad" : ""} href=${to("errors")} />
    <${Tile} label="p95 run" value=${duration(numbers["runMs.p95"])} below=${`p95 wait ${duration(numbers["waitMs.p95"])}`} />`;
}
