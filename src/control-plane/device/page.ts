/** The approval page: one HTML document without scripts and without anything from elsewhere. */
import { createHash } from "node:crypto";
import type { KeyScope } from "../../domain/api-key.ts";
import type { WaitingLogin } from "../../store/logins.ts";

const MEANING: Readonly<Record<KeyScope, string>> = {
  admin: "Everything, also making and revoking keys",
  deploy: "Deploy, change and remove apps and endpoints",
  invoke: "Call endpoints",
  read: "See apps, endpoints and logs",
};

const STYLE = `
:root { color-scheme: light dark; --ink: #14213d; --soft: #5b6478; --line: #d9dee8; --back: #f3f5f9; --card: #fff; --main: #2451d6; --bad: #b3261e; --good: #1d7a46 }
@media (prefers-color-scheme: dark) { :root { --ink: #e8ecf5; --soft: #9aa5bb; --line: #2e3850; --back: #0d1220; --card: #161d2f; --main: #7c9cff; --bad: #ff8a80; --good: #6fd69b } }
* { box-sizing: border-box }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 1.5rem; background: var(--back); color: var(--ink); font: 16px/1.5 system-ui, sans-serif }
main { width: 100%; max-width: 26rem; background: var(--card); border: 1px solid var(--line); border-radius: 14px; padding: 2rem; box-shadow: 0 12px 40px rgb(20 33 61 / .08) }
.name { font: 600 .85rem/1 ui-monospace, monospace; color: var(--soft); letter-spacing: .04em }
h1 { font-size: 1.35rem; line-height: 1.25; margin: .75rem 0 .5rem }
p { margin: .5rem 0; color: var(--soft) }
.code { font: 600 1.6rem/1 ui-monospace, monospace; letter-spacing: .08em; text-align: center; padding: 1rem; margin: 1.25rem 0; border: 1px dashed var(--line); border-radius: 10px; color: var(--ink) }
dl { display: grid; grid-template-columns: auto 1fr; gap: .35rem 1rem; margin: 1.25rem 0 }
dt { color: var(--soft) } dd { margin: 0; overflow-wrap: anywhere }
ul { margin: 0; padding: 0; list-style: none }
label { display: block; font-weight: 600; margin: 1.25rem 0 .35rem }
input { width: 100%; padding: .65rem .75rem; font: 1rem ui-monospace, monospace; color: inherit; background: transparent; border: 1px solid var(--line); border-radius: 8px }
.row { display: flex; gap: .75rem; margin-top: 1.25rem }
.answer { flex-direction: row-reverse }
button { flex: 1; padding: .7rem; font: 600 1rem system-ui, sans-serif; border-radius: 8px; border: 1px solid var(--line); background: transparent; color: inherit; cursor: pointer }
button.main { background: var(--main); border-color: var(--main); color: var(--card) }
input:focus-visible, button:focus-visible { outline: 3px solid var(--main); outline-offset: 2px }
.bad { color: var(--bad); font-weight: 600 } .good { color: var(--good) }
small { display: block; margin-top: .6rem; color: var(--soft) } code { font-family: ui-monospace, monospace; white-space: nowrap }
li + li { margin-top: .25rem }
@media (max-width: 480px) { body { padding: .75rem } main { padding: 1.5rem } }
`;

/** The page loads nothing, runs nothing, posts only to its own platform and cannot be framed. */
export const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  `style-src 'sha256-${createHash("sha256").update(STYLE).digest("base64")}'`,
  "form-action 'self'",
  "frame-ancestors 'none'",
  "base-uri 'none'",
].join("; ");

/** The first button is the one that Enter presses. */
export function approvalPage(login: WaitingLogin, problem = ""): string {
  const rights = login.scopes.map((scope) => `<li><b>${scope}</b> · ${MEANING[scope]}</li>`).join("");
  return page(
    "Approve a login",
    `<h1>Let “${escaped(login.machine)}” use this platform?</h1>
    <p>Approve only when you started this login yourself, and the code is the one your terminal shows.</p>
    <div class="code">${login.userCode}</div>
    <dl><dt>Machine</dt><dd>${escaped(login.machine)}</dd><dt>From</dt><dd>${escaped(login.address)}</dd>
    <dt>May</dt><dd><ul>${rights}</ul></dd></dl>
    ${problem === "" ? "" : `<p class="bad" role="alert">${escaped(problem)}</p>`}
    <form method="post" action="device">
      <input type="hidden" name="code" value="${login.userCode}">
      <label for="key">Your API key</label>
      <input id="key" name="key" type="password" autocomplete="off" spellcheck="false" autofocus>
      <small>A key with the scope admin. <code>svc whoami --show-key</code> shows yours. The machine gets a key of its own, never this one.</small>
      <div class="row answer"><button class="main" name="decision" value="approve">Approve</button><button name="decision" value="deny">Deny</button></div>
    </form>`,
  );
}

export function codePage(problem = ""): string {
  return page(
    "Enter a code",
    `<h1>Enter the code your terminal shows</h1>
    ${problem === "" ? "" : `<p class="bad" role="alert">${escaped(problem)}</p>`}
    <form method="get" action="device">
      <label for="code">Code</label>
      <input id="code" name="code" autocomplete="off" autocapitalize="characters" placeholder="BCDF-GHJK" autofocus>
      <div class="row"><button class="main">Continue</button></div>
    </form>`,
  );
}

export function donePage(machine: string, approved: boolean): string {
  return approved
    ? page(
        "Approved",
        `<h1 class="good">Approved</h1><p>“${escaped(machine)}” is logged in. You can close this page.</p>`,
      )
    : page("Denied", `<h1>Denied</h1><p>“${escaped(machine)}” got no key. You can close this page.</p>`);
}

function page(title: string, body: string): string {
  return `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>${title} · svc</title><style>${STYLE}</style></head>
<body><main><div class="name">svc</div>${body}</main></body></html>
`;
}

function escaped(text: string): string {
  const entities: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
  return text.replace(/[&<>"']/g, (character) => entities[character]!);
}
