/** Calls an endpoint with what is typed, and shows what comes back and where the time went. */
import { duration } from "../format.js";
import { html, useMemo, useState } from "../html.js";
import { ask } from "../platform.js";
import { to } from "../route.js";
import { may } from "../session.js";
import { Badge } from "./card.js";
import { askJob, isFinal, partsOf } from "./job-time.js";
import { Failure, Value } from "./value.js";
import { TimeBar } from "./where-time-goes.js";

/** One long poll; the job is asked for until it ends. */
const POLL_MS = 20_000;
/** More of an answer is not shown. */
const SHOWN_MAX_BYTES = 1_000_000;

export function CallForm({ endpoint }) {
  const [call, setCall] = useState({ phase: "idle" });
  if (!may("invoke")) return html`<p class="empty">Calls need a key with the scope invoke.</p>`;
  const Form = endpoint.kind === "queue" ? QueueForm : RouteForm;
  const send = async (work) => {
    const startedAt = performance.now();
    setCall({ phase: "busy" });
    try {
      await work(
        (seen) => setCall({ phase: "busy", ...seen }),
        (end) => setCall({ phase: "done", ms: performance.now() - startedAt, ...end }),
      );
    } catch (error) {
      setCall({ phase: "done", problem: error.message });
    }
  };
  return html`<${Form} endpoint=${endpoint} busy=${call.phase === "busy"} send=${send} /><${Outcome} call=${call} endpoint=${endpoint} />`;
}

function QueueForm({ endpoint, busy, send }) {
  const fn = endpoint.functions[0] ?? { parameters: [], methods: [] };
  const [method, setMethod] = useState(fn.methods?.[0] ?? "");
  const example = useMemo(() => exampleOf(fn.methodParameters?.[method] ?? fn.parameters ?? []), [method]);
  const [typed, setTyped] = useState(undefined);
  const [problem, say] = useState("");
  const text = typed ?? example;
  const submit = (event) => {
    event.preventDefault();
    const wrong = jsonProblem(text);
    say(wrong);
    if (wrong !== "") return;
    const body = `{"input": ${text}${method === "" ? "" : `, "method": ${JSON.stringify(method)}`}}`;
    send(async (seen, done) => {
      const response = await ask(`/v2/${endpoint.id}/run`, { method: "POST", body, type: "application/json" });
      const { id, status } = await response.json();
      seen({ job: { id, status } });
      for (;;) {
        const { job, parts } = await askJob(endpoint.id, id, POLL_MS);
        if (isFinal(job)) return done({ job, parts });
        seen({ job });
      }
    });
  };
  return html`<form class="call" onSubmit=${submit}>
    ${
      fn.methods?.length > 0 &&
      html`<label>Method
        <select value=${method} onChange=${({ target }) => setMethod(target.value)}>${fn.methods.map((each) => html`<option key=${each}>${each}</option>`)}</select>
      </label>`
    }
    <label>Input, as JSON
      <textarea rows="5" spellcheck=${false} value=${text} aria-invalid=${problem !== ""} onInput=${({ target }) => setTyped(target.value)}></textarea>
    </label>
    ${problem !== "" && html`<p class="problem" role="alert">${problem}</p>`}
    <button class="main" disabled=${busy}>${busy ? "…" : "Call"}</button>
  </form>`;
}

function RouteForm({ endpoint, busy, send }) {
  const routes = endpoint.routes.map(filled);
  const [route, setRoute] = useState(routes[0] ?? "GET /");
  const [verb, given] = route.split(" ");
  // A whole application says ANY.
  const method = verb === "ANY" ? "GET" : verb;
  const [typed, setTyped] = useState(undefined);
  const path = typed ?? given;
  const [body, setBody] = useState("{}");
  const takesBody = !["GET", "HEAD", "DELETE"].includes(method);
  const submit = (event) => {
    event.preventDefault();
    send(async (_seen, done) => {
      const response = await ask(`/lb/${endpoint.id}${path.startsWith("/") ? path : `/${path}`}`, {
        method,
        anyStatus: true,
        body: takesBody ? body : undefined,
      });
      const type = response.headers.get("content-type") ?? "";
      const answer = await response.blob();
      const isText =
        /^(text\/|application\/(json|x-ndjson|xml))|\+json|\+xml/.test(type) && answer.size <= SHOWN_MAX_BYTES;
      const text = isText ? await answer.text() : `${answer.size} bytes of ${type || "no type"}`;
      done({
        status: response.status,
        output: /json/.test(type) && isText ? parsed(text) : text,
        parts: partsOf(response.headers.get("server-timing") ?? ""),
      });
    });
  };
  return html`<form class="call" onSubmit=${submit}>
    <label>Route
      <select
        value=${route}
        onChange=${({ target }) => {
          setRoute(target.value);
          setTyped(undefined);
        }}
      >
        ${routes.map((each) => html`<option key=${each}>${each}</option>`)}
      </select>
    </label>
    <label>Path and query
      <input value=${path} spellcheck=${false} onInput=${({ target }) => setTyped(target.value)} />
    </label>
    ${takesBody && html`<label>Body, as JSON <textarea rows="4" spellcheck=${false} value=${body} onInput=${({ target }) => setBody(target.value)}></textarea></label>`}
    <button class="main" disabled=${busy}>${busy ? "…" : "Call"}</button>
  </form>`;
}

function Outcome({ call: { phase, job, parts, problem, status, output, ms }, endpoint }) {
  if (phase === "idle") return null;
  return html`<div class="outcome" aria-live="polite">
    <p>
      ${job && html`<${Badge} state=${job.status} /> <a class="mono" href=${to(["job", endpoint.id, job.id])}>${job.id}</a>`}
      ${status !== undefined && html`<${Badge} state=${String(status)} />`}
      ${phase === "busy" ? html` <span class="soft">running …</span>` : ms !== undefined && html` <span class="soft">${duration(ms)} in all</span>`}
    </p>
    ${problem && html`<p class="problem" role="alert">${problem}</p>`}
    ${parts && html`<${TimeBar} label="Where this call's time went" parts=${parts} />`}
    ${phase === "done" && job?.error !== undefined && html`<${Failure} error=${job.error} />`}
    ${job?.output !== undefined && html`<${Value} value=${job.output} label="Output" />`}
    ${output !== undefined && html`<${Value} value=${output} label="Answer" />`}
  </div>`;
}

/** A value stands where the route takes one. */
function filled(route) {
  return route.replace(/\{[^}]*\}/g, "1");
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function jsonProblem(text) {
  try {
    JSON.parse(text);
    return "";
  } catch (error) {
    return `This is no JSON: ${error.message}`;
  }
}

/** What the parameters may be: their defaults and examples of their types. */
function exampleOf(parameters) {
  const of = ({ default: given, example, type }) => {
    if (given !== undefined) return given;
    if (example !== undefined) return example;
    return { integer: 1, number: 1, string: "text", boolean: false, array: [], object: {} }[[type].flat()[0]] ?? null;
  };
  const named = parameters.filter(({ name }) => /^\w+$/.test(name) && name !== "self");
  return JSON.stringify(Object.fromEntries(named.map(({ name, schema }) => [name, of(schema ?? {})])), null, 2);
}
