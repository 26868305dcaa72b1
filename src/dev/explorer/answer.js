/** What an operation shows of its last call: state, timing, and the answer as far as it has come. */
import { isFinal } from "./calls.js";
import { codeExamples } from "./code-examples.js";

const STEPS = { queue: "waited", boot: "started worker", import: "imported code", exec: "ran" };

/** @param {{ React: object, calls: import("./calls.js").Calls, stop: (key: string) => void }} tools */
export function answerComponent({ React, calls }) {
  const h = React.createElement;
  const { useSyncExternalStore, useState, useEffect, useRef } = React;

  function Answer({ path, method, getComponent, request, response, getConfigs }) {
    const key = `${method} ${path}`;
    const call = useSyncExternalStore(calls.subscribe, () => calls.get(key));
    if (call === undefined) return null;
    const running = call.phase === "waiting" || call.phase === "streaming" || isOpen(call);
    return h(
      "section",
      { className: "svc-answer", "data-phase": call.phase, "aria-label": "Answer" },
      h(
        "header",
        null,
        h(Badge, { call }),
        h(Elapsed, { call, running }),
        h("span", { className: "svc-space" }),
        h(Button, { call, id: key, running }),
      ),
      h(Timing, { call }),
      call.problem && h("p", { className: "svc-problem", role: "alert" }, call.problem),
      h(Body, { call, response, getComponent, getConfigs, request }),
      h(Printed, { call }),
      h(
        "div",
        { className: "svc-more" },
        h(More, { title: "Copy as code" }, h(Code, { call })),
        call.status !== undefined &&
          h(More, { title: `Headers (${call.status})` }, h(Headers, { headers: call.headers })),
        call.job !== undefined && h(More, { title: "Job as JSON" }, h(Text, { text: pretty(call.job) })),
      ),
    );
  }

  function Button({ call, id, running }) {
    const button = (text, onClick) => h("button", { type: "button", className: "svc-button", onClick }, text);
    if (isOpen(call) && call.cancel) return button("Cancel job", () => calls.cancelJob(id));
    return running ? button("Stop", () => calls.stop(id)) : button("Clear", () => calls.clear(id));
  }

  function Badge({ call }) {
    const [text, tone] = stateOf(call);
    return h("strong", { className: `svc-badge svc-${tone}`, role: "status" }, text);
  }

  /** Counts while the call runs. */
  function Elapsed({ call, running }) {
    const [, tick] = useState(0);
    useEffect(() => {
      if (!running) return undefined;
      const timer = setInterval(() => tick((count) => count + 1), 100);
      return () => clearInterval(timer);
    }, [running]);
    const end = running ? performance.now() : call.endedAt;
    return h("span", { className: "svc-elapsed" }, duration(end - call.startedAt), sizeOf(call));
  }

  /** Where the time went: a bar with a part for each step, and the same in words. */
  function Timing({ call }) {
    const steps = stepsOf(call);
    const total = steps.reduce((sum, step) => sum + step.ms, 0);
    if (steps.length === 0) return null;
    return h(
      "div",
      { className: "svc-timing" },
      steps.length > 1 &&
        h(
          "svg",
          { viewBox: "0 0 100 1", preserveAspectRatio: "none", "aria-hidden": true },
          steps.map(({ name, ms }, at) => {
            const x = steps.slice(0, at).reduce((sum, step) => sum + step.ms, 0);
            return h("rect", {
              key: name,
              className: `svc-step-${name}`,
              x: (x / total) * 100,
              width: (ms / total) * 100,
              height: 1,
            });
          }),
        ),
      h(
        "ul",
        null,
        steps.map(({ name, ms }) =>
          h("li", { key: name, className: `svc-step-${name}` }, wordOf(name, call), " ", h("b", null, duration(ms))),
        ),
        workerOf(call) && h("li", { className: "svc-worker" }, "on ", h("code", null, workerOf(call))),
      ),
    );
  }

  function Body({ call, response, getComponent, getConfigs, request }) {
    if (call.job !== undefined) return h(Job, { job: call.job });
    if (call.events !== undefined) return h(Events, { call });
    if (call.json !== undefined) return h(Text, { text: pretty(call.json) });
    if (call.text !== "") return h(Text, { text: call.text, live: true, cut: call.cut });
    if (call.phase !== "done" || call.bytes === 0 || !response?.get("text")) return null;
    const ResponseBody = getComponent("responseBody");
    const headers = call.headers;
    const content = response.get("text");
    return h(ResponseBody, {
      content,
      contentType: headers["content-type"],
      url: request?.get("url"),
      headers,
      getComponent,
      getConfigs,
    });
  }

  function Job({ job }) {
    const failure = failureOf(job);
    if (failure !== undefined) {
      return h(
        "div",
        { className: "svc-failure", role: "alert" },
        h("p", null, failure.type && h("code", null, failure.type), " ", failure.message),
        failure.traceback && h("pre", null, failure.traceback),
      );
    }
    if (job.output === undefined) return null;
    return h(Text, { text: pretty(job.output), label: isFinal(job.status) ? "Output" : "Output so far" });
  }

  /** Events of a stream, each with the time it came. */
  function Events({ call }) {
    const end = useRef(null);
    const count = call.events.length;
    useEffect(() => stayAtEnd(end.current), [count]);
    if (count === 0 && call.phase !== "done") return null;
    return h(
      "div",
      { className: "svc-text" },
      h("h5", null, count === 1 ? "1 event" : `${count} events`, call.cut && ", the last ones"),
      h(
        "ol",
        { className: "svc-events", ref: end, tabIndex: 0 },
        call.events.map(({ at, data, event }, index) =>
          h("li", { key: index }, h("time", null, duration(at)), event && h("i", null, event), h("span", null, data)),
        ),
      ),
    );
  }

  function Text({ text, label, live = false, cut = false }) {
    const block = useRef(null);
    useEffect(() => (live ? stayAtEnd(block.current) : undefined), [text, live]);
    const copy = () => navigator.clipboard.writeText(text);
    return h(
      "div",
      { className: "svc-text" },
      h(
        "h5",
        null,
        label ?? "Answer",
        cut && ", its end",
        h("button", { type: "button", className: "svc-button svc-copy", onClick: copy }, "Copy"),
      ),
      h("pre", { ref: block, tabIndex: 0 }, text),
    );
  }

  /** What the function printed; of a failed call it is seen at once, its traceback only once. */
  function Printed({ call }) {
    const { printed, job } = call;
    const traceback = (job && failureOf(job)?.traceback) ?? "";
    const known = new Set(traceback.split("\n"));
    const isNew = ({ text }) => traceback === "" || !(known.has(text) || text === `[svc] job ${job.id} failed:`);
    const lines = (printed?.lines ?? []).filter(isNew);
    if (lines.length === 0) return null;
    const count = `${printed.cut ? "the last " : ""}${lines.length === 1 ? "1 line" : `${lines.length} lines`}`;
    return h(
      "details",
      { className: "svc-printed", open: stateOf(call)[1] === "bad" },
      h("summary", null, `Printed (${count})`),
      h(
        "pre",
        { tabIndex: 0 },
        lines.map(({ stream, text }, index) => h("span", { key: index, className: `svc-${stream}` }, `${text}\n`)),
      ),
    );
  }

  function Code({ call }) {
    const examples = codeExamples({
      ...call.sent,
      saveAs: fileOf(call),
      asksForToken: "asksForToken" in document.documentElement.dataset,
    });
    const [name, choose] = useState("curl");
    const tabs = Object.keys(examples).map((each) =>
      h(
        "button",
        {
          key: each,
          type: "button",
          className: "svc-button",
          "aria-pressed": each === name,
          onClick: () => choose(each),
        },
        each,
      ),
    );
    return h(
      "div",
      { className: "svc-code" },
      h("div", { className: "svc-tabs" }, tabs),
      h(Text, { text: examples[name], label: name }),
    );
  }

  function More({ title, children }) {
    return h("details", null, h("summary", null, title), children);
  }

  function Headers({ headers }) {
    const rows = Object.entries(headers).map(([name, value]) =>
      h("tr", { key: name }, h("th", null, name), h("td", null, value)),
    );
    return h("table", { className: "svc-headers" }, h("tbody", null, rows));
  }

  return Answer;
}

