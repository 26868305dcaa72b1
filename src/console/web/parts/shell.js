/** What stands around every page: where to go, whose place is looked at, and whether the platform answers. */
import { html, useEffect, useRef, useState } from "../html.js";
import { ask, connection, onConnection } from "../platform.js";
import { change, to } from "../route.js";
import { may, session } from "../session.js";
import { useQuery } from "../use-query.js";

const LINKS = [
  ["overview", "Overview"],
  ["endpoints", "Endpoints"],
  ["jobs", "Jobs"],
  ["errors", "Errors"],
  ["requests", "Requests"],
  ["logs", "Logs"],
  ["deploys", "Deploys"],
  ["capacity", "Capacity"],
  ["keys", "Keys & secrets"],
  ["audit", "Audit", "admin"],
];
const PART_OF = { endpoint: "endpoints", job: "jobs" };

export function Shell({ page, params, main, children }) {
  const current = PART_OF[page] ?? page;
  const title = LINKS.find(([name]) => name === current)?.[1] ?? "Console";
  useEffect(() => {
    document.title = `${title} · svc`;
  }, [title]);
  const nav = useRef(null);
  useEffect(() => {
    nav.current?.querySelector("[aria-current]")?.scrollIntoView({ inline: "center", block: "nearest" });
  }, [current]);
  const links = LINKS.filter(([, , scope]) => scope === undefined || may(scope));
  const skip = (event) => {
    event.preventDefault();
    main.current?.focus();
  };
  return html`
    <a class="skip" href="#main" onClick=${skip}>To the content</a>
    <header class="top">
      <b class="brand">svc</b>
      <nav aria-label="Pages" ref=${nav}>
        ${links.map(
          ([name, text]) =>
            html`<a key=${name} href=${to(name)} aria-current=${name === current ? "page" : undefined}>${text}</a>`,
        )}
      </nav>
      <div class="who">
        <${Place} params=${params} />
        <span class="key" title=${`The key “${session.keyName}” may: ${session.scopes.join(", ")}`}>
          ${session.keyName} <span class="soft">${session.scopes.join(", ")}</span>
        </span>
        <button type="button" class="quiet" onClick=${logOut}>Log out</button>
      </div>
    </header>
    <${Connection} />
    <main id="main" tabindex="-1" ref=${main} aria-label=${title}>${children}</main>`;
}

async function logOut() {
  await ask("/console/logout", { method: "POST" }).catch(() => {});
  location.replace("/");
}

/** All of the platform, or one environment: goes along to every page. */
function Place({ params }) {
  const { data } = useQuery("{ apps { name environments { name } } }", {}, { every: 60_000 });
  const chosen = params.get("in") ?? "";
  const places = (data?.apps ?? []).flatMap(({ name, environments }) =>
    environments.map((one) => `${name}/${one.name}`),
  );
  if (chosen !== "" && !places.includes(chosen)) places.push(chosen);
  return html`<select
    aria-label="App and environment"
    value=${chosen}
    onChange=${({ target }) => change({ in: target.value })}
  >
    <option value="">all apps</option>
    ${places.map((place) => html`<option key=${place} value=${place}>${place}</option>`)}
  </select>`;
}

function Connection() {
  const [state, set] = useState(connection);
  useEffect(() => onConnection(set), []);
  const { data } = useQuery("{ myself { notices } }", {}, { every: 15_000 });
  if (state === "ended") {
    return html`<p class="banner bad" role="alert">
      This session is over: it is older than 12 hours, or its key was revoked. Type <code>svc console</code> in a terminal.
    </p>`;
  }
  if (state === "away") {
    return html`<p class="banner away" role="alert">The platform does not answer. This page shows what was last known, and goes on when it is back.</p>`;
  }
  return html`<div role="status">
    ${(data?.myself.notices ?? []).map((notice) => html`<p key=${notice} class="banner bad">${notice}</p>`)}
  </div>`;
}
