import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { type TestContext, test } from "node:test";
import { type AlertKind, checked } from "../../src/domain/alert.ts";
import { ALERT_CLEARS_AFTER_CHECKS, WEBHOOK_RETRIES_MAX } from "../../src/domain/limits.ts";
import type { AlertRecord } from "../../src/store/alerts.ts";
import { measures } from "../../src/webhooks/alert-measures.ts";
import { Alerts } from "../../src/webhooks/alerts.ts";
import { openTestStore } from "../store/open-store.ts";

const SECRET = "whsec_test";

interface Received {
  readonly headers: IncomingMessage["headers"];
  readonly text: string;
}

async function setUp(t: TestContext, options: { allowPrivate?: boolean } = {}) {
  const received: Received[] = [];
  const answers: number[] = [];
  const server = createServer(async (req, res) => {
    let text = "";
    for await (const chunk of req) text += chunk;
    received.push({ headers: req.headers, text });
    res.writeHead(answers.shift() ?? 200).end();
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const under = await openTestStore();
  t.after(async () => {
    server.close();
    await under.close();
  });
  const clock = { now: 1_000_000 };
  const measured = { value: 0, subjects: [] as string[] };
  const make = () =>
    new Alerts({
      store: under.store,
      measure: async () => measured,
      secret: SECRET,
      allowPrivate: options.allowPrivate ?? true,
      clock: () => clock.now,
      publicUrl: () => "http://platform",
      onError: (_name, error) => assert.fail(String(error)),
      retryMs: 5,
    });
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook?token=x`;
  const alert: AlertRecord = {
    ...{ id: "a1", kind: "wait.oldest" as AlertKind, url, environmentId: null, endpointId: null, threshold: 60 },
    ...{ createdAt: 1, firing: false, lastAt: null, lastDelivery: "", messages: [], failures: 0, dueAt: 0 },
  };
  await under.store.alerts.insert(alert);
  const state = async () => (await under.store.alerts.find("a1"))!;
  return { under, make, clock, measured, received, answers, state };
}

const states = (received: readonly Received[]) => received.map(({ text }) => JSON.parse(text).state);

test("an alert fires once and resolves once, however the value goes to and fro, and over restarts", async (t) => {
  const { make, measured, received, state, clock } = await setUp(t);
  let alerts = make();
  const look = async (value: number) => {
    Object.assign(measured, { value, subjects: value >= 60 ? [`hello waits for ${value} s`] : [] });
    clock.now += 10_000;
    await alerts.look();
  };
  await look(90);
  assert.deepEqual(received, [], "once may be chance");
  await look(10);
  await look(90);
  await look(95);
  for (const value of [70, 59, 61, 50, 62]) await look(value);
  assert.deepEqual(states(received), ["firing"]);
  alerts = make();
  for (const value of [80, 80, 80]) await look(value);
  assert.deepEqual([states(received), (await state()).firing], [["firing"], true], "a restart fires nothing again");
  for (let n = 0; n < ALERT_CLEARS_AFTER_CHECKS + 2; n++) await look(10);
  assert.deepEqual([states(received), (await state()).firing], [["firing", "cleared"], false]);

  const { headers, text } = received[0]!;
  const { at: _at, ...message } = JSON.parse(text);
  assert.deepEqual(message, {
    ...{ alert: "a1", kind: "wait.oldest", state: "firing", threshold: 60, value: 95 },
    ...{ subjects: ["hello waits for 95 s"], platform: "http://platform" },
  });
  const [, seconds, mac] = /^t=(\d+),v1=([0-9a-f]+)$/.exec(String(headers["x-svc-signature"]))!;
  assert.equal(mac, createHmac("sha256", SECRET).update(`${seconds}.${text}`).digest("hex"));
});

test("a message that is not taken is tried again, also after a restart, and then given up", async (t) => {
  const { make, measured, received, answers, state, clock } = await setUp(t);
  Object.assign(measured, { value: 100 });
  answers.push(500, 503);
  await make().look();
  const first = make();
  for (let n = 0; n < 2; n++) await first.look();
  assert.deepEqual([(await state()).lastDelivery, (await state()).messages.length], ["answered 500", 1]);
  const later = make();
  for (let n = 0; n < 3; n++) {
    clock.now += 1_000;
    await later.look();
  }
  assert.deepEqual([states(received), (await state()).lastDelivery], [["firing", "firing", "firing"], "delivered"]);
  Object.assign(measured, { value: 0 });
  answers.push(...Array<number>(10).fill(404));
  for (let n = 0; n < ALERT_CLEARS_AFTER_CHECKS + WEBHOOK_RETRIES_MAX + 3; n++) {
    clock.now += 1_000;
    await later.look();
  }
  assert.deepEqual([received.length, (await state()).messages, (await state()).lastDelivery], [6, [], "answered 404"]);
});

test("platforms that look at the same alert tell it once between them, and nothing that comes meanwhile is lost", async (t) => {
  const { make, measured, received, clock, state } = await setUp(t);
  const all = [make(), make(), make()];
  for (const value of [90, 90, 90, ...Array<number>(ALERT_CLEARS_AFTER_CHECKS + 3).fill(0)]) {
    Object.assign(measured, { value });
    clock.now += 10_000;
    await Promise.all(all.map((alerts) => alerts.look()));
  }
  assert.deepEqual([states(received), (await state()).messages], [["firing", "cleared"], []]);
});

test("a webhook at a private address is refused, and said so", async (t) => {
  const { make, received, state } = await setUp(t, { allowPrivate: false });
  assert.match(await make().test(await state()), /SVC_WEBHOOK_PRIVATE=1/);
  assert.deepEqual(received, []);
});

test("a state changes after checks in a row only", () => {
  const quiet = { firing: false, checks: 0 };
  const after = (kind: AlertKind, threshold: number, values: number[], from = quiet) =>
    values.reduce((state, value) => checked(kind, threshold, state, value), from).firing;
  assert.equal(after("endpoint.blocked", 1, [1, 0, 1, 0]), false);
  assert.equal(after("endpoint.blocked", 1, [1, 1]), true);
  assert.equal(after("endpoint.blocked", 1, [0, 0, 0], { firing: true, checks: 0 }), false);
  assert.equal(after("disk.full", 90, [89, 88, 88.5], { firing: true, checks: 0 }), true, "not yet clear");
  assert.equal(after("disk.full", 90, [87, 87, 87], { firing: true, checks: 0 }), false);
});

test("what is measured: blocked endpoints, failures, the longest wait, the disk", async (t) => {
  const under = await openTestStore();
  t.after(() => under.close());
  const values: Record<string, number> = { done: 200, failed: 30 };
  const measure = measures({
    store: {
      endpoints: {
        ...under.store.endpoints,
        list: async () =>
          [
            { id: "a", name: "hello", kind: "queue", environmentId: "e1" },
            { id: "b", name: "web", kind: "load-balanced", environmentId: "e2" },
          ] as never,
      },
    },
    queue: { counts: async () => ({ oldestQueuedAt: 40_000 }) as never },
    workers: {
      health: (id) => ({ state: id === "a" ? "BLOCKED" : "READY", reason: "no such module\nmore", progress: [] }),
    },
    series: {
      read: async ({ metric }) => ({
        stepMs: 1,
        points: [
          { at: 0, value: values[metric.name] ?? null },
          { at: 1, value: null },
        ],
      }),
    },
    oldestWaitMs: () => 7_000,
    machine: { disk: async () => ({ freeBytes: 5, totalBytes: 100 }) },
    clock: () => 100_000,
  });
  const all = { environmentId: null, endpointId: null };
  assert.deepEqual(await measure({ ...all, kind: "endpoint.blocked", threshold: 1 }), {
    value: 1,
    subjects: ["hello (a): no such module"],
  });
  assert.equal((await measure({ ...all, environmentId: "e2", kind: "endpoint.blocked", threshold: 1 })).value, 0);
  assert.deepEqual(await measure({ ...all, kind: "errors.rate", threshold: 5 }), {
    value: 15,
    subjects: ["hello (a): 30 of 200 failed (15 %)"],
  });
  values.done = 3;
  assert.equal((await measure({ ...all, kind: "errors.rate", threshold: 5 })).value, 0, "too little to say");
  assert.equal((await measure({ ...all, kind: "wait.oldest", threshold: 60 })).value, 60);
  assert.equal((await measure({ ...all, endpointId: "b", kind: "wait.oldest", threshold: 60 })).value, 7);
  assert.equal((await measure({ ...all, kind: "disk.full", threshold: 90 })).value, 95);
});
