import assert from "node:assert/strict";
import { connect } from "node:net";
import { test } from "node:test";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { EVENT_FOLLOWER_MAX_BYTES, EVENT_FOLLOWERS_MAX, EVENT_JOBS_PER_S } from "../../src/domain/limits.ts";
import { eventually } from "../eventually.ts";
import { deploy, ENV, sample } from "./builds.ts";
import { startPlatform } from "./platform.ts";

async function twoPlaces(t: Parameters<typeof startPlatform>[0]) {
  const platform = await startPlatform(t);
  const build = await sample(platform);
  const [production] = (await deploy(platform, build, { env: ENV })).data.deployBuild.endpoints;
  const [staging] = (await deploy(platform, build, { env: ENV, environment: "staging" })).data.deployBuild.endpoints;
  const keyOf = async (input: object) => {
    const document = "mutation($input: KeyInput!) { createKey(input: $input) { secret } }";
    return (await platform.ask(document, { input: { name: "ci", ...input } })).data.createKey.secret as string;
  };
  const bound = await keyOf({ scopes: ["read"], app: "shop", environment: "staging" });
  const get = (path: string, key?: string) =>
    fetch(platform.url + path, { headers: key === undefined ? {} : { authorization: `Bearer ${key}` } });
  return { platform, production, staging, bound, keyOf, get };
}

/** Reads a stream in the background: what came so far. */
function read(response: Response) {
  const read = { text: "", ended: false };
  const decoder = new TextDecoder();
  (async () => {
    for await (const chunk of response.body!) read.text += decoder.decode(chunk, { stream: true });
    read.ended = true;
  })().catch(() => {});
  return read;
}

test("Events come as they happen; a bound key gets those of its own place, and no machine", async (t) => {
  const { platform, production, staging, bound, get } = await twoPlaces(t);
  const all = read(await get("/events", platform.adminKey));
  const own = read(await get("/events?topics=jobs,series", bound));
  for (const { id } of [production, staging]) {
    platform.events.tell(() => ({
      topic: "jobs",
      endpointId: id,
      data: { id: `job-of-${id}`, state: "COMPLETED", at: 1 },
    }));
  }
  const endpoints = new Map([production, staging].map(({ id }) => [id, { done: 1 }]));
  platform.events.tell(() => ({ topic: "series", at: 7, endpoints, machine: { "machine.gbUsed": 3 } }));
  platform.events.tell(() => ({ topic: "decisions", endpointId: staging.id, data: { start: 1 } }));
  await eventually(() => assert.match(own.text, /event: series\n/));
  await eventually(() => assert.match(all.text, /event: decisions\n/));
  const jobs = [production, staging].map(
    ({ id }) => `event: jobs\ndata: {"endpointId":"${id}","id":"job-of-${id}","state":"COMPLETED","at":1}\n\n`,
  );
  assert.ok(all.text.startsWith(jobs.join("")), all.text);
  assert.ok(own.text.includes(jobs[1]!));
  assert.ok(own.text.includes(`event: series\ndata: {"at":7,"endpoints":{"${staging.id}":{"done":1}}}\n\n`), own.text);
  assert.doesNotMatch(own.text, new RegExp(`${production.id}|machine|decisions`));
});

test("Events need a key that may read; topics that are none are refused with those there are", async (t) => {
  const { platform, keyOf, get } = await twoPlaces(t);
  const caller = await keyOf({ scopes: ["invoke"] });
  assert.deepEqual(
    [(await get("/events")).status, (await get("/events", caller)).status, (await get("/events", "svc_wrong")).status],
    [401, 403, 401],
  );
  const refused = await get("/events?topics=jobs,nothing", platform.adminKey);
  assert.equal(refused.status, 400);
  assert.match(await refused.text(), /no topic .*nothing.*endpoints, series, decisions, jobs/);
});

/** What is not garbage. */
function usedBytes(): number {
  setFlagsFromString("--expose-gc");
  runInNewContext("gc")();
  const { external, heapUsed } = process.memoryUsage();
  return external + heapUsed;
}

