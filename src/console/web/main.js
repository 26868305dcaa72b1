/** The console: which page is shown. */
import { html, render, useEffect, useRef } from "./html.js";
import { startLive } from "./live.js";
import { Audit } from "./pages/audit.js";
import { Capacity } from "./pages/capacity.js";
import { Deploys } from "./pages/deploys.js";
import { Endpoint } from "./pages/endpoint.js";
import { Endpoints } from "./pages/endpoints.js";
import { Errors } from "./pages/errors.js";
import { Job } from "./pages/job.js";
import { Jobs } from "./pages/jobs.js";
import { Keys } from "./pages/keys.js";
import { Logs } from "./pages/logs.js";
import { Overview } from "./pages/overview.js";
import { Requests } from "./pages/requests.js";
import { Shell } from "./parts/shell.js";
import { useRoute } from "./route.js";

const PAGES = {
  overview: Overview,
  endpoints: Endpoints,
  endpoint: Endpoint,
  jobs: Jobs,
  job: Job,
  errors: Errors,
  requests: Requests,
  logs: Logs,
  deploys: Deploys,
  capacity: Capacity,
  keys: Keys,
  audit: Audit,
};

function App() {
  const { page, rest, params } = useRoute();
  const Page = Object.hasOwn(PAGES, page) ? PAGES[page] : Unknown;
  const main = useRef(null);
  const place = [page, ...rest].join("/");
  const shown = useRef(place);
  useEffect(() => {
    // Who cannot see the page is told that it is another one.
    if (shown.current !== place) main.current?.focus({ preventScroll: true });
    if (shown.current !== place) scrollTo(0, 0);
    shown.current = place;
  }, [place]);
  return html`<${Shell} page=${page} params=${params} main=${main}>
    <${Page} key=${place} rest=${rest} params=${params} />
  </${Shell}>`;
}

function Unknown() {
  return html`<section class="card"><h1>There is no such page</h1><p><a href="#/">Overview</a></p></section>`;
}

startLive();
render(html`<${App} />`, document.getElementById("console"));
