/** How far back is looked; stands in the address as `last`. */
import { html } from "../html.js";
import { change } from "../route.js";

const MINUTE = 60_000;
export const RANGES = {
  "10m": 10 * MINUTE,
  "1h": 60 * MINUTE,
  "6h": 360 * MINUTE,
  "1d": 1440 * MINUTE,
  "7d": 10_080 * MINUTE,
};
const WORDS = { "10m": "10 minutes", "1h": "hour", "6h": "6 hours", "1d": "day", "7d": "7 days" };
/** So many points are enough for a picture. */
const POINTS = 120;
const STEP_MS = 10_000;

export function rangeOf(params) {
  const name = Object.hasOwn(RANGES, params.get("last") ?? "") ? params.get("last") : "1h";
  const ms = RANGES[name];
  return { name, ms, words: WORDS[name], stepMs: Math.max(STEP_MS, Math.ceil(ms / POINTS / STEP_MS) * STEP_MS) };
}

export function RangePicker({ params }) {
  const { name } = rangeOf(params);
  return html`<div class="picker" role="group" aria-label="How far back">
    ${Object.keys(RANGES).map(
      (each) =>
        html`<button key=${each} type="button" aria-pressed=${each === name} onClick=${() => change({ last: each })}>${each}</button>`,
    )}
  </div>`;
}