/** In words, and how it looks. */
export function stateOf(call) {
  if (call.phase === "stopped") return ["stopped", "quiet"];
  if (call.phase === "failed") return ["no whole answer", "bad"];
  if (call.phase === "waiting") return ["waiting", "busy"];
  const job = call.job;
  if (job !== undefined) {
    const tones = { COMPLETED: "good", FAILED: "bad", TIMED_OUT: "bad", CANCELLED: "quiet" };
    return [job.status, tones[job.status] ?? "busy"];
  }
  if (call.phase === "streaming") return ["streaming", "busy"];
  return [String(call.status), call.status < 400 ? "good" : "bad"];
}

function isOpen({ phase, job }) {
  return phase === "done" && job !== undefined && !isFinal(job.status);
}

/** The steps that took any time. The server counts a worker's start as waiting too; here each time counts once. */
function stepsOf({ headers, job }) {
  const given = [...(headers["server-timing"] ?? "").matchAll(/(\w+);dur=([\d.]+)/g)];
  if (given.length > 0) {
    const ms = Object.fromEntries(given.map(([, name, time]) => [name, Number(time)]));
    ms.queue = Math.max(0, (ms.queue ?? 0) - (ms.boot ?? 0) - (ms.import ?? 0));
    const steps = Object.keys(STEPS).map((name) => ({ name, ms: ms[name] ?? 0 }));
    return steps.filter((step) => step.ms >= 0.05 || step.name === "exec");
  }
  if (job?.executionTime === undefined) return [];
  const waited = job.delayTime > 0 ? [{ name: "queue", ms: job.delayTime }] : [];
  return [...waited, { name: "exec", ms: job.executionTime }];
}

