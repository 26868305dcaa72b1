// May take 6 minutes.
/** Three platforms behind HAProxy, with the configuration that the page of several platforms has, upgraded one after the other, and back. */
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { VERSION } from "../../src/domain/version.ts";
import { lacksServers, Platforms } from "../campaign/platforms.ts";
import { type Called, startTraffic, TRAFFIC_PROJECT } from "../campaign/traffic.ts";
import { freePort } from "../free-port.ts";
import { npmPrefix } from "../other-version.ts";
import { PROGRAM } from "../program.ts";
import { findFront, startWith } from "./fronts.ts";
import { ROOT, tempDir } from "./platform.ts";

const skip = await lacksServers();
const PAGE = "docs/operate/several-platforms.md";
const OTHER = "9.9.9";
const COUNT = 3;

/** What the page says, with the addresses of here. */
async function startHaproxy(t: TestContext, platforms: Platforms) {
  const front = await findFront("HAProxy");
  if ("missing" in front) {
    t.skip(front.missing);
    return undefined;
  }
  const [, config = ""] = /^```text \[haproxy\.cfg\]\n([\s\S]*?)^```$/m.exec(
    readFileSync(path.join(ROOT, PAGE), "utf8"),
  )!;
  const at = `127.0.0.1:${await freePort()}`;
  let local = config.replace("bind :80", `bind ${at}`);
  for (const [n, port] of platforms.ports.entries()) {
    assert.ok(local.includes(`10.0.0.${n + 1}:7878`), local);
    local = local.replace(`10.0.0.${n + 1}:7878`, `127.0.0.1:${port}`);
  }
  return { url: `http://${at}`, said: await startWith(t, front, tempDir(t), local, [at]) };
}

test("Three platforms behind HAProxy are upgraded one after the other and back, with calls of every kind and deploys all the while: none fails", {
  skip,
}, async (t) => {
  const other = npmPrefix(t);
  await other.place({ version: OTHER });
  const platforms = await Platforms.start({ count: COUNT });
  t.after(() => platforms.close());
  const haproxy = await startHaproxy(t, platforms);
  if (haproxy === undefined) return;
  const { url } = haproxy;
  const called: Called = {
    url,
    key: platforms.key,
    async ask(route, body, { maxMs = 60_000, headers = {} } = {}) {
      const response = await fetch(new URL(route, url), {
        method: body === undefined ? "GET" : "POST",
        headers: { authorization: `Bearer ${platforms.key}`, "content-type": "application/json", ...headers },
        body: body === undefined ? undefined : JSON.stringify(body),
        signal: AbortSignal.timeout(maxMs),
      });
      const text = await response.text();
      return { status: response.status, text, json: response.ok ? JSON.parse(text) : undefined };
    },
  };
  const urls = await platforms.deploy(TRAFFIC_PROJECT(0), url);
  const traffic = startTraffic(called, urls);
  let deploys = 0;
  const versions = () => platforms.postgres.sql("SELECT DISTINCT version FROM platform_replicas", "svc");
  try {
    for (const [program, version] of [
      [other.program, OTHER],
      [PROGRAM, VERSION],
    ] as const) {
      for (let n = 0; n < COUNT; n++) {
        const deployed = platforms.deploy(TRAFFIC_PROJECT(++deploys), url);
        const problem = deployed.then(
          () => "",
          (error: Error) => `deploy ${deploys}: ${error.message}`,
        );
        await platforms.end(n, "SIGTERM");
        await platforms.launch(n, program);
        assert.equal(await problem, "", haproxy.said());
      }
      assert.equal(await versions(), version);
    }
  } finally {
    await traffic.stop();
  }
  assert.deepEqual(traffic.failed, [], haproxy.said());
  for (const [kind, count] of Object.entries(traffic.done)) assert.ok(count > 100, `${kind}: ${count}`);
  const { json } = await called.ask(`${urls.web}/hello`);
  assert.equal(json.version, deploys);
  t.diagnostic(`${JSON.stringify(traffic.done)} calls and ${deploys} deploys, none failed`);
});
