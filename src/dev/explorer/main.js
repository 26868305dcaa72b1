/** Starts Swagger UI with our answers, our header, and the document that follows the code. */
import { answerComponent, stateOf } from "./answer.js";
import { Calls } from "./calls.js";
import { filterRoutes, headerComponents } from "./header.js";
import { History } from "./history.js";
import { fillIn, inputOf } from "./repeat.js";

const DOCUMENT = "/docs/openapi.json";
const calls = new Calls();
const history = new History();
calls.subscribe(() => {
  for (const [key, call] of calls.all()) {
    const [method, path] = key.split(" ");
    history.end(path, method, ...stateOf(call));
  }
});

/** Follows the system's choice of light or dark. */
const dark = matchMedia("(prefers-color-scheme: dark)");
const paint = () => document.documentElement.classList.toggle("dark-mode", dark.matches);
dark.addEventListener("change", paint);
paint();

const ui = SwaggerUIBundle({
  url: DOCUMENT,
  dom_id: "#explorer",
  deepLinking: true,
  docExpansion: "list",
  tryItOutEnabled: true,
  defaultModelsExpandDepth: -1,
  validatorUrl: null,
  plugins: [explorer],
  onComplete: fold,
});

function explorer(system) {
  const { React } = system;
  const h = React.createElement;
  const Answer = answerComponent({ React, calls });
  const tools = { system, history, document: DOCUMENT };
  const { Header, Tools } = headerComponents(tools);

  /** The answer first, then what the document says about answers. */
  const responses = (Original) => (props) =>
    h(
      React.Fragment,
      null,
      h(Answer, { ...props, response: props.tryItOutResponse }),
      h(
        "details",
        { className: "svc-documented" },
        h("summary", null, "Documented answers"),
        h(Original, { ...props, tryItOutResponse: null }),
      ),
    );

  return {
    wrapComponents: { responses, InfoContainer: () => Header, FilterContainer: () => Tools },
    fn: { opsFilter: filterRoutes },
    statePlugins: {
      spec: {
        wrapActions: {
          executeRequest: (original) => (request) => original({ ...request, userFetch: fetcher(system, request) }),
          clearResponse: (original) => (path, method) => {
            calls.clear(`${method} ${path}`);
            return original(path, method);
          },
        },
      },
    },
  };
}

/** Does the request of one operation; a job it makes is remembered for the operations that ask about jobs. */
function fetcher(system, { pathName, method }) {
  const operation = system.specSelectors.specJson().getIn(["paths", pathName, method]);
  const kind = operation?.getIn(["x-svc", "kind"]);
  const base = pathName.replace(/\/(run|runsync|(status|stream|cancel)\/\{id\})$/, "");
  const makesJob = kind === "run" || kind === "runsync";
  const address = (route) => (makesJob ? (id) => `${base}/${route}/${encodeURIComponent(id)}` : undefined);
  const about = {
    isJob: makesJob || kind === "job",
    prints: kind !== "job",
    follow: address("status"),
    cancel: address("cancel"),
  };
  return async (url, options) => {
    const { pathname, search } = new URL(url);
    history.add({ path: pathName, method, shown: pathname + search, input: inputOf(system, pathName, method) });
    const response = await calls.fetch(`${method} ${pathName}`, url, options, about);
    if (makesJob && response.ok) rememberJob(system, base, response.clone());
    return response;
  };
}

async function rememberJob(system, base, response) {
  const { id } = await response.json().catch(() => ({}));
  if (typeof id !== "string") return;
  for (const [route, method] of [
    ["status", "get"],
    ["stream", "get"],
    ["cancel", "post"],
  ]) {
    fillIn(system, `${base}/${route}/{id}`, method, "id", "path", id);
  }
}

/** A file that a call needs is asked for before anything is sent. */
function missingFiles(form) {
  const isNeeded = (input) => (input.closest("tr") ?? form).querySelector(".parameter__name.required") !== null;
  return [...form.querySelectorAll('input[type="file"]')].filter(
    (input) => input.files.length === 0 && isNeeded(input),
  );
}

document.addEventListener(
  "click",
  (event) => {
    const form = event.target.closest?.(".execute")?.closest(".opblock");
    const missing = form ? missingFiles(form) : [];
    if (missing.length === 0) return;
    event.stopPropagation();
    for (const input of missing) {
      input.classList.add("svc-missing");
      input.setAttribute("aria-invalid", "true");
      input.addEventListener("change", chosen, { once: true });
    }
    missing[0].focus();
  },
  { capture: true },
);

function chosen({ target }) {
  target.classList.remove("svc-missing");
  target.removeAttribute("aria-invalid");
}

/** The routes that ask about jobs are there when they are wanted. */
function fold() {
  document.title = `${ui.specSelectors.info().get("title")} · svc run`;
  for (const tag of ui.specSelectors.specJson().get("tags", [])) {
    if (!tag.get("x-svc-folded")) continue;
    const key = ["operations-tag", tag.get("name")];
    if (!location.hash.includes(encodeURIComponent(tag.get("name")))) ui.layoutActions.show(key, false);
  }
}

/** Code changed → a new document; a change that cannot run → its problem, and the earlier code goes on. */
const notice = document.getElementById("notice");

function show(text, tone) {
  notice.hidden = text === "";
  notice.dataset.tone = tone;
  notice.textContent = text;
}

async function reload() {
  const response = await fetch(DOCUMENT);
  const text = await response.text();
  if (response.ok && text !== ui.specSelectors.specStr()) ui.specActions.updateSpec(text);
}

function listen() {
  const changes = new EventSource("/docs/changes");
  let broken = false;
  changes.onopen = () => {
    if (broken) reload();
    broken = false;
    show("", "");
  };
  changes.onmessage = ({ data }) => {
    const { problem } = JSON.parse(data);
    show(problem === undefined ? "" : `The code before the last change still answers.\n\n${problem}`, "problem");
    if (problem === undefined) reload();
  };
  changes.onerror = () => {
    broken = true;
    show("svc run does not answer. Start it again and this page goes on.", "gone");
  };
  return changes;
}

// A browser allows few connections to one server: a page that is not looked at needs none.
let changes = listen();
document.addEventListener("visibilitychange", () => {
  changes.close();
  if (document.hidden) return;
  changes = listen();
  reload().catch(() => {});
});
