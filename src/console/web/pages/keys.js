/** API keys, and the secrets of each environment. */
import { clock } from "../format.js";
import { html, useState } from "../html.js";
import { Act } from "../parts/act.js";
import { Card, Said, Wait } from "../parts/card.js";
import { List } from "../parts/list.js";
import { Value } from "../parts/value.js";
import { query } from "../platform.js";
import { chosenPlace } from "../route.js";
import { may } from "../session.js";
import { useQuery } from "../use-query.js";

const KEYS = "{ myself { keys { id name prefix scopes createdAt expiresAt lastUsedAt app environment endpoint } } }";
const CREATE = "mutation ($input: KeyInput!) { createKey(input: $input) { secret key { name } } }";
const REVOKE = "mutation ($id: String!) { revokeKey(id: $id) }";
const PLACES = "{ apps { name environments { name secrets { name createdAt updatedAt } endpoints { id name } } } }";
const SET = "mutation ($input: SecretInput!) { setSecret(input: $input) { name } }";
const DELETE = `mutation ($app: String!, $environment: String!, $name: String!) {
  deleteSecret(app: $app, environment: $environment, name: $name)
}`;
const SCOPES = ["deploy", "invoke", "read", "admin"];
const LIFETIMES = { "until it is revoked": "", "1 day": 86_400, "30 days": 2_592_000, "1 year": 31_536_000 };

export function Keys({ params }) {
  const { data, error, reload } = useQuery(PLACES, {});
  const { app, environment } = chosenPlace(params);
  const places = (data?.apps ?? [])
    .flatMap(({ name, environments }) => environments.map((one) => ({ app: name, environment: one.name, ...one })))
    .filter((place) => app === undefined || (place.app === app && place.environment === environment));
  return html`
    <h1 class="unseen">Keys and secrets</h1>
    ${may("admin") ? html`<${ApiKeys} places=${places} />` : html`<${Card} id="keys" title="API keys"><p class="empty">They are shown to keys with the scope admin.</p></${Card}>`}
    ${data === undefined && html`<${Card} id="secrets" title="Secrets"><${Wait} error=${error} /></${Card}>`}
    ${data !== undefined && places.length === 0 && html`<${Card} id="secrets" title="Secrets"><p class="empty">There is no environment yet.</p></${Card}>`}
    ${places.map((place) => html`<${Secrets} key=${`${place.app}/${place.environment}`} place=${place} reload=${reload} />`)}`;
}

function ApiKeys({ places }) {
  const { data, error, reload } = useQuery(KEYS, {});
  const [made, setMade] = useState(undefined);
  const columns = [
    { title: "Name", className: "name", cell: ({ name }) => html`<b>${name}</b>` },
    { title: "Key", className: "mono", cell: ({ prefix }) => `${prefix}…` },
    { title: "May", cell: ({ scopes }) => scopes.join(", ") },
    {
      title: "Reaches",
      cell: (key) =>
        [key.app && `${key.app}/${key.environment}`, key.endpoint].filter(Boolean).join("/") || "everything",
    },
    { title: "Made", className: "number wide", cell: ({ createdAt }) => clock(createdAt) },
    {
      title: "Used last",
      className: "number",
      cell: ({ lastUsedAt }) => (lastUsedAt === null ? "never" : clock(lastUsedAt)),
    },
    {
      title: "Ends",
      className: "number wide",
      cell: ({ expiresAt }) => (expiresAt === null ? "never" : clock(expiresAt)),
    },
    {
      title: "",
      className: "act-cell",
      cell: ({ id, name }) =>
        html`<${Act}
          scope="admin"
          label="Revoke"
          confirm=${`“${name}” is refused from that moment, with every session it opened.`}
          run=${async () => {
            await query(REVOKE, { id });
            reload();
          }}
        />`,
    },
  ];
  return html`<${Card} id="keys" title="API keys">
    ${data === undefined ? html`<${Wait} error=${error} />` : html`<${List} label="API keys" columns=${columns} rows=${data.myself.keys} />`}
    ${
      made !== undefined &&
      html`<div class="made" role="status"><p><b>The key “${made.key.name}” is shown only now:</b></p><${Value} value=${made.secret} label="New key" /></div>`
    }
    <${KeyForm}
      places=${places}
      done=${(created) => {
        setMade(created);
        reload();
      }}
    />
  </${Card}>`;
}

