/** The console's documents: the page itself, and what a browser without a session is told. No script stands in them. */
import { pageToken } from "../domain/console-session.ts";
import { VERSION } from "../domain/version.ts";
import type { Assets } from "./assets.ts";

export interface PageSession {
  /** The cookie's value. It does not go into the page, its token does. */
  readonly secret: string;
  readonly keyName: string;
  readonly scopes: readonly string[];
  /** The key is bound to an environment or an endpoint. */
  readonly bound: boolean;
}

/**
 * Nothing from elsewhere, nothing inline, no frame around it, and no text that becomes a script. The policy on openers keeps its
 * window from pages of the same address that have another one: those of endpoints, which cannot set it (forwarded-headers.ts).
 */
export const DOCUMENT_HEADERS = {
  "Content-Type": "text/html; charset=utf-8",
  "Content-Security-Policy": [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join("; "),
  "Cross-Origin-Opener-Policy": "same-origin",
  "Cross-Origin-Resource-Policy": "same-origin",
  "Cache-Control": "no-store",
  "Referrer-Policy": "no-referrer",
  "X-Content-Type-Options": "nosniff",
  "X-Frame-Options": "DENY",
};

/** The page, with what it needs to act as its session. */
export function consolePage(assets: Assets, { secret, keyName, scopes, bound }: PageSession): string {
  const session = { token: pageToken(secret), keyName, scopes, bound, version: VERSION };
  const preloads = assets.modules().map((name) => `<link rel="modulepreload" href="${assets.address(name)}">`);
  return page(
    assets,
    `<meta name="svc-session" content="${escaped(JSON.stringify(session))}">
${preloads.join("\n")}
<script src="${assets.address("vendor/uplot.js")}" defer></script>
<script type="module" src="${assets.address("main.js")}"></script>`,
    `<div id="console"></div><noscript class="alone"><p>The console needs JavaScript. <code>svc status</code> shows the endpoints in a terminal.</p></noscript>`,
  );
}

/** Where a one-time link leads: its script hands in the code that stands behind the #. */
export function loginPage(assets: Assets): string {
  return page(
    assets,
    `<script type="module" src="${assets.address("login.js")}"></script>`,
    `<main class="alone"><h1>svc console</h1><p id="login" role="status">The console opens …</p>
<noscript><p>The console needs JavaScript.</p></noscript></main>`,
  );
}

export function noSessionPage(assets: Assets): string {
  return page(
    assets,
    "",
    `<main class="alone"><h1>svc console</h1>
<p>This browser has no session here. In a terminal, type</p>
<pre><code>svc console</code></pre>
<p>It opens this page with a link that works once. You are logged in already, and came here from elsewhere?
<a href="/">Open the console</a></p></main>`,
  );
}

/** Browsers say where a request comes from only over TLS and to their own machine; over an open wire the cookie would be read. */
export function notSafePage(assets: Assets): string {
  return page(
    assets,
    "",
    `<main class="alone"><h1>svc console</h1>
<p>The console opens over <b>https</b>, or on the machine itself as <b>localhost</b>: over plain HTTP everybody between would see its session.</p>
<p>Put a proxy with TLS in front of the platform, or bring its port to your machine and type <code>svc console</code> there:</p>
<pre><code>ssh -L 8000:localhost:8000 HOST</code></pre></main>`,
  );
}

function page(assets: Assets, head: string, body: string): string {
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>svc console</title>
<script src="${assets.address("start.js")}"></script>
<link rel="icon" href="${assets.address("icon.svg")}">
${assets
  .styles()
  .map((address) => `<link rel="stylesheet" href="${address}">`)
  .join("\n")}
${head}
</head>
<body>
${body}
</body>
</html>
`;
}

function escaped(text: string): string {
  const entities: Record<string, string> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" };
  return text.replace(/[&<>"']/g, (character) => entities[character]!);
}
