/** What a list is narrowed by. Each stands in the address, so that a narrowed list can be kept and sent. */
import { html, useEffect, useState } from "../html.js";
import { change, chosenPlace } from "../route.js";
import { useQuery } from "../use-query.js";
import { inPlace } from "./endpoints-table.js";

/** One who types is not interrupted. */
const TYPED_MS = 300;

export function Filter({ name, label, params, placeholder, type = "search" }) {
  const given = params.get(name) ?? "";
  const [typed, setTyped] = useState(given);
  useEffect(() => setTyped(given), [given]);
  useEffect(() => {
    if (typed === given) return undefined;
    const timer = setTimeout(() => change({ [name]: typed }), TYPED_MS);
    return () => clearTimeout(timer);
  }, [typed]);
  return html`<label>${label}
    <input type=${type} value=${typed} placeholder=${placeholder} autocomplete="off" spellcheck=${false} onInput=${({ target }) => setTyped(target.value)} />
  </label>`;
}

export function StatePicker({ name, label, params, states }) {
  return html`<label>${label}
    <select value=${params.get(name) ?? ""} onChange=${({ target }) => change({ [name]: target.value })}>
      <option value="">any</option>
      ${states.map((state) => html`<option key=${state} value=${state}>${state}</option>`)}
    </select>
  </label>`;
}

/** By name; one that several places have is said with its place. */
export function EndpointPicker({ params, kind }) {
  const { data } = useQuery(
    "{ myself { endpoints { id name kind app environment } } }",
    {},
    { every: 60_000, topics: ["endpoints"] },
  );
  const chosen = params.get("endpoint") ?? "";
  const endpoints = (data?.myself.endpoints ?? [])
    .filter(inPlace(chosenPlace(params)))
    .filter((one) => kind === undefined || one.kind === kind)
    .sort((one, other) => (one.name < other.name ? -1 : 1));
  return html`<label>Endpoint
    <select value=${chosen} onChange=${({ target }) => change({ endpoint: target.value })}>
      <option value="">any</option>
      ${chosen !== "" && !endpoints.some(({ id }) => id === chosen) && html`<option value=${chosen}>${chosen}</option>`}
      ${endpoints.map(({ id, name, app, environment }) => html`<option key=${id} value=${id}>${name}${app === null ? "" : ` · ${app}/${environment}`}</option>`)}
    </select>
  </label>`;
}
