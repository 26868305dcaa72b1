/** One endpoint: why it scaled, where the time of its calls goes, its workers with how each was started, and a form to call it. */
import { clock, duration, number, since } from "../format.js";
import { html } from "../html.js";
import { CallForm } from "../parts/call-form.js";
import { Badge, Card, Tile, Wait } from "../parts/card.js";
import { isReady } from "../parts/endpoints-table.js";
import { List } from "../parts/list.js";
import { LoadCard, useLoad, WhyCard } from "../parts/load.js";
import { rangeOf } from "../parts/range.js";
import { useTotals } from "../parts/series.js";
import { ColdShare, TimeBar, TimeTable } from "../parts/where-time-goes.js";
import { to } from "../route.js";
import { useQuery } from "../use-query.js";

const ENDPOINT = `query ($id: String!) { endpoint(id: $id) {
  id name kind url app environment buildId workersMin workersMax idleTimeout scalerType scalerValue maxConcurrency gpuIds instanceIds imageName
  routes functions envNames schedule emulatesGpu status { state reason progress } scheduleState { text next paused lastTick lastJobId }
  pods { id state current reason boot limits isolation startedAt readyAt jobsDone bootParts { waitMs bootMs importMs } }
} }`;
const DECISIONS =
  "query ($id: String!) { decisions(endpoint: $id, first: 30) { decisions { at endpointId endpoint start stop reason times } } }";
const LINES = [
  { metric: "waiting", label: "waiting", tone: "wait", fill: true },
  { metric: "running", label: "running", tone: "run" },
  { metric: "workersReady", label: "workers ready", tone: "main", fill: true },
  { metric: "workersStarting", label: "starting", tone: "boot" },
];
const QUANTILES = ["p50", "p95", "p99"];
const TIMES = {
  queue: [
    { metric: "waitMs", text: "waited", tone: "wait" },
    { metric: "bootMs", text: "started worker", tone: "boot" },
    { metric: "importMs", text: "imported code", tone: "import" },
    { metric: "runMs", text: "ran", tone: "run" },
  ],
  "load-balanced": [
    { metric: "bootMs", text: "started worker", tone: "boot" },
    { metric: "importMs", text: "imported code", tone: "import" },
    { metric: "requestMs", text: "answered", tone: "run" },
  ],
};

export function Endpoint({ rest: [id = ""], params }) {
  const range = rangeOf(params);
  const { data, error } = useQuery(ENDPOINT, { id }, { topics: ["endpoints", "workers"], every: 5_000 });
  if (data === undefined) return html`<${Card} title="Endpoint"><${Wait} error=${error} /></${Card}>`;
  if (data.endpoint === null)
    return html`<${Card} title="Endpoint"><${Wait} empty="There is no such endpoint; it may have been removed." /></${Card}>`;
  return html`<${Known} endpoint=${data.endpoint} range=${range} params=${params} />`;
}

function Known({ endpoint, range, params }) {
  const { id, kind, pods } = endpoint;
  const times = TIMES[kind] ?? TIMES.queue;
  const isQueue = kind === "queue";
  const ended = isQueue ? ["done", "failed"] : ["requests", "requests.4xx", "requests.5xx"];
  const metrics = ["coldStarts", ...ended, ...times.flatMap(({ metric }) => QUANTILES.map((q) => `${metric}.${q}`))];
  const totals = useTotals({ endpoint: id }, metrics, range);
  const load = useLoad({ endpoint: id }, LINES, range);
  const decisions = useQuery(DECISIONS, { id }, { topics: ["decisions"] });
  const numbers = totals.data ?? {};
  const { newest } = load;
  const failed = isQueue ? numbers.failed : numbers["requests.5xx"];
  const all = isQueue ? (numbers.done ?? 0) + (numbers.failed ?? 0) : (numbers.requests ?? 0);
  const share = all === 0 ? "–" : `${number(Math.min(100, ((numbers.coldStarts ?? 0) / all) * 100), 1)} %`;
  return html`
    <${Heading} endpoint=${endpoint} />
    <div class="tiles">
      <${Tile} label="Waiting" value=${number(newest("waiting"))} below=${`${number(newest("running"))} running`} href=${isQueue ? to("jobs", { endpoint: id }) : to("requests", { endpoint: id })} />
      <${Tile} label="Workers" value=${`${pods.filter(isReady).length}`} below=${`from ${endpoint.workersMin} to ${endpoint.workersMax}`} />
      <${Tile} label="Cold starts" value=${number(numbers.coldStarts ?? 0)} below=${`${share} of ${number(all)} calls`} />
      <${Tile} label="Failed" value=${number(failed ?? 0)} below=${`in the last ${range.words}`} tone=${failed > 0 ? "bad" : ""} href=${isQueue ? to("errors", { endpoint: id }) : to("requests", { endpoint: id, status: "5xx" })} />
      <${Tile} label=${isQueue ? "p95 run" : "p95 answer"} value=${duration(numbers[isQueue ? "runMs.p95" : "requestMs.p95"])} below=${isQueue ? `p95 wait ${duration(numbers["waitMs.p95"])}` : ""} />
    </div>
    <div class="halves">
      <div>
      <${LoadCard} load=${load} params=${params} />
    <${Card} id="times" title=${html`Where the time goes <span class="soft">last ${range.words}</span>`}>
      <${TimeTable} values=${numbers} metrics=${times} />
      <${ColdShare} numbers=${numbers} />
    </${Card}>
      </div>
      <${WhyCard} decisions=${decisions} named=${false} />
    </div>
    <${Card} id="workers" title="Workers"><${WorkerList} pods=${pods} /></${Card}>
    <div class="halves even">
      <${Card} id="call" title="Call it"><${CallForm} endpoint=${endpoint} /></${Card}>
      <${Card} id="settings" title="Settings"><${Settings} endpoint=${endpoint} /></${Card}>
    </div>`;
}

