/** All endpoints, looked through by name. */
import { plural } from "../format.js";
import { html, useMemo } from "../html.js";
import { Card, Wait } from "../parts/card.js";
import { byNeed, ENDPOINT_LIST, EndpointsTable, inPlace } from "../parts/endpoints-table.js";
import { RangePicker, rangeOf } from "../parts/range.js";
import { change, chosenPlace } from "../route.js";
import { useQuery } from "../use-query.js";

export function Endpoints({ params }) {
  const { data, error } = useQuery(ENDPOINT_LIST, {}, { topics: ["endpoints", "workers"] });
  const { app, environment } = chosenPlace(params);
  const wanted = (params.get("name") ?? "").toLowerCase();
  const state = params.get("state") ?? "";
  const shown = useMemo(() => {
    const fits = ({ name, status }) => name.toLowerCase().includes(wanted) && (state === "" || status.state === state);
    return (data?.myself.endpoints ?? []).filter(inPlace({ app, environment })).filter(fits).sort(byNeed);
  }, [data, app, environment, wanted, state]);
  return html`
    <h1 class="unseen">Endpoints</h1>
    <form class="filters" role="search" onSubmit=${(event) => event.preventDefault()}>
      <label>Name <input type="search" value=${wanted} onInput=${({ target }) => change({ name: target.value })} /></label>
      <label>State
        <select value=${state} onChange=${({ target }) => change({ state: target.value })}>
          <option value="">any</option>
          ${["READY", "PREPARING", "BLOCKED", "STOPPED"].map((one) => html`<option key=${one}>${one}</option>`)}
        </select>
      </label>
      <span class="soft" role="status">${data && plural(shown.length, "endpoint")}</span>
      <${RangePicker} params=${params} />
    </form>
    <${Card}>
      ${data === undefined ? html`<${Wait} error=${error} />` : html`<${EndpointsTable} endpoints=${shown} range=${rangeOf(params)} label="Endpoints" />`}
    </${Card}>`;
}
