/** Who did what, newest first. */
import { clock } from "../format.js";
import { html } from "../html.js";
import { Card, Wait } from "../parts/card.js";
import { Filter } from "../parts/filters.js";
import { List, More } from "../parts/list.js";
import { query } from "../platform.js";
import { usePages } from "../use-query.js";

const AUDIT = `query ($action: String, $from: Float, $to: Float, $after: String) {
  audit(action: $action, from: $from, to: $to, first: 100, after: $after) { next entries { id at keyId keyName action target detail address } }
}`;

export function Audit({ params }) {
  const time = (name) => (params.get(name) ? new Date(params.get(name)).getTime() : undefined);
  const filter = { action: params.get("action") || undefined, from: time("from"), to: time("to") };
  const load = async (after, signal) => {
    const { audit } = await query(AUDIT, { ...filter, after }, signal);
    return { rows: audit.entries, next: audit.next };
  };
  const pages = usePages(JSON.stringify(["audit", filter]), load);
  const columns = [
    { title: "At", className: "number", cell: ({ at }) => clock(at) },
    {
      title: "Who",
      className: "name",
      cell: ({ keyName, keyId }) => html`<span title=${keyId ?? ""}>${keyName || "the platform"}</span>`,
    },
    { title: "Did", className: "mono", cell: ({ action }) => action },
    { title: "To", className: "error", cell: ({ target }) => target },
    { title: "Detail", className: "error wide", cell: ({ detail }) => html`<span title=${detail}>${detail}</span>` },
    { title: "From", className: "mono", cell: ({ address }) => address },
  ];
  return html`
    <h1 class="unseen">Audit</h1>
    <form class="filters" role="search" onSubmit=${(event) => event.preventDefault()}>
      <${Filter} name="action" label="Did" params=${params} placeholder="key.create" />
      <${Filter} name="from" label="From" params=${params} type="datetime-local" />
      <${Filter} name="to" label="To" params=${params} type="datetime-local" />
    </form>
    <${Card}>
      ${
        pages.rows === undefined
          ? html`<${Wait} error=${pages.error} />`
          : html`<${List} label="Audit" columns=${columns} rows=${pages.rows} onEnd=${pages.loadMore} empty="No entry fits." /><${More} pages=${pages} />`
      }
    </${Card}>`;
}