function Heading({ endpoint: { id, name, app, environment, kind, status } }) {
  return html`
    <div class="heading">
      <h1>${name}</h1>
      <${Badge} state=${status.state} />
      <span class="soft">${app === null ? "" : `${app}/${environment} · `}${kind}</span>
      <span class="grow"></span>
      ${kind === "queue" ? html`<a href=${to("jobs", { endpoint: id })}>Jobs</a>` : html`<a href=${to("requests", { endpoint: id })}>Requests</a>`}
      <a href=${to("logs", { endpoint: id })}>Logs</a>
    </div>
    ${status.reason && html`<p class="problem" role="status">${status.reason}</p>`}
    ${status.progress.map((text) => html`<p key=${text} class="soft" role="status">${text}</p>`)}`;
}

function WorkerList({ pods }) {
  const columns = [
    { title: "Worker", className: "mono", cell: ({ id }) => id },
    {
      title: "State",
      cell: ({ state, current }) =>
        html`<${Badge} state=${state} />${!current && html` <span class="soft">earlier build</span>`}`,
    },
    {
      title: "Age",
      className: "number",
      cell: ({ startedAt }) => html`<span title=${clock(startedAt)}>${since(startedAt)}</span>`,
    },
    { title: "Jobs", className: "number", cell: ({ jobsDone }) => number(jobsDone) },
    {
      title: "Started as",
      cell: ({ boot, reason }) =>
        html`<span title=${boot}>${boot || "…"}</span>${reason && html` <span class="soft">${reason}</span>`}`,
    },
    {
      title: "Its start",
      className: "starts",
      cell: ({ bootParts }) =>
        bootParts
          ? html`<${TimeBar} label="Parts of its start" parts=${{ wait: bootParts.waitMs, boot: bootParts.bootMs, import: bootParts.importMs }} />`
          : "–",
    },
    {
      title: "Confined by",
      className: "wide soft",
      cell: ({ limits, isolation }) => [isolation, limits].filter(Boolean).join(", "),
    },
  ];
  return html`<${List} label="Workers" columns=${columns} rows=${pods} empty="No worker runs: the next call starts one." />`;
}

function Settings({ endpoint }) {
  const {
    url,
    scalerType,
    scalerValue,
    idleTimeout,
    maxConcurrency,
    gpuIds,
    instanceIds,
    imageName,
    envNames,
    buildId,
    scheduleState,
    emulatesGpu,
  } = endpoint;
  const rows = [
    ["URL", html`<code>${url}</code>`],
    ["Runs on", `${gpuIds || instanceIds}${emulatesGpu ? ", on the CPU instead" : ""}`],
    ["Scales by", `${scalerType} ${scalerValue}, idle workers go after ${idleTimeout} s`],
    ["At once", `${maxConcurrency} for each worker`],
    ["Image", imageName],
    ["Variables", envNames.join(", ") || "none"],
    ["Build", buildId ?? "none"],
    ...(scheduleState === null
      ? []
      : [
          [
            "Schedule",
            `${scheduleState.text}${scheduleState.paused ? ", paused" : scheduleState.next === null ? "" : `, next ${clock(scheduleState.next)}`}`,
          ],
        ]),
  ];
  return html`<dl class="settings">${rows.map(([name, value]) => html`<div key=${name}><dt>${name}</dt><dd>${value}</dd></div>`)}</dl>`;
}
