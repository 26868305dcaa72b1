/** Machines that joined, a card for each: how it is, what of it is promised, and what runs there. Nothing while there are none. */
import { number, plural, since } from "../format.js";
import { html, useState } from "../html.js";
import { to } from "../route.js";
import { session } from "../session.js";
import { useQuery } from "../use-query.js";
import { Badge, Card, Wait } from "./card.js";
import { Chart } from "./chart.js";
import { Measure, Share } from "./measure.js";
import { rangeOf } from "./range.js";
import { useSeries } from "./series.js";

const HOSTS = `{ hosts {
  id name state draining since labels version driver problems
  vcpu { total promised used } memoryGb { total promised used } gpus { index name workerId }
  workers { id endpointId endpoint app environment vcpu memoryGb gpus }
} }`;

/** What one looks at over time: a picture of each. */
const LINES = [
  { name: "vCPU", of: "vcpu" },
  { name: "Memory in GB", of: "gb" },
  { name: "GPUs", of: "gpu" },
];
const METRICS = LINES.flatMap(({ of }) => [`machine.${of}Promised`, `machine.${of}Used`]);
const HEIGHT = 120;

export function Hosts({ params }) {
  const { data } = useQuery(HOSTS, {}, { topics: ["workers"], every: 5_000 });
  const hosts = data?.hosts ?? [];
  return hosts.length === 0
    ? null
    : html`<div class="halves even">${hosts.map((host) => html`<${Host} key=${host.id} host=${host} params=${params} />`)}</div>`;
}

function Host({ host, params }) {
  const { id, name, state, draining, vcpu, memoryGb, gpus, labels, problems, workers } = host;
  const taken = gpus.filter(({ workerId }) => workerId !== null).length;
  const kept = state === "away" ? ` for ${since(host.since)}${draining ? ", draining" : ""}` : "";
  return html`<${Card} id=${`host-${id}`} title=${name} aside=${html`<span><${Badge} state=${state} /><span class="soft">${kept}</span></span>`}>
    ${problems.map((problem) => html`<p class="problem" key=${problem}>${problem}</p>`)}
    ${vcpu === null ? html`<p class="empty">It was not heard of since the platform started.</p>` : html`<${Share} label="vCPU" share=${vcpu} unit="" /><${Share} label="Memory" share=${memoryGb} unit=" GB" />`}
    ${gpus.length > 0 && html`<${Measure} label="GPUs" value=${taken} max=${gpus.length} text=${`${number(taken)} of ${number(gpus.length)} in use: ${[...new Set(gpus.map((gpu) => gpu.name))].join(", ")}`} />`}
    <${Running} workers=${workers} />
    ${!session.bound && html`<${OverTime} name=${name} hasGpus=${gpus.length > 0} params=${params} />`}
    <p class="soft">${labels.length > 0 && `Labels ${labels.join(", ")} · `}${host.driver === "docker" ? "containers" : "processes"} · svc ${host.version}</p>
  </${Card}>`;
}

/** Asked for once it is opened: there may be many machines. */
function OverTime({ name, hasGpus, params }) {
  const [isOpen, setOpen] = useState(false);
  const { words } = rangeOf(params);
  return html`<details onToggle=${({ target }) => setOpen(target.open)}>
    <summary>Over the last ${words}</summary>
    ${isOpen && html`<${History} name=${name} hasGpus=${hasGpus} params=${params} />`}
  </details>`;
}

function History({ name, hasGpus, params }) {
  const { data, error } = useSeries({ host: name }, METRICS, rangeOf(params));
  if (data === undefined) return html`<${Wait} error=${error} />`;
  return LINES.filter(({ of }) => of !== "gpu" || hasGpus).map(({ name: what, of }) => {
    const line = (kind, label, more) => ({
      label,
      ...more,
      stepped: true,
      values: data.values[`machine.${of}${kind}`],
    });
    const series = [
      line("Promised", "promised to workers", { tone: "main", fill: true }),
      line("Used", "busy", { tone: "run" }),
    ];
    return html`<p class="soft" key=${of}>${what}</p>
      <${Chart} label=${`${what} of ${name}, promised and busy`} at=${data.at} series=${series} height=${HEIGHT} format=${(value) => number(value, 1)} />`;
  });
}

function Running({ workers }) {
  if (workers.length === 0) return html`<p class="empty">No worker runs there.</p>`;
  const byEndpoint = Object.values(Object.groupBy(workers, ({ endpointId }) => endpointId));
  return html`<ul class="waits">${byEndpoint.map((some) => {
    const [{ endpointId, endpoint, app, environment }] = some;
    const sum = (of) => some.reduce((total, one) => total + of(one), 0);
    const gpus = sum((one) => one.gpus);
    const vcpu = number(
      sum((one) => one.vcpu),
      1,
    );
    const memoryGb = number(
      sum((one) => one.memoryGb),
      1,
    );
    const parts = [plural(some.length, "worker"), `${vcpu} vCPU`, `${memoryGb} GB`];
    if (gpus > 0) parts.push(plural(gpus, "GPU"));
    const named = endpointId === "" ? "starting" : html`<a href=${to(["endpoint", endpointId])}>${endpoint}</a>`;
    return html`<li key=${endpointId}>${named} <span class="soft">${app === null ? "" : `${app}/${environment}`}</span> ${parts.join(", ")}</li>`;
  })}</ul>`;
}
