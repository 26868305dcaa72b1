/** Jobs of all endpoints, newest first, looked through. */
import { html } from "../html.js";
import { Card, Wait } from "../parts/card.js";
import { EndpointPicker, Filter, StatePicker } from "../parts/filters.js";
import { JOB_FIELDS, JobsTable } from "../parts/jobs-table.js";
import { More } from "../parts/list.js";
import { query } from "../platform.js";
import { change, chosenPlace } from "../route.js";
import { usePages } from "../use-query.js";

const JOBS = `query ($filter: JobFilter, $after: String) { jobs(filter: $filter, first: 100, after: $after) { next jobs { ${JOB_FIELDS} } } }`;
const STATES = ["IN_QUEUE", "IN_PROGRESS", "COMPLETED", "FAILED", "TIMED_OUT", "CANCELLED"];

/** As the address says. */
export function jobFilter(params) {
  const text = (name) => params.get(name) || undefined;
  const time = (name) => (params.get(name) ? new Date(params.get(name)).getTime() : undefined);
  const state = text("state");
  return {
    ...chosenPlace(params),
    endpoint: text("endpoint"),
    id: text("id"),
    error: text("error"),
    errorGroup: text("group"),
    states: state && [state],
    from: time("from"),
    to: time("to"),
  };
}

export function Jobs({ params }) {
  const filter = jobFilter(params);
  const load = async (after, signal) => {
    const { jobs } = await query(JOBS, { filter, after }, signal);
    return { rows: jobs.jobs, next: jobs.next };
  };
  const pages = usePages(JSON.stringify(["jobs", filter]), load, { topics: ["jobs"], every: 5_000 });
  return html`
    <h1 class="unseen">Jobs</h1>
    <form class="filters" role="search" onSubmit=${(event) => event.preventDefault()}>
      <${Filter} name="id" label="Job id" params=${params} placeholder="its beginning" />
      <${EndpointPicker} params=${params} kind="queue" />
      <${StatePicker} params=${params} name="state" label="State" states=${STATES} />
      <${Filter} name="error" label="Error" params=${params} placeholder="part of its text" />
      <${Filter} name="from" label="From" params=${params} type="datetime-local" />
      <${Filter} name="to" label="To" params=${params} type="datetime-local" />
      ${params.get("group") && html`<button type="button" onClick=${() => change({ group: "" })}>Only one kind of error ✕</button>`}
    </form>
    <${Card}>
      ${
        pages.rows === undefined
          ? html`<${Wait} error=${pages.error} />`
          : html`${pages.error && html`<${Wait} error=${pages.error} />`}
              <${JobsTable} label="Jobs" jobs=${pages.rows} onEnd=${pages.loadMore} empty="No job fits." />
              <${More} pages=${pages} />`
      }
    </${Card}>`;
}
