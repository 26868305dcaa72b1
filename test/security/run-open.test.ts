/** `svc run --host 0.0.0.0` runs code with the developer's key: the network gets it only with the token. */
import assert from "node:assert/strict";
import { test } from "node:test";
// @ts-expect-error: a file of the page, without types
import { codeExamples } from "../../src/dev/explorer/code-examples.js";
import { runProcess } from "../../src/lib/run-process.ts";
import { startSvcRun } from "../dev/svc-run.ts";
import { project, startPlatform } from "../e2e/platform.ts";
import { eventually } from "../eventually.ts";
import { rawCall } from "./raw-http.ts";

const FILES = {
  "main.py": `from svc import Endpoint, context

api = Endpoint(name="api", workers=(0, 1))

@api.get("/seen")
def seen(a="", b="", svc_token="") -> dict:
    return {"query": [a, b, svc_token], "headers": context().headers}
`,
  "job.py": `from svc import Endpoint

@Endpoint(name="job", workers=(0, 1))
def job() -> int:
    return 1
`,
};
const UPGRADE = { Connection: "Upgrade", Upgrade: "websocket" };

test("svc run that is open to the network answers those alone who have the token", { timeout: 300_000 }, async (t) => {
  const platform = await startPlatform(t);
  const server = await startSvcRun(t, platform, project(t, FILES, "shop"), ["--host", "0.0.0.0"]);
  const shown = /^ {2}(http:\/\/\S+:\d+)\/docs\?svc_token=([\w-]{20,})$/m.exec(server.output());
  assert.ok(shown, server.output());
  const [, , token] = shown;
  await eventually(() => assert.match(server.output(), /Open to the network/));
  const url = server.url.replace("localhost", "127.0.0.1");
  const calls: Parameters<typeof rawCall>[1][] = [
    { path: "/" },
    { path: "/docs" },
    { path: "/docs/openapi.json" },
    { method: "POST", path: "/job/runsync", body: '{"input":{}}' },
    { path: "/main/seen" },
    { path: "/main/seen", headers: UPGRADE },
    { path: "/main/seen?svc_token=" },
    { path: `/main/seen?svc_token=${token!.slice(0, -1)}` },
    { path: "/main/seen", headers: { Authorization: "Bearer x" } },
    { path: "/main/seen", headers: { Cookie: `svc_token_${new URL(url).port}=x` } },
  ];
  for (const call of calls) {
    const { status, text } = await rawCall(url, call);
    assert.equal(status, 401, `${call.path}: ${text}`);
    assert.match(text, /MISSING_KEY/);
  }
  const page = await rawCall(url, { path: `/docs?svc_token=${token}` });
  assert.equal(page.status, 200);
  // The page does not see the token: code that it gives out has its place, and works once it stands there.
  assert.match(page.text, /<html lang="en" data-asks-for-token>/);
  const { curl } = codeExamples({
    url: `${url}/job/runsync`,
    method: "POST",
    headers: {},
    body: '{"input":{}}',
    asksForToken: true,
  });
  assert.match(curl, /^# TOKEN: what stands behind svc_token= in the address that svc run shows\ncurl /);
  const { stdout } = await runProcess("bash", ["-c", curl.replace("Bearer TOKEN", `Bearer ${token}`)]);
  assert.match(stdout, /"output":1/);
  const [, cookie] = /Set-Cookie: (\S+); HttpOnly; SameSite=Strict/.exec(page.text)!;
  assert.equal(cookie, `svc_token_${new URL(url).port}=${token}`, "a browser sends it to the host's other ports too");
  const job = { method: "POST", path: "/job/runsync", body: '{"input":{}}' };
  assert.match((await rawCall(url, { ...job, headers: { Authorization: `Bearer ${token}` } })).text, /"output":1/);
  assert.match(
    (await rawCall(url, { ...job, headers: { Cookie: `svc_token_1=other; ${cookie}` } })).text,
    /"output":1/,
  );
  const seen = await rawCall(url, {
    path: `/main/seen?a=1&svc_token=${token}&b=2`,
    headers: { Cookie: `a=b; svc_token_1=of-another-server; ${cookie}; c=d` },
  });
  const [, body] = seen.text.split("\r\n\r\n");
  assert.match(body!, /"cookie":\s*"a=b; c=d"/);
  assert.match(body!, /"query":\s*\["1",\s*"2",\s*""\]/);
  assert.doesNotMatch(body!, new RegExp(`${token}|of-another-server`), "the function does not get to see it");
  assert.doesNotMatch(server.output().replaceAll(`/docs?svc_token=${token}`, ""), new RegExp(token!));
});
