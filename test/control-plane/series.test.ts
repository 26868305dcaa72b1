import assert from "node:assert/strict";
import { test } from "node:test";
import { SERIES_STEP_MS } from "../../src/domain/limits.ts";
import type { RecordedEndpoint } from "../../src/history/series-store.ts";
import { joinedHost } from "../conformance/store-hosts.ts";
import { deploy, ENV, sample } from "./builds.ts";
import { startPlatform } from "./platform.ts";

const START = Date.UTC(2026, 0, 1);
const done = (count: number, environmentId: string | null): RecordedEndpoint => ({
  environmentId,
  numbers: { done: count, "requests@GET /a": 1 },
  histograms: {},
});

/** An endpoint in production and one in staging with a recorded step each, and a key that is bound to staging. */
async function recorded(t: Parameters<typeof startPlatform>[0]) {
  const platform = await startPlatform(t);
  const build = await sample(platform);
  const [production] = (await deploy(platform, build, { env: ENV })).data.deployBuild.endpoints;
  const [staging] = (await deploy(platform, build, { env: ENV, environment: "staging" })).data.deployBuild.endpoints;
  const place = async ({ id }: { id: string }) => (await platform.store.endpoints.find(id))!.environmentId;
  const rows = new Map([
    [production.id, done(5, await place(production))],
    [staging.id, done(2, await place(staging))],
  ]);
  const used = (gb: number) => ({ numbers: { "machine.gbUsed": gb }, histograms: {} });
  await joinedHost(platform.store, { name: "near" });
  const { id } = await joinedHost(platform.store, { name: "far" });
  platform.series.record(START, rows, used(3), new Map([[id, used(2)]]));
  await platform.history.flush();
  const input = { name: "ci", scopes: ["read"], app: "shop", environment: "staging" };
  const { data } = await platform.ask("mutation($input: KeyInput!) { createKey(input: $input) { secret } }", { input });
  const series = async (metric: string, endpoint: string | null, key?: string, more: object = {}) => {
    const document = `query($endpoint: String, $app: String, $environment: String, $metric: String!, $from: Float!, $to: Float!, $step: Int, $host: String) {
      series(host: $host, endpoint: $endpoint, app: $app, environment: $environment, metric: $metric, from: $from, to: $to, step: $step) {
        metric unit stepMs points { at value }
      }
    }`;
    const variables = { endpoint, metric, from: START, to: START + SERIES_STEP_MS, ...more };
    return platform.ask(document, variables, key);
  };
  return { platform, production, staging, bound: data.createKey.secret as string, series };
}

test("series gives one metric of an endpoint, of all that the key sees, and of the machine", async (t) => {
  const { production, staging, bound, series } = await recorded(t);
  const value = async (...args: Parameters<typeof series>) => (await series(...args)).data?.series.points[0].value;
  const { data } = await series("done", production.id);
  assert.deepEqual(data.series, {
    metric: "done",
    unit: "jobs",
    stepMs: SERIES_STEP_MS,
    points: [{ at: START, value: 5 }],
  });
  assert.equal(await value("done", null), 7);
  assert.equal(await value("requests@GET /a", production.id), 1);
  assert.equal(await value("machine.gbUsed", null), 3);
  assert.equal(await value("machine.gbUsed", null, undefined, { host: "far" }), 2);
  assert.equal(await value("machine.gbUsed", null, undefined, { host: "near" }), null, "nothing was recorded of it");

  assert.equal(await value("done", staging.id, bound), 2);
  assert.equal(await value("done", null, bound), 2, "of its own environment alone");
  for (const [metric, endpoint] of [
    ["done", production.id],
    ["machine.gbUsed", null],
  ] as const) {
    assert.deepEqual(
      (await series(metric, endpoint, bound)).errors?.map(({ extensions }) => extensions.code),
      ["FORBIDDEN"],
    );
  }
});

test("series of an app or an environment is of what the key sees of it alone", async (t) => {
  const { bound, series } = await recorded(t);
  const value = async (place: object, key?: string, metric = "done") =>
    (await series(metric, null, key, place)).data?.series.points[0].value;
  const [production, ofStaging] = ["production", "staging"].map((environment) => ({ app: "shop", environment }));
  assert.equal(await value(production!), 5);
  assert.equal(await value(ofStaging!), 2);
  assert.equal(await value({ environment: "staging" }), 2);
  assert.equal(await value({ app: "shop" }), 7);
  assert.equal(await value({ app: "elsewhere", environment: "production" }), 0);

  assert.equal(await value({ app: "shop" }, bound), 2, "of its own environment alone");
  assert.equal(await value(production!, bound), 0, "as if it were not there");
});

