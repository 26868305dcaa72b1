/** One job: what it was given, what became of it, where its time went, and what it printed. */
import { clock, duration, since } from "../format.js";
import { html } from "../html.js";
import { Act } from "../parts/act.js";
import { Badge, Card, Wait } from "../parts/card.js";
import { askJob, isFinal } from "../parts/job-time.js";
import { isFailed, JOB_FIELDS, retryJob } from "../parts/jobs-table.js";
import { LogLines, useLogLines } from "../parts/log-lines.js";
import { Failure, Value } from "../parts/value.js";
import { TimeBar } from "../parts/where-time-goes.js";
import { ask, askJson, query } from "../platform.js";
import { to } from "../route.js";
import { useData } from "../use-query.js";

const RECORD = `query ($id: String!, $endpoint: String!) { jobs(filter: { id: $id, endpoint: $endpoint }, first: 1) { jobs { ${JOB_FIELDS} } } }`;
/** The shortest wait that the platform takes: the job is asked for as it is. */
const NOW_MS = 1_000;

export function Job({ rest: [endpointId = "", id = ""] }) {
  const { data, error, reload } = useData(
    `job ${endpointId} ${id}`,
    async (signal) => {
      const { jobs } = await query(RECORD, { id, endpoint: endpointId }, signal);
      const record = jobs.jobs.find((one) => one.id === id);
      const path = `/v2/${encodeURIComponent(endpointId)}/status/${encodeURIComponent(id)}?input=true`;
      // Of an expired job only the record is left.
      if (record !== undefined && !record.hasBodies && record.finishedAt !== null) return { record };
      const whole = await askJson(path, { signal });
      const { parts } = isFinal(whole) ? await askJob(endpointId, id, NOW_MS, signal) : { parts: undefined };
      return { record, whole, parts };
    },
    { topics: ["jobs"], every: 3_000 },
  );
  if (data === undefined) return html`<${Card} title="Job"><${Wait} error=${error} /></${Card}>`;
  const { record, whole, parts } = data;
  const state = whole?.status ?? record?.state;
  const address = `/v2/${encodeURIComponent(endpointId)}`;
  const cancel = async () => {
    await ask(`${address}/cancel/${encodeURIComponent(id)}`, { method: "POST" });
    reload();
    return "cancelled";
  };
  const retry = async () => {
    await retryJob({ id, endpointId });
    reload();
    return "in the queue again";
  };
  return html`
    <div class="heading">
      <h1 class="mono">${id}</h1>
      <${Badge} state=${state} />
      <a href=${to(["endpoint", endpointId])}>${record?.endpoint ?? endpointId}</a>
      <span class="soft">${record?.app && `${record.app}/${record.environment}`}</span>
      <span class="grow"></span>
      ${isFailed({ state }) && whole && html`<${Act} scope="invoke" className="main" label="Retry" run=${retry} />`}
      ${whole && !isFinal(whole) && html`<${Act} scope="invoke" label="Cancel" confirm="The job ends where it is. What it has done stays done." run=${cancel} />`}
    </div>
    ${error && html`<${Wait} error=${error} />`}
    <${Card} id="time" title="Where its time went">
      <${TimeBar} label="Parts of the job's time" parts=${parts ?? { wait: record?.waitMs ?? whole?.delayTime, run: record?.runMs ?? whole?.executionTime }} />
      <${Timeline} record=${record} whole=${whole} state=${state} />
    </${Card}>
    ${whole?.error !== undefined && state !== "CANCELLED" && html`<${Card} id="error" title="Error"><${Failure} error=${whole.error} /></${Card}>`}
    ${whole === undefined && html`<${Card} id="gone" title="Input and output"><p class="empty">They are not kept any more. ${record?.error}</p></${Card}>`}
    <div class="halves even">
      ${whole?.input !== undefined && html`<${Card} id="input" title="Input"><${Value} value=${whole.input} label="Input" /></${Card}>`}
      ${whole?.output !== undefined && html`<${Card} id="output" title="Output"><${Value} value=${whole.output} label="Output" /></${Card}>`}
    </div>
    <${Printed} endpointId=${endpointId} id=${id} />`;
}

function Timeline({ record, whole, state }) {
  const {
    createdAt = whole?.createdAt,
    startedAt,
    finishedAt,
    workerId = whole?.workerId,
    attempt = 1,
    coldStart,
    expiresAt,
  } = record ?? {};
  const steps = [
    [createdAt, "was submitted"],
    [
      startedAt,
      `began on worker ${workerId ?? ""}${coldStart === true ? ", which was started for it" : ""}${attempt > 1 ? `, attempt ${attempt}` : ""}`,
    ],
    [finishedAt, `ended ${state}`],
  ].filter(([at]) => at != null);
  return html`<ol class="timeline">
    ${steps.map(
      ([at, text], index) => html`<li key=${text}>
        <time datetime=${new Date(at).toISOString()}>${clock(at)}</time> ${text}
        ${index > 0 && html`<span class="soft"> after ${duration(at - steps[index - 1][0])}</span>`}
      </li>`,
    )}
    ${finishedAt == null && createdAt != null && html`<li class="soft">${since(createdAt)} ago</li>`}
    ${expiresAt != null && html`<li class="soft">Input and output are kept until ${clock(expiresAt)}.</li>`}
  </ol>`;
}

function Printed({ endpointId, id }) {
  const log = useLogLines(`/logs/${encodeURIComponent(endpointId)}?follow=1&tail=1000&job=${encodeURIComponent(id)}`);
  return html`<${Card} id="printed" title="Printed"><${LogLines} log=${log} empty="It printed nothing." /></${Card}>`;
}
