/** What the machine has, who holds it, and what waits for which part of it. */
import { bytes, number } from "../format.js";
import { html } from "../html.js";
import { Card, Wait } from "../parts/card.js";
import { Chart } from "../parts/chart.js";
import { inPlace } from "../parts/endpoints-table.js";
import { Hosts } from "../parts/hosts.js";
import { List } from "../parts/list.js";
import { Measure, Share } from "../parts/measure.js";
import { RangePicker, rangeOf } from "../parts/range.js";
import { useSeries } from "../parts/series.js";
import { chosenPlace, to } from "../route.js";
import { session } from "../session.js";
import { useQuery } from "../use-query.js";

const CAPACITY = `{ capacity {
  vcpu { total promised used } memoryGb { total promised used }
  gpus { index name memoryGb busy usedGb endpoint workerId }
  holders { endpointId endpoint app environment workers vcpu memoryGb gpus }
  waiting { endpointId endpoint app environment wants lacks }
  workersQuota workersPromised diskFreeBytes diskTotalBytes
} hosts { id } myself { endpoints { id name } } }`;
const LOADS = {
  vcpu: [
    { metric: "machine.vcpuPromised", label: "promised to workers", tone: "main", fill: true },
    { metric: "machine.vcpuUsed", label: "busy", tone: "run" },
  ],
  gpu: [
    { metric: "machine.gpuPromised", label: "promised to workers", tone: "main", fill: true },
    { metric: "machine.gpuUsed", label: "busy", tone: "run" },
  ],
};

export function Capacity({ params }) {
  const { data, error } = useQuery(CAPACITY, {}, { topics: ["endpoints", "workers", "series"], every: 5_000 });
  if (data === undefined) return html`<${Card} title="Capacity"><${Wait} error=${error} /></${Card}>`;
  const { vcpu, memoryGb, gpus, workersQuota, workersPromised, diskFreeBytes, diskTotalBytes } = data.capacity;
  const place = chosenPlace(params);
  const holders = data.capacity.holders.filter(inPlace(place));
  const waiting = data.capacity.waiting.filter(inPlace(place));
  const ofPlace = place.app === undefined ? "" : ` of ${place.app}/${place.environment}`;
  // A key that is bound to a place sees what belongs to that alone.
  const scope = ofPlace !== "" && !session.bound && html`<span class="soft">all apps</span>`;
  const machine = data.hosts.length === 0 ? "The machine’s" : "All machines’";
  const names = new Map(data.myself.endpoints.map(({ id, name }) => [id, name]));
  const link = ({ endpoint, endpointId }) => html`<a href=${to(["endpoint", endpointId])}>${endpoint}</a>`;
  const holderColumns = [
    {
      title: "Endpoint",
      className: "name",
      cell: (one) =>
        html`${link(one)} <span class="soft">${one.app === null ? "" : `${one.app}/${one.environment}`}</span>`,
    },
    { title: "Workers", className: "number", cell: ({ workers }) => number(workers) },
    { title: "vCPU", cell: (one) => html`<${Part} of=${one.vcpu} all=${vcpu.total} unit=" vCPU" label="vCPU" />` },
    {
      title: "Memory",
      cell: (one) => html`<${Part} of=${one.memoryGb} all=${memoryGb.total} unit=" GB" label="memory" />`,
    },
    { title: "GPUs", className: "number", cell: (one) => number(one.gpus) },
  ];
  return html`
    <h1 class="unseen">Capacity</h1>
    <div class="halves even">
      <${Card} id="machine" title=${data.hosts.length === 0 ? "The machine" : "All machines"} aside=${scope}>
        <${Share} label="vCPU" share=${vcpu} unit="" />
        <${Share} label="Memory" share=${memoryGb} unit=" GB" />
        <${Measure} label="Workers that may run" value=${workersPromised} max=${workersQuota} text=${`${number(workersPromised)} of ${number(workersQuota)}`} />
        <${Measure} label="Disk" value=${diskTotalBytes - diskFreeBytes} max=${diskTotalBytes} text=${`${bytes(diskFreeBytes)} free of ${bytes(diskTotalBytes)}`} />
      </${Card}>
      <${Card} id="waiting" title="What waits for what">
        ${
          waiting.length === 0
            ? html`<p class="empty">No endpoint${ofPlace} waits for room.</p>`
            : html`<ul class="waits">${waiting.map(
                (one) =>
                  html`<li key=${one.endpointId}>${link(one)} wants ${number(one.wants)} more: <b>${one.lacks}</b></li>`,
              )}</ul>`
        }
      </${Card}>
    </div>
    <${Hosts} params=${params} />
    ${!session.bound && html`<${MachineLoad} of="vcpu" name="vCPU" machine=${machine} params=${params} scope=${scope} />`}
    ${gpus.some(({ busy }) => busy !== null) && html`<${MachineLoad} of="gpu" name="GPUs" machine=${machine} params=${params} scope=${scope} />`}
    <${Card} id="holders" title="Who holds what">
      <${List} label="Who holds what" columns=${holderColumns} rows=${holders} keyOf=${({ endpointId }) => endpointId} empty=${`No worker${ofPlace} runs.`} />
    </${Card}>
    ${
      gpus.length > 0 &&
      html`<${Card} id="gpus" title=${`${machine} GPUs`} aside=${scope}>
        <ul class="gpus">
          ${gpus.map(
            (gpu) => html`<li key=${gpu.index} data-tone=${gpu.endpoint === null ? "quiet" : "main"}>
              <b>${gpu.index}</b> ${wordsOf(gpu)}${" "}
              ${
                gpu.endpoint === null
                  ? html`<span class="soft">· no worker has it</span>`
                  : html`<a href=${to(["endpoint", gpu.endpoint])}>${names.get(gpu.endpoint) ?? gpu.endpoint}</a> <span class="mono soft">${gpu.workerId}</span>`
              }
            </li>`,
          )}
        </ul>
      </${Card}>`
    }`;
}

/** NVIDIA L4, 24 GB, 37 % busy, 11.8 GB in use: what is not known is left out. */
function wordsOf({ name, memoryGb, busy, usedGb }) {
  const said = [memoryGb > 0 && `${number(memoryGb)} GB`, busy !== null && `${number(busy * 100)} % busy`];
  return [name, ...said, usedGb !== null && `${number(usedGb, 1)} GB in use`].filter(Boolean).join(", ");
}

function MachineLoad({ of, name, machine, params, scope }) {
  const range = rangeOf(params);
  const lines = LOADS[of];
  const { data, error } = useSeries(
    {},
    lines.map(({ metric }) => metric),
    range,
  );
  return html`<${Card} id=${`load-${of}`} title=${`${machine} ${name} over time`} aside=${html`${scope}<${RangePicker} params=${params} />`}>
    ${
      data === undefined
        ? html`<${Wait} error=${error} />`
        : html`<${Chart} label=${`${name} promised and busy`} at=${data.at} series=${lines.map((line) => ({ ...line, stepped: true, values: data.values[line.metric] }))} format=${(value) => number(value, 1)} />`
    }
  </${Card}>`;
}

function Part({ of, all, unit, label }) {
  return html`<span class="workers"><meter min="0" max=${Math.max(all, 0.001)} value=${of} aria-label=${label}></meter> ${number(of, 1)}${unit}</span>`;
}