function KeyForm({ places, done }) {
  const [problem, say] = useState("");
  const submit = async (event) => {
    event.preventDefault();
    const form = event.target;
    const fields = new FormData(form);
    const [app, environment] = String(fields.get("place")).split("/");
    const lifetime = Number(fields.get("lifetime"));
    const input = {
      name: fields.get("name"),
      scopes: fields.getAll("scope"),
      ...(lifetime > 0 && { expiresInSeconds: lifetime }),
      ...(environment && { app, environment }),
    };
    try {
      const { createKey } = await query(CREATE, { input });
      say("");
      form.reset();
      done(createKey);
    } catch (error) {
      say(error.message);
    }
  };
  return html`<form class="filters below" onSubmit=${submit}>
    <label>Name <input name="name" required autocomplete="off" /></label>
    <fieldset><legend>May</legend>
      ${SCOPES.map((scope) => html`<label key=${scope} class="check"><input type="checkbox" name="scope" value=${scope} defaultChecked=${scope === "invoke"} /> ${scope}</label>`)}
    </fieldset>
    <label>Reaches
      <select name="place"><option value="">everything</option>${places.map(({ app, environment }) => html`<option key=${`${app}/${environment}`}>${app}/${environment}</option>`)}</select>
    </label>
    <label>Valid <select name="lifetime">${Object.entries(LIFETIMES).map(([text, seconds]) => html`<option key=${text} value=${seconds}>${text}</option>`)}</select></label>
    <button class="main">Make a key</button>
    ${problem !== "" && html`<${Said} text=${problem} tone="bad" />`}
  </form>`;
}

function Secrets({ place: { app, environment, secrets }, reload }) {
  const [said, say] = useState({ text: "", tone: "good" });
  const columns = [
    { title: "Name", className: "mono name", cell: ({ name }) => name },
    { title: "Made", className: "number", cell: ({ createdAt }) => clock(createdAt) },
    { title: "Changed", className: "number", cell: ({ updatedAt }) => clock(updatedAt) },
    {
      title: "",
      className: "act-cell",
      cell: ({ name }) =>
        html`<${Act}
          scope="deploy"
          label="Delete"
          confirm=${`The secret ${name} of ${app}/${environment} goes for good.`}
          run=${async () => {
            await query(DELETE, { app, environment, name });
            reload();
          }}
        />`,
    },
  ];
  const submit = async (event) => {
    event.preventDefault();
    const form = event.target;
    const fields = new FormData(form);
    try {
      await query(SET, { input: { app, environment, name: fields.get("name"), value: fields.get("value") } });
      say({ text: `${fields.get("name")} is set. Endpoints that use it get new workers.`, tone: "good" });
      form.reset();
      reload();
    } catch (error) {
      say({ text: error.message, tone: "bad" });
    }
  };
  return html`<${Card} id=${`secrets-${app}-${environment}`} title=${`Secrets of ${app}/${environment}`}>
    <${List} label=${`Secrets of ${app}/${environment}`} columns=${columns} rows=${secrets} keyOf=${({ name }) => name} empty="No secret yet." />
    ${
      may("deploy") &&
      html`<form class="filters below" onSubmit=${submit}>
        <label>Name <input name="name" required autocomplete="off" spellcheck=${false} /></label>
        <label>Value <input name="value" type="password" required autocomplete="new-password" /></label>
        <button class="main">Set</button>
        ${said.text !== "" && html`<${Said} ...${said} />`}
      </form>`
    }
  </${Card}>`;
}
