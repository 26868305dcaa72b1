/** The parts of a call's time, side by side: the wait for a worker, its start, the import of the code, the run. */
import { duration, plural } from "../format.js";
import { html } from "../html.js";

export const PARTS = [
  { name: "wait", text: "waited", tone: "wait" },
  { name: "boot", text: "started worker", tone: "boot" },
  { name: "import", text: "imported code", tone: "import" },
  { name: "run", text: "ran", tone: "run" },
];

/** `parts`: milliseconds by name; null: not known, or none. `scale`: milliseconds of the whole width; without it the parts fill it. */
export function TimeBar({ parts, label, scale }) {
  const known = PARTS.map((part) => ({ ...part, ms: parts[part.name] })).filter(({ ms }) => ms != null);
  if (known.length === 0) return html`<p class="empty">Nothing was measured yet.</p>`;
  const total = totalOf(parts);
  return html`<div class="where" role="group" aria-label=${label}>
    <div class="bar" aria-hidden="true" style=${{ width: scale ? `${Math.max(1, (total / scale) * 100)}%` : "100%" }}>
      ${known.map(
        ({ name, tone, ms }) =>
          html`<i key=${name} data-tone=${tone} style=${{ flexGrow: Math.max(ms, total / 400) }}></i>`,
      )}
    </div>
    <ul>
      ${known.map(
        ({ name, tone, text, ms }) =>
          html`<li key=${name} class="legend" data-tone=${tone}>${text} <b>${duration(ms)}</b></li>`,
      )}
    </ul>
  </div>`;
}

function totalOf(parts) {
  return PARTS.reduce((sum, { name }) => sum + (parts[name] ?? 0), 0);
}

/** A usual call and a usual cold start on one scale: they are medians of different things, and add up to nothing together. */
export function CallAndStart({ call, start }) {
  const scale = Math.max(1, totalOf(call), totalOf(start));
  return html`<div class="call-and-start">
    <h3>A call <span class="soft">median</span></h3>
    <${TimeBar} label="Parts of a call" parts=${call} scale=${scale} />
    <h3>A cold start <span class="soft">median</span></h3>
    <${TimeBar} label="Parts of a cold start" parts=${start} scale=${scale} />
  </div>`;
}

const QUANTILES = ["p50", "p95", "p99"];

/** p50, p95 and p99 of each part, each as a bar of one scale. `values`: {"waitMs.p50": ms, …}. */
export function TimeTable({ values, metrics }) {
  const max = Math.max(1, ...metrics.flatMap(({ metric }) => QUANTILES.map((q) => values[`${metric}.${q}`] ?? 0)));
  return html`<table class="times">
    <thead><tr><th scope="col"></th>${QUANTILES.map((q) => html`<th key=${q} scope="col">${q}</th>`)}</tr></thead>
    <tbody>
      ${metrics.map(
        ({ metric, text, tone }) => html`<tr key=${metric}>
          <th scope="row"><span class="legend" data-tone=${tone}>${text}</span></th>
          ${QUANTILES.map((q) => {
            const ms = values[`${metric}.${q}`];
            return html`<td key=${q}>
              <span>${duration(ms)}</span>
              <i class="length" data-tone=${tone} style=${{ width: `${((ms ?? 0) / max) * 100}%` }} aria-hidden="true"></i>
            </td>`;
          })}
        </tr>`,
      )}
    </tbody>
  </table>`;
}

export function ColdShare({ numbers }) {
  const calls = (numbers.done ?? 0) + (numbers.failed ?? 0) + (numbers.requests ?? 0);
  const cold = numbers.coldStarts ?? 0;
  if (calls === 0 && cold === 0) return null;
  const share =
    calls === 0 ? "" : `, one for every ${plural(Math.round(Math.max(1, calls / Math.max(1, cold))), "call")}`;
  return html`<p class="soft">${cold === 0 ? "No cold start: every call found a worker." : `${plural(cold, "cold start")}${share}. A start's time is part of the wait of those who waited for it.`}</p>`;
}
