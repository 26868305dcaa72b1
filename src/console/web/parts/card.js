/** A part of a page with a title, and what stands in it while there is nothing yet. */
import { html } from "../html.js";

export function Card({ title, aside, id, className = "", children }) {
  return html`<section class=${`card ${className}`} aria-labelledby=${id}>
    ${title !== undefined && html`<header><h2 id=${id}>${title}</h2>${aside}</header>`}
    ${children}
  </section>`;
}

/** Instead of data: that it is on its way, why it is not, or that there is none. */
export function Wait({ error, empty }) {
  if (error !== undefined) return html`<p class="problem" role="alert">${error.message}</p>`;
  return html`<p class="empty" role="status">${empty ?? "…"}</p>`;
}

export function Tile({ label, value, below, tone, href }) {
  const inside = html`<span class="soft">${label}</span><b>${value}</b><span class="soft">${below ?? ""}</span>`;
  return href === undefined
    ? html`<div class="tile" data-tone=${tone}>${inside}</div>`
    : html`<a class="tile" data-tone=${tone} href=${href}>${inside}</a>`;
}

const TONES = {
  READY: "good",
  COMPLETED: "good",
  ready: "good",
  live: "good",
  joined: "good",
  PREPARING: "busy",
  STARTING: "busy",
  BOOTING: "busy",
  IN_PROGRESS: "busy",
  IN_QUEUE: "busy",
  DELAYED: "busy",
  pending: "busy",
  DRAINING: "busy",
  draining: "busy",
  BLOCKED: "bad",
  FAILED: "bad",
  TIMED_OUT: "bad",
  failed: "bad",
  away: "bad",
};

export function Badge({ state }) {
  return html`<span class="badge" data-tone=${TONES[state] ?? "quiet"}>${state}</span>`;
}

/** What was done by a click and went wrong, or well. */
export function Said({ text, tone = "good" }) {
  return html`<p class=${`said ${tone}`} role=${tone === "bad" ? "alert" : "status"}>${text}</p>`;
}
