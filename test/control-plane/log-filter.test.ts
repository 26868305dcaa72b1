import assert from "node:assert/strict";
import { test } from "node:test";
import { levelsOf } from "../../src/domain/log-level.ts";
import { deploy, ENV, sample } from "./builds.ts";
import { startPlatform } from "./platform.ts";

async function twoLogs(t: Parameters<typeof startPlatform>[0]) {
  const platform = await startPlatform(t);
  const build = await sample(platform);
  const [one] = (await deploy(platform, build, { env: ENV })).data.deployBuild.endpoints;
  const [other] = (await deploy(platform, build, { env: ENV, environment: "staging" })).data.deployBuild.endpoints;
  const { logs, logTime } = platform;
  const print = (endpointId: string, at: number, text: string, jobId = "") => {
    logTime.at = at;
    logs.append({ endpointId, workerId: "w", jobId, stream: "stderr", text });
  };
  print(one.id, 10, "first");
  print(other.id, 20, 'WARNING: the "second"\n', "j-2");
  print(one.id, 30, "[svc] job j-3 failed:\nTraceback (most recent call last):\nValueError: third", "j-3");
  print(other.id, 40, "fourth");
  await logs.idle();
  const ask = (path: string, key = platform.adminKey) =>
    fetch(platform.url + path, { headers: { authorization: `Bearer ${key}` } });
  const texts = async (path: string, key?: string) => {
    const lines = (await (await ask(path, key)).text()).split("\n").filter((line) => line !== "");
    return lines.map((line) => (JSON.parse(line) as { text: string }).text);
  };
  return { platform, one, other, ask, texts };
}

const THIRD = ["[svc] job j-3 failed:", "Traceback (most recent call last):", "ValueError: third"];

test("Logs of all endpoints are one list by time, and each line names its endpoint", async (t) => {
  const { one, other, ask, texts } = await twoLogs(t);
  assert.deepEqual(await texts("/logs"), ["first", 'WARNING: the "second"', ...THIRD, "fourth"]);
  const lines = (await (await ask("/logs?tail=2")).text()).trim().split("\n");
  assert.deepEqual(
    lines.map((line) => JSON.parse(line)),
    [
      {
        endpoint: one.id,
        at: 30,
        worker: "w",
        job: "j-3",
        stream: "stderr",
        level: "error",
        text: "ValueError: third",
      },
      { endpoint: other.id, at: 40, worker: "w", job: "", stream: "stderr", level: "info", text: "fourth" },
    ],
  );
  assert.deepEqual(await texts(`/logs?endpoint=${other.id}`), ['WARNING: the "second"', "fourth"]);
});

test("Lines are chosen by time, level, text and job, and the newest of them are kept", async (t) => {
  const { one, ask, texts } = await twoLogs(t);
  assert.deepEqual(await texts("/logs?since=20&until=30"), ['WARNING: the "second"', ...THIRD]);
  assert.deepEqual(await texts("/logs?level=error"), THIRD);
  assert.deepEqual(await texts("/logs?level=warning&tail=1"), ["ValueError: third"]);
  assert.deepEqual(await texts(`/logs?grep=${encodeURIComponent('"SECOND"')}`), ['WARNING: the "second"']);
  assert.deepEqual(await texts("/logs?grep=stderr"), [], "only what was printed counts");
  assert.deepEqual(await texts(`/logs/${one.id}?job=j-3&grep=third`), ["ValueError: third"]);
  for (const query of ["since=yesterday", "level=grave", "tail=-1", "until="]) {
    assert.equal((await ask(`/logs?${query}`)).status, 400, query);
  }
});

test("A bound key reads the logs of its environment alone", async (t) => {
  const { platform, one, ask, texts } = await twoLogs(t);
  const document = "mutation($input: KeyInput!) { createKey(input: $input) { secret } }";
  const input = { name: "x", scopes: ["read"], app: "shop", environment: "staging" };
  const { secret } = (await platform.ask(document, { input })).data.createKey;
  assert.deepEqual(await texts("/logs", secret), ['WARNING: the "second"', "fourth"]);
  assert.equal((await ask(`/logs?endpoint=${one.id}`, secret)).status, 403);
  assert.equal((await fetch(`${platform.url}/logs`)).status, 401);
});

test("A line's level is told from its words, and that of lines without one from those before", () => {
  const lines = ["2026-11-22 ERROR boom", "  more", "DEBUG:x", "a.py:1: UserWarning: old", "no INFORMATION", "INFO ok"];
  assert.deepEqual(levelsOf(lines), ["error", "error", "debug", "warning", "warning", "info"]);
  assert.deepEqual(levelsOf(["plain", "Traceback (most recent call last):"]), ["info", "error"]);
});
