/** Jobs in rows: state, whose, when, how long, and why one failed. */
import { clock, duration, shortId } from "../format.js";
import { html } from "../html.js";
import { ask } from "../platform.js";
import { to } from "../route.js";
import { Act } from "./act.js";
import { Badge } from "./card.js";
import { List } from "./list.js";

export const JOB_FIELDS =
  "id endpointId endpoint app environment state createdAt startedAt finishedAt waitMs runMs attempt workerId coldStart error errorType hasBodies expiresAt";

export function isFailed({ state }) {
  return state === "FAILED" || state === "TIMED_OUT";
}

/** Puts a failed job back into its queue. */
export async function retryJob({ id, endpointId }) {
  await ask(`/v2/${encodeURIComponent(endpointId)}/retry/${encodeURIComponent(id)}`, { method: "POST" });
}

export function JobsTable({ label, jobs, empty, onEnd, retry = false }) {
  const columns = [
    { title: "State", cell: ({ state }) => html`<${Badge} state=${state} />` },
    {
      title: "Job",
      className: "mono",
      cell: ({ id, endpointId }) => html`<a href=${to(["job", endpointId, id])} title=${id}>${shortId(id)}</a>`,
    },
    {
      title: "Endpoint",
      className: "name",
      cell: ({ endpoint, endpointId }) => html`<a class="plain" href=${to(["endpoint", endpointId])}>${endpoint}</a>`,
    },
    { title: "Submitted", className: "number", cell: ({ createdAt }) => clock(createdAt) },
    {
      title: "Waited",
      className: "number",
      cell: ({ waitMs, coldStart }) =>
        html`${duration(waitMs)}${coldStart === true && html` <abbr class="cold" title="it waited for a cold start">cold</abbr>`}`,
    },
    { title: "Ran", className: "number wide", cell: ({ runMs }) => duration(runMs) },
    { title: "Error", className: "error", cell: ({ error }) => html`<span title=${error}>${error}</span>` },
    ...(retry
      ? [
          {
            title: "",
            className: "act-cell",
            cell: (job) =>
              isFailed(job) &&
              job.hasBodies &&
              html`<${Act} scope="invoke" label="Retry" run=${() => retryJob(job).then(() => "queued")} />`,
          },
        ]
      : []),
  ];
  return html`<${List} label=${label} columns=${columns} rows=${jobs} empty=${empty} onEnd=${onEnd} />`;
}
