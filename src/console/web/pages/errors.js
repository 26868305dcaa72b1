/** Failures by kind: what failed alike stands together, and is retried together. */
import { clock, number } from "../format.js";
import { html } from "../html.js";
import { Act } from "../parts/act.js";
import { Card, Wait } from "../parts/card.js";
import { EndpointPicker } from "../parts/filters.js";
import { isFailed, retryJob } from "../parts/jobs-table.js";
import { List } from "../parts/list.js";
import { RangePicker, rangeOf } from "../parts/range.js";
import { query } from "../platform.js";
import { chosenPlace, to } from "../route.js";
import { useQuery } from "../use-query.js";

const GROUPS = `query ($endpoint: String, $app: String, $environment: String, $from: Float) {
  errorGroups(endpoint: $endpoint, app: $app, environment: $environment, from: $from, first: 200) {
    key type place message endpointId endpoint count firstAt lastAt lastJobId
  }
}`;
const FAILED = `query ($filter: JobFilter, $after: String) { jobs(filter: $filter, first: 100, after: $after) { next jobs { id endpointId state hasBodies } } }`;
/** Requests at once: the platform has others to answer too. */
const AT_ONCE = 4;
/** The address of what is asked changes with the minute, not with each look. */
const MINUTE_MS = 60_000;

export function Errors({ params }) {
  const range = rangeOf(params);
  const from = Math.floor((Date.now() - range.ms) / MINUTE_MS) * MINUTE_MS;
  const variables = { ...chosenPlace(params), endpoint: params.get("endpoint") || undefined, from };
  const { data, error, reload } = useQuery(GROUPS, variables, { topics: ["jobs"] });
  const columns = [
    {
      title: "Error",
      className: "error name",
      cell: ({ type, message }) =>
        html`<span title=${message}><b class="mono">${type}</b> ${message.startsWith(`${type}: `) ? message.slice(type.length + 2) : message}</span>`,
    },
    { title: "Where", className: "mono wide", cell: ({ place }) => place },
    {
      title: "Endpoint",
      cell: ({ endpoint, endpointId }) => html`<a class="plain" href=${to(["endpoint", endpointId])}>${endpoint}</a>`,
    },
    { title: "Times", className: "number", cell: ({ count }) => number(count) },
    { title: "First", className: "number wide", cell: ({ firstAt }) => clock(firstAt) },
    { title: "Last", className: "number", cell: ({ lastAt }) => clock(lastAt) },
    {
      title: "",
      className: "act-cell",
      cell: (group) =>
        group.lastJobId === null
          ? html`<a href=${to("requests", { endpoint: group.endpointId, route: group.place, status: "5xx" })}>Requests</a>`
          : html`<a href=${to("jobs", { group: group.key, endpoint: group.endpointId })}>Jobs</a>
          <${Act}
            scope="invoke"
            label="Retry all"
            confirm=${`Puts the jobs of ${group.endpoint} that failed with this error back into the queue, each with its input.`}
            run=${async () => {
              const text = await retryAlike(group);
              reload();
              return text;
            }}
          />`,
    },
  ];
  return html`
    <h1 class="unseen">Errors</h1>
    <form class="filters" role="search" onSubmit=${(event) => event.preventDefault()}>
      <${EndpointPicker} params=${params} />
      <${RangePicker} params=${params} />
    </form>
    <${Card}>
      ${
        data === undefined
          ? html`<${Wait} error=${error} />`
          : html`<${List} label="Kinds of errors" columns=${columns} rows=${data.errorGroups} keyOf=${({ key, endpointId }) => `${key} ${endpointId}`} empty=${`Nothing failed in the last ${range.words}.`} />`
      }
    </${Card}>`;
}

/** Resolves what to say: those that are not kept any more, or were retried meanwhile, are left alone. */
async function retryAlike({ key, endpointId }) {
  const jobs = [];
  for (let after; after !== null; ) {
    const page = await query(FAILED, { filter: { errorGroup: key, endpoint: endpointId }, after });
    jobs.push(...page.jobs.jobs.filter((job) => isFailed(job) && job.hasBodies));
    after = page.jobs.next;
  }
  const waiting = [...jobs];
  let done = 0;
  const retry = async () => {
    for (let job = waiting.pop(); job !== undefined; job = waiting.pop()) {
      await retryJob(job).then(
        () => done++,
        (error) => {
          if (error.code !== "JOB_NOT_RETRYABLE" && error.code !== "JOB_NOT_FOUND") throw error;
        },
      );
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, retry));
  return `${number(done)} of ${number(jobs.length)} in the queue again`;
}