test("A follower that does not read costs a bounded memory, and others nothing", async (t) => {
  const { platform, production, get } = await twoPlaces(t);
  const socket = connect(Number(new URL(platform.url).port), "127.0.0.1");
  t.after(() => socket.destroy());
  let heard = "";
  socket.write(
    `GET /events?topics=decisions HTTP/1.1\r\nhost: x\r\nauthorization: Bearer ${platform.adminKey}\r\n\r\n`,
  );
  socket.on("data", (chunk) => {
    heard += chunk;
  });
  await eventually(() => assert.match(heard, /text\/event-stream/));
  socket.pause();
  const other = read(await get("/events?topics=decisions", platform.adminKey));
  const reason = "x".repeat(10_000);
  const count = Math.ceil((EVENT_FOLLOWER_MAX_BYTES * 16) / reason.length);
  const before = usedBytes();
  for (let n = 0; n < count; n++) {
    platform.events.tell(() => ({ topic: "decisions", endpointId: production.id, data: { n, reason } }));
    if (n % 50 === 0) await new Promise((resolve) => setImmediate(resolve));
  }
  await eventually(() => assert.match(other.text, /"n":\d+/));
  // What the other has not read yet is on its way to it in this process.
  await eventually(() => {
    const more = usedBytes() - before - other.text.length;
    assert.ok(more < EVENT_FOLLOWER_MAX_BYTES * 8, `${more} bytes more`);
  });
  socket.resume();
  await eventually(() => assert.match(heard, /event: left-out\r?\ndata: \{"count":\d+\}/));
  platform.events.tell(() => ({ topic: "decisions", endpointId: production.id, data: { last: true } }));
  await eventually(() => assert.match(heard, /"last":true/));
});

test("A queue that is busy does not flood: of single jobs so many in a second, the rest is counted", async (t) => {
  const { platform, production, get } = await twoPlaces(t);
  const heard = read(await get("/events?topics=jobs", platform.adminKey));
  const tell = (n: number) =>
    platform.events.tell(() => ({
      topic: "jobs",
      endpointId: production.id,
      data: { id: `job-${n}`, state: "COMPLETED", at: n },
    }));
  for (let n = 0; n < EVENT_JOBS_PER_S * 10; n++) tell(n);
  await eventually(() => {
    tell(-1);
    assert.match(heard.text, /event: left-out\ndata: \{"count":\d+\}/);
  });
});

test("Followers are a bounded number, and are let go when the platform stops", async (t) => {
  const { platform, get } = await twoPlaces(t);
  const followers: ReturnType<typeof read>[] = [];
  for (let n = 0; n < EVENT_FOLLOWERS_MAX; n++) followers.push(read(await get("/events", platform.adminKey)));
  assert.equal((await get("/events", platform.adminKey)).status, 429);
  platform.closing.abort();
  await eventually(() => assert.ok(followers.every(({ ended }) => ended)));
});

test("/healthz and /readyz answer without a key and say why the platform takes no work; /metrics asks for one", async (t) => {
  const { platform, bound, get } = await twoPlaces(t);
  assert.deepEqual(await (await get("/healthz")).json(), { status: "ok" });
  assert.deepEqual(await (await get("/readyz")).json(), { status: "ok" });
  platform.notReady.push("The platform's disk is full.");
  const answer = await get("/readyz");
  assert.equal(answer.status, 503);
  assert.deepEqual(await answer.json(), { status: "not ready", reasons: ["The platform's disk is full."] });
  assert.equal((await get("/healthz")).status, 200);
  assert.equal((await fetch(`${platform.url}/readyz`, { method: "POST" })).status, 405);
  const statuses = async () => {
    const answers = [await get("/metrics"), await get("/metrics", bound), await get("/metrics", platform.adminKey)];
    return answers.map(({ status }) => status);
  };
  assert.deepEqual(await statuses(), [401, 403, 200]);
  platform.metrics.access = "on";
  assert.deepEqual(await statuses(), [200, 200, 200]);
  platform.metrics.access = "off";
  assert.deepEqual(await statuses(), [404, 404, 404]);
});

test("A proxy asks which hosts are the platform's before it fetches a certificate for one", async (t) => {
  const platform = await startPlatform(t, { domain: "svc.example.org" });
  const build = await sample(platform);
  const { endpoints } = (await deploy(platform, build, { env: ENV })).data.deployBuild;
  const status = async (host: string) => (await fetch(`${platform.url}/hosts?domain=${host}`)).status;
  const statuses = new Map<string, number>();
  for (const { id, kind } of endpoints) statuses.set(kind, await status(`${id}.Svc.example.org`));
  assert.deepEqual(Object.fromEntries(statuses), { queue: 404, "load-balanced": 200 });
  const others = ["svc.example.org", "flash.svc.example.org", "nobody.svc.example.org", "a.b.svc.example.org"];
  assert.deepEqual(await Promise.all([...others, "example.org", ""].map(status)), [200, 200, 404, 404, 404, 404]);
  assert.equal((await fetch(`${platform.url}/hosts?domain=x`, { method: "POST" })).status, 405);
  const without = await startPlatform(t);
  assert.equal((await fetch(`${without.url}/hosts?domain=`)).status, 404, "a platform without a domain has no hosts");
});
