/** Why it scaled: each decision of the autoscaler with its reason, in its own words. */
import { clock } from "../format.js";
import { html } from "../html.js";
import { to } from "../route.js";

export function Decisions({ decisions, named = true }) {
  if (decisions.length === 0) return html`<p class="empty">No worker was started or stopped yet.</p>`;
  return html`<ol class="decisions">
    ${decisions.map(
      (
        { at, start, stop, reason, times, endpoint, endpointId },
        index,
      ) => html`<li key=${`${at} ${endpointId} ${index}`}>
        <time datetime=${new Date(at).toISOString()}>${clock(at)}</time>
        <b data-tone=${start > 0 ? "good" : "quiet"}>${start > 0 ? `+${start}` : stop > 0 ? `−${stop}` : "="}</b>
        <span>
          ${named && html`<a class="mono" href=${to(["endpoint", endpointId])}>${endpoint}</a>${" "}`}${reason}
          ${times > 1 && html`<span class="soft"> ${times} times</span>`}
        </span>
      </li>`,
    )}
  </ol>`;
}
