import assert from "node:assert/strict";
import { createHmac, timingSafeEqual } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, readFileSync, rmSync, statSync } from "node:fs";
import { createServer, type IncomingHttpHeaders, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { WEBHOOK_BODY_MAX_BYTES, WEBHOOKS_AT_ONCE, WEBHOOKS_AT_ONCE_PER_HOST } from "../../src/domain/limits.ts";
import { movedAway } from "../../src/domain/own-endpoints.ts";
import { checkedJobJson } from "../../src/gateway/job-json.ts";
import type { NewJob, Outcome } from "../../src/queue/queue.ts";
import { openWebhookSecret } from "../../src/webhooks/message.ts";
import { Webhooks, type WebhooksDeps } from "../../src/webhooks/webhooks.ts";
import { newJob } from "../conformance/queue.ts";
import { openTestQueue, type SqliteQueueUnderTest } from "../queue/open-queue.ts";

const SECRET = "whsec_test";
const DONE: Outcome = { state: "COMPLETED", output: Buffer.from('{"n": 1.0}') };

interface Received {
  readonly headers: IncomingHttpHeaders;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: a test looks into it
  readonly json: any;
}

/** A server that answers by `answer`; `next()` resolves what it received, in order. */
async function receiver(t: TestContext, answer: (res: ServerResponse, count: number) => void) {
  const received: Received[] = [];
  let wake = () => {};
  let count = 0;
  const server = createServer((req, res) => {
    const chunks: Buffer[] = [];
    req.on("data", (chunk: Buffer) => chunks.push(chunk));
    req.on("end", () => {
      const text = Buffer.concat(chunks).toString();
      received.push({ headers: req.headers, text, json: JSON.parse(text) });
      answer(res, count++);
      wake();
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.closeAllConnections();
    server.close();
  });
  const at = { taken: 0 };
  return {
    server,
    received,
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook?token=x`,
    async next(): Promise<Received> {
      while (received.length <= at.taken) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
      }
      return received[at.taken++]!;
    },
  };
}

const ok = (res: ServerResponse) => void res.end();

async function platform(t: TestContext, deps: Partial<WebhooksDeps> = {}) {
  const clock = { now: 1_700_000_000_000 };
  const under = await openTestQueue(clock);
  const logged: string[] = [];
  const make = () => {
    const webhooks = new Webhooks({
      queue: under.queue,
      jobJson: checkedJobJson,
      secret: SECRET,
      allowPrivate: true,
      clock: () => clock.now,
      random: () => 0,
      log: { error: (message, fields) => logged.push(`${message} ${JSON.stringify(fields)}`) },
      retryMs: 1,
      ...deps,
    });
    under.queue.events.jobFinished(() => webhooks.nudge());
    webhooks.start();
    return webhooks;
  };
  const state = { webhooks: make() };
  t.after(async () => {
    await state.webhooks.stop();
    await under.close();
  });
  return { under, clock, logged, state, make };
}

async function finished(under: SqliteQueueUnderTest, changes: Partial<NewJob>, outcome = DONE): Promise<string> {
  const { queue } = under;
  const { id } = await queue.enqueue(newJob("e", { input: Buffer.from('{"a" : 1}'), ...changes }));
  const [claim] = await queue.claim("e", "w1", 1, AbortSignal.timeout(60_000));
  await queue.finish(claim!, outcome);
  return id;
}

const owed = ({ queue }: SqliteQueueUnderTest) => queue.dueDeliveries(100, []);

/** Resolves when no webhook is owed any more. The clock moves on, so that retries become due. */
async function settled(under: SqliteQueueUnderTest, clock: { now: number }): Promise<void> {
  const { database } = under;
  const left = database.connection.prepare("SELECT count(*) AS n FROM webhooks");
  while ((left.get() as { n: number }).n > 0) {
    clock.now += 1;
    await new Promise((resolve) => setImmediate(resolve));
  }
}

test("A webhook whose job another platform has by the time that it is delivered is that one's to deliver, and no error", async (t) => {
  const to = await receiver(t, ok);
  const under = await openTestQueue({ now: 1_700_000_000_000 });
  t.after(() => under.close());
  const failures = [movedAway("e"), new Error("it broke")];
  const settleDelivery: WebhooksDeps["queue"]["settleDelivery"] = (id, retryAt) => {
    const failure = failures.shift();
    return failure === undefined ? under.queue.settleDelivery(id, retryAt) : Promise.reject(failure);
  };
  const { logged, state } = await platform(t, { queue: { ...under.queue, settleDelivery } });
  await finished(under, { webhook: to.url });
  state.webhooks.nudge();
  for (const _ of [1, 2, 3]) await to.next();
  await state.webhooks.stop();
  assert.equal(logged.length, 1, logged.join("\n"));
  assert.match(logged[0]!, /could not be settled/);
});

test("a webhook is the job object with input and webhook, signed so that the documented check accepts it", async (t) => {
  const hook = await receiver(t, ok);
  const { under, clock } = await platform(t);
  const id = await finished(under, { webhook: hook.url });
  const { headers, text, json } = await hook.next();
  assert.deepEqual(json, {
    id,
    status: "COMPLETED",
    delayTime: 0,
    executionTime: 0,
    workerId: "w1",
    output: { n: 1 },
    input: { a: 1 },
    webhook: hook.url,
  });
  assert.ok(text.includes('"output":{"n": 1.0}') && text.includes('"input":{"a" : 1}'), "bytes as they came");
  assert.equal(headers["content-type"], "application/json");
  const [, seconds, given] = /^t=(\d+),v1=([0-9a-f]{64})$/.exec(String(headers["x-svc-signature"]))!;
  assert.equal(Number(seconds), Math.floor(clock.now / 1000));
  const expected = createHmac("sha256", SECRET).update(`${seconds}.${text}`).digest();
  assert.ok(timingSafeEqual(expected, Buffer.from(given!, "hex")));
  await settled(under, clock);
  assert.equal(hook.received.length, 1);
});

test("output that is no JSON adds nothing to what the platform signs", async (t) => {
  const hook = await receiver(t, ok);
  const { under } = await platform(t);
  for (const output of ['1,"id":"job-of-another-endpoint","status":"COMPLETED"', '1}, {"id":"x"', "", "nothing"]) {
    const id = await finished(under, { webhook: hook.url }, { state: "COMPLETED", output: Buffer.from(output) });
    const { json } = await hook.next();
    assert.equal(json.id, id);
    assert.deepEqual(Object.keys(json).slice(0, 2), ["id", "status"]);
    assert.ok(!("output" in json), output);
  }
});

for (const [state, end] of Object.entries({
  FAILED: (under: SqliteQueueUnderTest, webhook: string) =>
    finished(under, { webhook }, { state: "FAILED", error: "boom" }),
  TIMED_OUT: (under: SqliteQueueUnderTest, webhook: string) =>
    finished(under, { webhook }, { state: "TIMED_OUT", error: "too long" }),
  CANCELLED: async ({ queue }: SqliteQueueUnderTest, webhook: string) => {
    const { id } = await queue.enqueue(newJob("e", { webhook }));
    await queue.cancel(id);
    return id;
  },
})) {
  test(`a job that is ${state} is told too`, async (t) => {
    const hook = await receiver(t, ok);
    const { under } = await platform(t);
    const id = await end(under, hook.url);
    const { json } = await hook.next();
    assert.deepEqual([json.id, json.status], [id, state]);
  });
}

test("jobs without webhook owe none, and a purged job never becomes final", async (t) => {
  const { under } = await platform(t);
  await finished(under, {});
  await under.queue.enqueue(newJob("e", { webhook: "http://127.0.0.1:1/" }));
  await under.queue.purge("e");
  assert.deepEqual(await owed(under), []);
});

for (const [title, timeoutMs, answer] of [
  ["500", undefined, (res: ServerResponse) => void res.writeHead(500).end()],
  [
    "a redirect, which is not followed",
    undefined,
    (res: ServerResponse) => void res.writeHead(307, { location: "/" }).end(),
  ],
  ["no answer but a closed connection", undefined, (res: ServerResponse) => void res.destroy()],
  // As much as a request takes to arrive on a busy machine.
  ["nothing in time", 1_000, () => {}],
] as const) {
  test(`${title} is tried twice more and then given up, which changes nothing of the job`, async (t) => {
    const hook = await receiver(t, answer);
    const { under, clock, logged } = await platform(t, { timeoutMs });
    const id = await finished(under, { webhook: hook.url });
    const before = await under.queue.find(id);
    await settled(under, clock);
    assert.equal(hook.received.length, 3);
    assert.deepEqual(await under.queue.find(id), before);
    assert.match(logged.join("\n"), /a webhook was given up .*"attempts":3/);
    assert.doesNotMatch(logged.join("\n"), /token=x/, "the URL may hold a secret of its owner");
  });
}

test("a receiver that recovers gets the webhook, once", async (t) => {
  const hook = await receiver(t, (res, count) => void res.writeHead(count === 0 ? 503 : 200).end());
  const { under, clock, logged } = await platform(t);
  await finished(under, { webhook: hook.url });
  await settled(under, clock);
  assert.equal(hook.received.length, 2);
  assert.deepEqual(logged, []);
});

test("a retry waits about 10 s", async (t) => {
  const hook = await receiver(t, (res) => void res.writeHead(500).end());
  const { under, clock } = await platform(t, { retryMs: undefined, random: () => 0.5 });
  await finished(under, { webhook: hook.url });
  await hook.next();
  const due = under.database.connection.prepare("SELECT due_at FROM webhooks WHERE failures = 1");
  while (due.get() === undefined) await new Promise((resolve) => setImmediate(resolve));
  assert.equal((due.get() as { due_at: number }).due_at, clock.now + 11_000);
});

test("a webhook that a crash cut off is delivered after it, and its job is kept until then", async (t) => {
  const held: ServerResponse[] = [];
  const hook = await receiver(t, (res, count) => (count === 0 ? void held.push(res) : ok(res)));
  const { under, clock, state, make } = await platform(t);
  const id = await finished(under, { webhook: hook.url, retentionMs: 1_000 });
  await hook.next();
  clock.now += 3_600_000;
  await under.queue.sweep();
  assert.equal((await under.queue.find(id))?.state, "COMPLETED");
  await state.webhooks.stop();
  await under.reopen();
  state.webhooks = make();
  assert.equal((await hook.next()).json.id, id);
  await settled(under, clock);
  await under.queue.sweep();
  assert.equal(await under.queue.find(id), undefined);
});

test("a retried job tells its new end, not the one before", async (t) => {
  const { under, state } = await platform(t);
  await state.webhooks.stop();
  const hook = await receiver(t, ok);
  const id = await finished(under, { webhook: hook.url }, { state: "FAILED", error: "x" });
  const [old] = await owed(under);
  await under.queue.retry(id);
  assert.deepEqual(await owed(under), []);
  const [claim] = await under.queue.claim("e", "w1", 1, AbortSignal.timeout(60_000));
  await under.queue.finish(claim!, DONE);
  await under.queue.settleDelivery(old!.id, null);
  const [now] = await owed(under);
  assert.equal(now?.jobId, id, "the old delivery's end does not settle the new one");
});

test("a slow receiver has only its own places: another one is told meanwhile", async (t) => {
  const slow = await receiver(t, () => {});
  const quick = await receiver(t, ok);
  const { under } = await platform(t);
  for (let i = 0; i < WEBHOOKS_AT_ONCE * 2; i++) await finished(under, { webhook: slow.url });
  for (let i = 0; i < WEBHOOKS_AT_ONCE * 2; i++) await finished(under, { webhook: quick.url });
  for (let i = 0; i < WEBHOOKS_AT_ONCE * 2; i++) await quick.next();
  assert.equal(slow.received.length, WEBHOOKS_AT_ONCE_PER_HOST);
});

for (const host of [
  "127.0.0.1",
  "localhost",
  "[::1]",
  "[::ffff:127.0.0.1]",
  "0x7f.1",
  "2130706433",
  "169.254.169.254",
]) {
  test(`http://${host}/ is refused without a connection unless the configuration allows it`, async (t) => {
    const hook = await receiver(t, ok);
    const { under, clock, logged } = await platform(t, { allowPrivate: false });
    await finished(under, { webhook: new URL(hook.url.replace("127.0.0.1", host)).href });
    await settled(under, clock);
    assert.equal(hook.received.length, 0);
    assert.match(logged.join("\n"), /private address; SVC_WEBHOOK_PRIVATE=1/);
    assert.match(logged.join("\n"), /"attempts":1/);
  });
}

test("a body that is too large leaves out the input, then the output, and says so", async (t) => {
  const hook = await receiver(t, ok);
  const { under } = await platform(t);
  const large = Buffer.from(JSON.stringify({ text: "x".repeat(WEBHOOK_BODY_MAX_BYTES) }));
  await finished(under, { webhook: hook.url, input: large });
  const first = (await hook.next()).json;
  assert.deepEqual([first.omitted, "input" in first, first.output], [["input"], false, { n: 1 }]);
  await finished(under, { webhook: hook.url, input: large }, { state: "COMPLETED", output: large });
  const second = (await hook.next()).json;
  assert.deepEqual([second.omitted, "output" in second], [["input", "output"], false]);
});

test("the secret is made once, and only its owner may read it", async (t) => {
  const dir = mkdtempSync(path.join(tmpdir(), "svc-secret-"));
  t.after(() => rmSync(dir, { recursive: true }));
  const file = path.join(dir, "webhook-secret");
  const secret = await openWebhookSecret(file);
  assert.match(secret, /^whsec_[\w-]{43}$/);
  assert.equal(await openWebhookSecret(file), secret);
  assert.equal(readFileSync(file, "utf8"), `${secret}\n`);
  assert.equal(statSync(file).mode & 0o777, 0o600);
});
