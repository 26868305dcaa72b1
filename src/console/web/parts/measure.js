/** How much of something is taken: in words, and as a bar. */
import { number } from "../format.js";
import { html } from "../html.js";

export function Measure({ label, value, max, text }) {
  return html`<div class="measure"><span>${label}</span><span class="soft">${text}</span><meter min="0" max=${Math.max(max, 0.001)} high=${max * 0.9} optimum="0" value=${value} aria-label=${label}></meter></div>`;
}

export function Share({ label, share: { total, promised, used }, unit }) {
  const busy = used === null || used === undefined ? "" : `, ${number(used, 1)}${unit} busy`;
  return html`<${Measure} label=${label} value=${promised} max=${total} text=${`${number(promised, 1)} of ${number(total, 1)}${unit} promised${busy}`} />`;
}