/** Of a streamed answer only its beginning is known to the server. */
function wordOf(step, { headers, job }) {
  const isStream = job === undefined && headers["content-length"] === undefined;
  return step === "exec" && isStream ? "began after" : STEPS[step];
}

function workerOf({ headers, job }) {
  return job?.workerId || headers["x-svc-worker-id"];
}

/** `error` of a job is JSON text with the exception, or plain text. */
function failureOf({ status, error }) {
  if (error === undefined && (status === "COMPLETED" || !isFinal(status))) return undefined;
  if (status === "CANCELLED") return undefined;
  if (error === undefined)
    return { message: status === "TIMED_OUT" ? "The function ran longer than it may." : "The job failed." };
  try {
    const { error_type, error_message, error_traceback } = JSON.parse(error);
    const type = error_type?.replace(/^<class '(.*)'>$/, "$1");
    return { type, message: error_message ?? error, traceback: error_traceback };
  } catch {
    return { message: String(error) };
  }
}

/** Where an example puts an answer that no terminal can show. */
function fileOf({ headers, bytes, text }) {
  const type = (headers["content-type"] ?? "").split(";")[0].trim();
  if (bytes === 0 || text !== "" || type === "") return undefined;
  return `answer.${/^[a-z]+\/([a-z0-9]{1,5})$/.exec(type)?.[1] ?? "bin"}`;
}

function pretty(value) {
  return typeof value === "string" ? value : JSON.stringify(value, null, 2);
}

function duration(ms) {
  if (ms >= 10_000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms >= 1000) return `${(ms / 1000).toFixed(2)} s`;
  return ms >= 10 ? `${Math.round(ms)} ms` : `${ms.toFixed(1)} ms`;
}

function sizeOf({ bytes, job }) {
  if (bytes === 0 || job !== undefined) return "";
  return bytes < 10_000 ? ` · ${bytes} bytes` : ` · ${(bytes / 1000).toFixed(0)} kB`;
}

/** Follows what is added, unless the reader has scrolled up. */
function stayAtEnd(block) {
  if (block === null) return;
  const isNear = block.scrollHeight - block.scrollTop - block.clientHeight < 200;
  if (isNear) block.scrollTop = block.scrollHeight;
}
