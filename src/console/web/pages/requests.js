/** Requests of load-balanced endpoints, newest first: the last ones, of a bounded number. */
import { clock, duration } from "../format.js";
import { html } from "../html.js";
import { Card, Wait } from "../parts/card.js";
import { EndpointPicker, Filter, StatePicker } from "../parts/filters.js";
import { List, More } from "../parts/list.js";
import { query } from "../platform.js";
import { chosenPlace, to } from "../route.js";
import { usePages } from "../use-query.js";

const REQUESTS = `query ($filter: RequestFilter, $after: String) { requests(filter: $filter, first: 100, after: $after) { next requests {
  id endpointId endpoint method route path status at waitMs runMs totalMs workerId coldStart
} } }`;

export function Requests({ params }) {
  const text = (name) => params.get(name) || undefined;
  const filter = {
    ...chosenPlace(params),
    endpoint: text("endpoint"),
    route: text("route"),
    statusClass: text("status"),
    id: text("id"),
  };
  const load = async (after, signal) => {
    const { requests } = await query(REQUESTS, { filter, after }, signal);
    return { rows: requests.requests, next: requests.next };
  };
  const pages = usePages(JSON.stringify(["requests", filter]), load, { topics: ["series"], every: 5_000 });
  const columns = [
    { title: "Status", cell: ({ status }) => html`<span class="badge" data-tone=${toneOf(status)}>${status}</span>` },
    {
      title: "Request",
      className: "mono name",
      cell: ({ method, path, route }) => html`<span title=${route}><b>${method}</b> ${path}</span>`,
    },
    {
      title: "Endpoint",
      cell: ({ endpoint, endpointId }) => html`<a class="plain" href=${to(["endpoint", endpointId])}>${endpoint}</a>`,
    },
    { title: "At", className: "number", cell: ({ at }) => clock(at) },
    {
      title: "Waited",
      className: "number",
      cell: ({ waitMs, coldStart }) =>
        html`${duration(waitMs)}${coldStart === true && html` <abbr class="cold" title="it waited for a cold start">cold</abbr>`}`,
    },
    { title: "Ran", className: "number wide", cell: ({ runMs }) => duration(runMs) },
    { title: "In all", className: "number", cell: ({ totalMs }) => duration(totalMs) },
    { title: "Worker", className: "mono wide", cell: ({ workerId }) => workerId ?? "" },
  ];
  return html`
    <h1 class="unseen">Requests</h1>
    <form class="filters" role="search" onSubmit=${(event) => event.preventDefault()}>
      <${EndpointPicker} params=${params} kind="load-balanced" />
      <${Filter} name="route" label="Route" params=${params} placeholder="GET /items/{id}" />
      <${StatePicker} name="status" label="Status" params=${params} states=${["2xx", "3xx", "4xx", "5xx"]} />
      <${Filter} name="id" label="Request id" params=${params} />
    </form>
    <${Card}>
      ${
        pages.rows === undefined
          ? html`<${Wait} error=${pages.error} />`
          : html`<${List} label="Requests" columns=${columns} rows=${pages.rows} onEnd=${pages.loadMore} empty="No request fits." /><${More} pages=${pages} />`
      }
    </${Card}>`;
}

function toneOf(status) {
  if (status >= 500) return "bad";
  return status >= 400 ? "busy" : "good";
}
