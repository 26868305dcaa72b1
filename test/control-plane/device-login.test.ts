import assert from "node:assert/strict";
import { test } from "node:test";
import { startPlatform, type TestPlatform } from "./platform.ts";

const GRANT_TYPE = "urn:ietf:params:oauth:grant-type:device_code";

async function post(url: string, fields: Record<string, string>) {
  const response = await fetch(url, { method: "POST", body: new URLSearchParams(fields) });
  const text = await response.text();
  const isJson = response.headers.get("content-type")!.includes("json");
  return { status: response.status, text, headers: response.headers, body: isJson ? JSON.parse(text) : {} };
}

const ask = ({ url }: TestPlatform, fields: Record<string, string> = { machine: "anna's laptop" }) =>
  post(`${url}/device/code`, fields);
const poll = ({ url }: TestPlatform, device_code: string) =>
  post(`${url}/device/token`, { grant_type: GRANT_TYPE, device_code });
const decide = ({ url }: TestPlatform, code: string, key: string, decision = "approve") =>
  post(`${url}/device`, { code, key, decision });

test("an approved login gets a key of its own, named after the machine, once", async (t) => {
  const platform = await startPlatform(t);
  const { status, body } = await ask(platform);
  assert.equal(status, 200);
  assert.match(body.user_code, /^[B-Z]{4}-[B-Z]{4}$/);
  assert.deepEqual(
    [body.verification_uri, body.verification_uri_complete, body.expires_in, body.interval],
    [`${platform.url}/device`, `${platform.url}/device?code=${body.user_code}`, 600, 2],
  );
  assert.deepEqual((await poll(platform, body.device_code)).body, { error: "authorization_pending" });

  const page = await fetch(body.verification_uri_complete);
  const html = await page.text();
  assert.ok(html.includes(body.user_code) && html.includes("anna&#39;s laptop") && html.includes("<b>deploy</b>"));
  assert.match(page.headers.get("content-security-policy")!, /default-src 'none'.*frame-ancestors 'none'/);
  assert.ok(!/<script|https?:\/\//i.test(html), "it runs and loads nothing");

  const done = await decide(platform, body.user_code.toLowerCase().replace("-", " "), platform.adminKey);
  assert.match(done.text, /Approved/);
  assert.ok(!done.text.includes("svc_"));
  const granted = await poll(platform, body.device_code);
  assert.deepEqual([granted.status, granted.body.token_type, granted.body.scope], [200, "Bearer", "deploy invoke"]);
  const { data, errors } = await platform.ask("{ myself { version } }", {}, granted.body.access_token);
  assert.equal(errors, undefined);
  assert.ok(data.myself.version);
  const key = (await platform.store.keys.list()).find(({ name }) => name === "anna's laptop")!;
  assert.deepEqual(key.scopes, ["deploy", "invoke"]);
  assert.deepEqual((await poll(platform, body.device_code)).body, { error: "expired_token" });
});

test("only a key with the scope admin approves, and a refused one leaves the login waiting", async (t) => {
  const platform = await startPlatform(t);
  const { body } = await ask(platform);
  const { data } = await platform.ask(`mutation { createKey(input: {name: "d", scopes: ["deploy"]}) { secret } }`);
  for (const [key, message] of [
    ["", /unknown, revoked or expired/],
    ["svc_wrong", /unknown, revoked or expired/],
    [data.createKey.secret, /lacks the scope admin/],
  ] as const) {
    const { status, text } = await decide(platform, body.user_code, key);
    assert.equal(status, 403);
    assert.match(text, message);
    assert.ok(key === "" || !text.includes(key));
  }
  assert.equal((await decide(platform, body.user_code, platform.adminKey, "deny")).status, 200);
  assert.deepEqual((await poll(platform, body.device_code)).body, { error: "access_denied" });
  assert.equal((await platform.store.keys.list()).length, 2);
});

test("a code is shown to whoever has it, and guessing codes is stopped", async (t) => {
  const platform = await startPlatform(t);
  const { body } = await ask(platform);
  assert.match(await (await fetch(`${platform.url}/device`)).text(), /Enter the code/);
  let status = 0;
  for (let guess = 0; guess < 25; guess++) status = (await fetch(`${platform.url}/device?code=BBBB-BBBB`)).status;
  assert.equal(status, 429);
  const right = await fetch(`${platform.url}/device?code=${body.user_code}`);
  assert.equal(right.status, 200, "a right code is not locked out by others behind the same address");
});

test("what is asked for is bounded and escaped", async (t) => {
  const platform = await startPlatform(t);
  assert.equal((await ask(platform, { machine: "m", scope: "root" })).status, 400);
  const { body } = await ask(platform, { machine: `<img src=x>"${"x".repeat(200)}`, scope: "admin read" });
  const html = await (await fetch(body.verification_uri_complete)).text();
  assert.ok(!html.includes("<img") && html.includes("&lt;img src=x&gt;"));
  assert.match(html, /<b>admin<\/b> · Everything/);
  const large = await fetch(`${platform.url}/device/code`, { method: "POST", body: "x".repeat(20_000) });
  assert.equal(large.status, 413);
  assert.equal((await fetch(`${platform.url}/device/code`)).status, 405);
  const json = await fetch(`${platform.url}/device/code`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ machine: "m" }),
  });
  assert.equal(json.status, 200);
  const other = await post(`${platform.url}/device/token`, { grant_type: "password" });
  assert.deepEqual([other.status, other.body.error], [400, "unsupported_grant_type"]);
  let refused = 0;
  for (let i = 0; i < 20; i++) refused = (await ask(platform)).status;
  assert.equal(refused, 429);
});

test("a login waits its ten minutes, however the machine's clock is set meanwhile", async (t) => {
  let setBy = 0;
  const clock = Date.now.bind(Date);
  t.mock.method(Date, "now", () => clock() + setBy);
  const platform = await startPlatform(t);
  const { body } = await ask(platform);
  setBy = 86_400_000;
  await decide(platform, body.user_code, platform.adminKey);
  const granted = await poll(platform, body.device_code);
  assert.deepEqual([granted.status, granted.body.token_type], [200, "Bearer"]);
});
