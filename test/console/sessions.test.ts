/** The console's sessions as an attacker meets them: over HTTP alone, header by header. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { openPseudoTerminal } from "../cli/pseudo-terminal.ts";
import { ROOT, startPlatform, type TestPlatform } from "../e2e/platform.ts";
import { rawCall } from "../security/raw-http.ts";

const SAME = { "Sec-Fetch-Site": "same-origin" };
const NAVIGATION = { Accept: "text/html", "Sec-Fetch-Dest": "document", "Sec-Fetch-Mode": "navigate" };
const ME = JSON.stringify({ query: "{ myself { version } }" });

async function codeOf(platform: TestPlatform, key = platform.key): Promise<string> {
  const { code, stdout, stderr } = await platform.svc(["console", "--json"], { env: { PLATFORM_API_KEY: key } });
  assert.equal(code, 0, stderr);
  const { url, expiresAt } = JSON.parse(stdout) as { url: string; expiresAt: number };
  assert.ok(url.startsWith(`${platform.url}/console/login#`), url);
  assert.ok(expiresAt > Date.now());
  return url.split("#")[1]!;
}

const login = (platform: TestPlatform, code: string, headers: object = SAME) =>
  rawCall(platform.url, {
    method: "POST",
    path: "/console/login",
    body: JSON.stringify({ code }),
    headers: { "Content-Type": "application/json", ...headers },
  });

interface Session {
  readonly cookie: string;
  readonly token: string;
}

async function open(platform: TestPlatform, key = platform.key): Promise<Session> {
  const { status, text } = await login(platform, await codeOf(platform, key));
  assert.equal(status, 204, text);
  const cookie = /^set-cookie: ([^;]+); HttpOnly; SameSite=Strict; Path=\/; Max-Age=43200\r$/im.exec(text)![1]!;
  const page = await rawCall(platform.url, { path: "/", headers: { ...NAVIGATION, Cookie: cookie } });
  return { cookie, token: /&quot;token&quot;:&quot;([\w-]+)&quot;/.exec(page.text)![1]! };
}

function ask({ url }: TestPlatform, { cookie, token }: Session, headers: object = SAME, body = ME) {
  const sent = { "Content-Type": "application/json", Cookie: cookie, "X-Svc-Page": token, ...headers };
  return rawCall(url, { method: "POST", path: "/graphql", body, headers: sent });
}

const makeKey = async (platform: TestPlatform, name: string, scopes: readonly string[]) => {
  const document = "mutation ($input: KeyInput!) { createKey(input: $input) { secret key { id } } }";
  const { createKey } = await platform.query<{ createKey: { secret: string; key: { id: string } } }>(document, {
    input: { name, scopes },
  });
  return createKey;
};

test("A link opens one session, once; the session acts as its key from its own page alone, and ends with its key", {
  timeout: 300_000,
}, async (t) => {
  const platform = await startPlatform(t);
  const { url } = platform;

  await t.test("a program still gets its line of JSON, a browser without a session the command to type", async () => {
    assert.equal((await platform.call("/", { key: null })).json.status, "ok");
    const html = await rawCall(url, { path: "/", headers: NAVIGATION });
    assert.match(html.text, /svc console<\/code>/);
    for (const policy of [/^content-security-policy: default-src 'none'; script-src 'self'; style-src 'self';/im])
      assert.match(html.text, policy);
    assert.doesNotMatch(html.text, /unsafe-|<script>|svc-session/);
    const open = await rawCall(url, { path: "/", headers: { Accept: "text/html" } });
    assert.match(open.text, /opens over <b>https<\/b>/, "a browser that says nothing came over an open wire");
    assert.match((await rawCall(url, { path: "/console/login" })).text, /opens over <b>https<\/b>/);
  });

  await t.test("a link is worth nothing after its first use, from another page, or when it is made up", async () => {
    const code = await codeOf(platform);
    const foreign = await login(platform, code, { "Sec-Fetch-Site": "cross-site", Origin: "https://evil.example" });
    assert.equal(foreign.status, 403);
    assert.equal((await login(platform, code, {})).status, 403, "who does not say where from");
    assert.equal((await login(platform, code)).status, 204);
    const replayed = await login(platform, code);
    assert.equal(replayed.status, 401);
    assert.match(replayed.text, /it was used[\s\S]*revoke the key/);
    assert.equal((await login(platform, "made-up")).status, 401);
    assert.equal((await login(platform, "x".repeat(2000))).status, 413);
    const first = await codeOf(platform);
    for (let further = 0; further < 5; further++) await codeOf(platform);
    assert.equal((await login(platform, first)).status, 401, "a key has five links at most: the oldest ended");
  });

  await t.test("the cookie counts only with the page's token, and only for a page of the same origin", async () => {
    const session = await open(platform);
    assert.equal((await ask(platform, session)).status, 200);
    const other = await open(platform);
    for (const [why, answer] of [
      ["no token", await ask(platform, { ...session, token: "" })],
      ["the token of another session", await ask(platform, { ...session, token: other.token })],
      ["no cookie", await ask(platform, { ...session, cookie: "a=b" })],
      [
        "a page elsewhere",
        await ask(platform, session, { "Sec-Fetch-Site": "cross-site", Origin: "https://a.example" }),
      ],
      ["a page of another port", await ask(platform, session, { "Sec-Fetch-Site": "same-site" })],
      ["a form", await ask(platform, session, { "Sec-Fetch-Site": "none" })],
      ["who does not say", await ask(platform, session, {})],
    ] as const)
      assert.equal(answer.status, 401, `${why}: ${answer.text}`);
    // What a script of this address, such as an endpoint's page, may ask for: the token is not in it.
    for (const destination of ["empty", "iframe", "object", "script"]) {
      const headers = { ...NAVIGATION, ...SAME, "Sec-Fetch-Dest": destination, Cookie: session.cookie };
      assert.doesNotMatch((await rawCall(url, { path: "/", headers })).text, /svc-session/, destination);
    }
    const page = await rawCall(url, { path: "/", headers: { ...NAVIGATION, Cookie: session.cookie } });
    assert.match(page.text, /^cross-origin-opener-policy: same-origin/im);
    assert.match(page.text, /^cache-control: no-store/im);
    assert.ok(!page.text.includes(session.cookie.split("=")[1]!), "the cookie's value stands in no page");
  });

  await t.test("a session gets no further link: a stolen one does not live on", async () => {
    const body = JSON.stringify({ query: "mutation { createConsoleLink { url } }" });
    assert.match((await ask(platform, await open(platform), SAME, body)).text, /FORBIDDEN/);
  });

  await t.test("a session of a key that may only read does not act", async () => {
    const { secret } = await makeKey(platform, "looker", ["read"]);
    const session = await open(platform, secret);
    assert.equal((await ask(platform, session)).status, 200);
    for (const query of [
      'mutation { createKey(input: { name: "more", scopes: ["admin"] }) { secret } }',
      'mutation { createEnvironment(app: "shop", name: "x") { id } }',
      'mutation { setSecret(input: { app: "a", environment: "b", name: "N", value: "v" }) { name } }',
      "{ myself { keys { id } } }",
    ]) {
      assert.match((await ask(platform, session, SAME, JSON.stringify({ query }))).text, /"FORBIDDEN"/, query);
    }
  });

  await t.test("it ends by logging out, with its key, and when the key has ten newer ones", async () => {
    const { secret, key } = await makeKey(platform, "guest", ["read"]);
    const [first, second] = [await open(platform, secret), await open(platform, secret)];
    const { cookie, token } = first;
    const headers = { ...SAME, Cookie: cookie, "X-Svc-Page": token };
    const out = await rawCall(url, { method: "POST", path: "/console/logout", headers });
    assert.match(out.text, /^set-cookie: svc_console_\d+=; HttpOnly; SameSite=Strict; Path=\/; Max-Age=0/im);
    assert.equal((await ask(platform, first)).status, 401);
    for (let newer = 0; newer < 9; newer++) await open(platform, secret);
    assert.equal((await ask(platform, second)).status, 200);
    const last = await open(platform, secret);
    assert.equal((await ask(platform, second)).status, 401);
    assert.equal((await ask(platform, last)).status, 200);

    const waiting = await codeOf(platform, secret);
    await platform.query("mutation ($id: String!) { revokeKey(id: $id) }", { id: key.id });
    assert.equal((await ask(platform, last)).status, 401);
    assert.equal((await login(platform, waiting)).status, 401, "a link of a revoked key");
    const page = await rawCall(url, { path: "/", headers: { ...NAVIGATION, Cookie: last.cookie } });
    assert.match(page.text, /has no session here/);
  });

  await t.test("on a terminal the link is shown with how long it works", async () => {
    const env = { PATH: `${process.env.PATH}`, HOME: platform.dir, PLATFORM_URL: url, PLATFORM_API_KEY: platform.key };
    const terminal = openPseudoTerminal([`${ROOT}/bin/svc`, "console", "--no-browser"], {
      cwd: platform.dir,
      env: { ...env, SVC_CONFIG_DIR: `${platform.dir}/config` },
    });
    await terminal.shows(/\/console\/login#[\w-]+[\s\S]*It works once, until /);
    assert.equal(await terminal.ended, 0);
  });

  await t.test("the audit log says whose browser was let in, and from where", async () => {
    const { audit } = await platform.query<{ audit: { entries: object[] } }>(
      '{ audit(action: "console.login", first: 1) { entries { keyName target address } } }',
    );
    assert.deepEqual(audit.entries, [{ keyName: "guest", target: "guest", address: "127.0.0.1" }]);
  });

  await t.test("a session outlives a restart of the platform, a link does not", async () => {
    const [session, code] = [await open(platform), await codeOf(platform)];
    await platform.kill();
    const again = await platform.restart();
    assert.equal((await ask(again, session)).status, 200);
    assert.equal((await login(again, code)).status, 401);
  });
});