test("seriesNames names every metric, and the routes that were called", async (t) => {
  const { platform, production, bound } = await recorded(t);
  const { data } = await platform.ask(`{ seriesNames(endpoint: "${production.id}") }`);
  for (const name of ["done", "runMs.p95", "requests.5xx", "requests@GET /a"])
    assert.ok(data.seriesNames.includes(name), name);
  assert.ok(!data.seriesNames.some((name: string) => name.startsWith("machine.")));
  assert.ok((await platform.ask("{ seriesNames }")).data.seriesNames.includes("machine.vcpuFree"));
  const refused = await platform.ask(`{ seriesNames(endpoint: "${production.id}") }`, {}, bound);
  assert.deepEqual(
    refused.errors?.map(({ extensions }) => extensions.code),
    ["FORBIDDEN"],
  );
});

test("A question that makes no sense is refused with what is wrong", async (t) => {
  const { production, series } = await recorded(t);
  const refusals: [RegExp, ...Parameters<typeof series>][] = [
    [/no metric "don".*Did you mean done/, "don", production.id],
    [/no metric "__proto__"/, "__proto__", null],
    [/no metric "runMs"/, "runMs", null],
    [/no metric/, "x".repeat(100_000), null],
    [/`from` must be before `to`/, "done", null, undefined, { to: START }],
    [/at least 10000/, "done", null, undefined, { step: 5 }],
    [/of one endpoint's route: give `endpoint`/, "requests@GET /a", null],
    [/of one endpoint's route: give `endpoint`/, "requests@GET /a", null, undefined, { app: "shop" }],
    [/`host` goes with machine/, "done", null, undefined, { host: "far" }],
    [/No host "attic" has joined/, "machine.gbUsed", null, undefined, { host: "attic" }],
    [/leave `endpoint` out/, "machine.gbUsed", production.id],
    [/leave .*`app` and `environment`/, "machine.gbUsed", null, undefined, { app: "shop" }],
    [/leave out `app` and `environment`/, "done", production.id, undefined, { environment: "production" }],
    [/no endpoint with the id/, "done", "unknown"],
  ];
  for (const [message, ...args] of refusals) assert.match((await series(...args)).errors?.[0]?.message ?? "", message);
});

test("capacity says who holds what of the machine; a bound key sees what is its own", async (t) => {
  const { platform, production, staging, bound } = await recorded(t);
  for (const [id, endpointId] of [
    ["w-1", production.id],
    ["w-2", production.id],
    ["w-3", staging.id],
  ] as const) {
    const { revision } = (await platform.store.endpoints.find(endpointId))!;
    const times = { createdAt: 1, readyAt: null, reason: "", tokenHash: id };
    await platform.store.workers.insert({ id, endpointId, buildId: "", revision, state: "READY", ...times });
    platform.shares.set(id, { vcpus: 2, memoryGb: 1, gpus: [] });
  }
  const document = `{ capacity {
    vcpu { total promised used } memoryGb { total promised used } holders { endpointId app environment workers vcpu } workersQuota workersPromised diskTotalBytes
  } }`;
  const { capacity } = (await platform.ask(document)).data;
  assert.deepEqual(capacity.vcpu, { total: 16, promised: 6, used: 1 });
  assert.deepEqual(capacity.holders, [
    { endpointId: production.id, app: "shop", environment: "production", workers: 2, vcpu: 4 },
    { endpointId: staging.id, app: "shop", environment: "staging", workers: 1, vcpu: 2 },
  ]);
  assert.deepEqual([capacity.workersQuota, capacity.diskTotalBytes], [30, 2]);
  const own = (await platform.ask(document, {}, bound)).data.capacity;
  assert.deepEqual(own.vcpu, { total: 16, promised: 2, used: null });
  assert.deepEqual(own.holders, [capacity.holders[1]]);
  assert.equal(own.workersPromised * 2, capacity.workersPromised);
});
