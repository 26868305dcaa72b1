/** What was deployed, by whom, what it changed, whether it started; and the way back. */
import { clock, plural, shortId } from "../format.js";
import { html } from "../html.js";
import { Act } from "../parts/act.js";
import { Badge, Card, Wait } from "../parts/card.js";
import { More } from "../parts/list.js";
import { query } from "../platform.js";
import { chosenPlace } from "../route.js";
import { usePages } from "../use-query.js";

const DEPLOYS = `query ($app: String, $environment: String, $after: String) { deploys(app: $app, environment: $environment, first: 30, after: $after) { next deploys {
  buildId app environment at action keyName gitCommit message live verdict reason verdictAt endpoints changes
} } }`;
const ROLLBACK = `mutation ($app: String!, $environment: String!, $buildId: String!) {
  rollback(app: $app, environment: $environment, buildId: $buildId) { buildId }
}`;

export function Deploys({ params }) {
  const place = chosenPlace(params);
  const load = async (after, signal) => {
    const { deploys } = await query(DEPLOYS, { ...place, after }, signal);
    return { rows: deploys.deploys.map((one) => ({ ...one, id: `${one.buildId} ${one.at}` })), next: deploys.next };
  };
  const pages = usePages(JSON.stringify(["deploys", place]), load, { topics: ["endpoints", "workers"] });
  return html`
    <h1 class="unseen">Deploys</h1>
    ${pages.rows === undefined && html`<${Card}><${Wait} error=${pages.error} /></${Card}>`}
    ${pages.rows?.length === 0 && html`<${Card}><${Wait} empty="Nothing was deployed yet. In a project: svc deploy" /></${Card}>`}
    ${pages.rows?.map((deploy) => html`<${Deploy} key=${deploy.id} deploy=${deploy} reload=${pages.reload} />`)}
    <${More} pages=${pages} />`;
}

function Deploy({ deploy, reload }) {
  const {
    buildId,
    app,
    environment,
    at,
    action,
    keyName,
    gitCommit,
    message,
    live,
    verdict,
    reason,
    endpoints,
    changes,
  } = deploy;
  const back = async () => {
    await query(ROLLBACK, { app, environment, buildId });
    reload();
    return "live";
  };
  return html`<section class="card deploy">
    <header>
      <h2>${app}/${environment}</h2>
      ${live && html`<${Badge} state="live" />`}
      <${Badge} state=${verdict} />
      ${action === "rollback" && html`<span class="badge" data-tone="quiet">rollback</span>`}
      <span class="grow"></span>
      ${!live && html`<${Act} scope="deploy" label="Roll back to it" confirm=${`${app}/${environment} gets this build again, with its code and variables. What runs ends first.`} run=${back} />`}
    </header>
    <p>
      <time datetime=${new Date(at).toISOString()}>${clock(at)}</time>
      <span class="soft"> by </span>${keyName || "an unknown key"}
      ${gitCommit && html`<span class="soft"> from </span><code title=${gitCommit}>${shortId(gitCommit)}</code>`}
      <span class="soft"> · ${plural(endpoints.length, "endpoint")} · build </span><code class="soft">${buildId}</code>
    </p>
    ${message && html`<p class="message">${message}</p>`}
    ${reason && html`<p class="problem">${reason}</p>`}
    ${
      changes.length === 0
        ? html`<p class="soft">Nothing changed.</p>`
        : html`<details open=${changes.length <= 12}>
            <summary>${plural(changes.length, "change")}</summary>
            <ul class="changes">${changes.map((line, n) => html`<li key=${n} data-tone=${toneOf(line)}>${line}</li>`)}</ul>
          </details>`
    }
  </section>`;
}

/** A line begins with what became of an endpoint. */
function toneOf(line) {
  if (/^(create|\+)/.test(line)) return "good";
  return /^(remove|-|−)/.test(line) ? "bad" : "quiet";
}
