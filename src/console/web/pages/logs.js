/** What workers print, live: of one endpoint or of all, by job, level and text. */
import { html, useState } from "../html.js";
import { Card } from "../parts/card.js";
import { inPlace } from "../parts/endpoints-table.js";
import { EndpointPicker, Filter, StatePicker } from "../parts/filters.js";
import { LogLines, useLogLines } from "../parts/log-lines.js";
import { change, chosenPlace } from "../route.js";
import { useQuery } from "../use-query.js";

const TAIL = 500;
/** The address of a request has an end: of a larger place all endpoints are asked for. */
const NAMED_MAX = 100;

export function Logs({ params }) {
  const [paused, pause] = useState(false);
  const { data } = useQuery(
    "{ myself { endpoints { id name app environment } } }",
    {},
    { every: 60_000, topics: ["endpoints"] },
  );
  const place = chosenPlace(params);
  const all = data?.myself.endpoints ?? [];
  const chosen = params.get("endpoint");
  const own = all.filter(inPlace(place));
  const wanted = chosen ? [chosen] : place.app && own.length <= NAMED_MAX ? own.map(({ id }) => id) : [];
  const query = new URLSearchParams(wanted.map((id) => ["endpoint", id]));
  for (const name of ["job", "level", "grep"]) if (params.get(name)) query.set(name, params.get(name));
  query.set("follow", "1");
  query.set("tail", String(TAIL));
  const isEmpty = place.app !== undefined && data !== undefined && own.length === 0;
  const names = new Map(all.map(({ id, name }) => [id, name]));
  return html`
    <h1 class="unseen">Logs</h1>
    <form class="filters" role="search" onSubmit=${(event) => event.preventDefault()}>
      <${EndpointPicker} params=${params} />
      <${Filter} name="job" label="Job" params=${params} placeholder="its whole id" />
      <${StatePicker} name="level" label="At least" params=${params} states=${["debug", "info", "warning", "error"]} />
      <${Filter} name="grep" label="Text" params=${params} />
      <button type="button" aria-pressed=${paused} onClick=${() => pause(!paused)}>${paused ? "Go on" : "Pause"}</button>
    </form>
    <${Card}>
      ${
        data === undefined || isEmpty
          ? html`<p class="empty">${isEmpty ? "No endpoint is deployed here." : "…"}</p>`
          : html`<${Tail} path=${`/logs?${query}`} paused=${paused} nameOf=${(id) => names.get(id) ?? id} />`
      }
    </${Card}>`;
}

function Tail({ path, paused, nameOf }) {
  const log = useLogLines(path, { paused });
  return html`<${LogLines} log=${log} nameOf=${nameOf} onJob=${(job) => change({ job })} />`;
}
