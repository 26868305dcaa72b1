/** Machines that joined, a card for each: how it is, what of it is promised, and what runs there. Nothing while there are none. */
import { number, plural, since } from "../format.js";
import { html } from "../html.js";
import { to } from "../route.js";
import { useQuery } from "../use-query.js";
import { Badge, Card } from "./card.js";
import { Measure, Share } from "./measure.js";

const HOSTS = `{ hosts {
  id name state draining since labels version driver problems
  vcpu { total promised used } memoryGb { total promised used } gpus { index name workerId }
  workers { id endpointId endpoint app environment vcpu memoryGb gpus }
} }`;

export function Hosts() {
  const { data } = useQuery(HOSTS, {}, { topics: ["workers"], every: 5_000 });
  const hosts = data?.hosts ?? [];
  return hosts.length === 0
    ? null
    : html`<div class="halves even">${hosts.map((host) => html`<${Host} key=${host.id} host=${host} />`)}</div>`;
}

function Host({ host }) {
  const { id, name, state, draining, vcpu, memoryGb, gpus, labels, problems, workers } = host;
  const taken = gpus.filter(({ workerId }) => workerId !== null).length;
  const kept = state === "away" ? ` for ${since(host.since)}${draining ? ", draining" : ""}` : "";
  return html`<${Card} id=${`host-${id}`} title=${name} aside=${html`<span><${Badge} state=${state} /><span class="soft">${kept}</span></span>`}>
    ${problems.map((problem) => html`<p class="problem" key=${problem}>${problem}</p>`)}
    ${vcpu === null ? html`<p class="empty">It was not heard of since the platform started.</p>` : html`<${Share} label="vCPU" share=${vcpu} unit="" /><${Share} label="Memory" share=${memoryGb} unit=" GB" />`}
    ${gpus.length > 0 && html`<${Measure} label="GPUs" value=${taken} max=${gpus.length} text=${`${number(taken)} of ${number(gpus.length)} in use: ${[...new Set(gpus.map((gpu) => gpu.name))].join(", ")}`} />`}
    <${Running} workers=${workers} />
    <p class="soft">${labels.length > 0 && `Labels ${labels.join(", ")} · `}${host.driver === "docker" ? "containers" : "processes"} · svc ${host.version}</p>
  </${Card}>`;
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
