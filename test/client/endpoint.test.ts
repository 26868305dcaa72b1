/** The public client against a real gateway, over a connection that can be cut. */
import assert from "node:assert/strict";
import { connect, createServer, type Socket } from "node:net";
import { describe, type TestContext, test } from "node:test";
import {
  Endpoint,
  JobCancelledError,
  JobFailedError,
  JobTimedOutError,
  RequestError,
  SvcError,
} from "../../src/client/endpoint.ts";
import type { LoadBalancedResponse } from "../../src/domain/request.ts";
import { KEY, type Platform, startPlatform } from "../gateway/support.ts";
import { closedPort } from "./serve.ts";

const json = (value: unknown) => Buffer.from(JSON.stringify(value));

function jobsOf(platform: Platform, url = platform.url): Endpoint<{ n: number }, number> {
  return new Endpoint({ url: `${url}/v2/jobs`, apiKey: KEY });
}

/** A relay of bytes; `cut` breaks every connection there is, `refuse` also those to come. */
async function relay(t: TestContext, port: number) {
  const sockets = new Set<Socket>();
  let open = true;
  let seen = 0;
  const server = createServer((inner) => {
    if (!open) return void inner.destroy();
    const outer = connect(port, "127.0.0.1");
    for (const socket of [inner, outer]) {
      sockets.add(socket);
      socket.on("error", () => {}).on("close", () => sockets.delete(socket));
    }
    inner.pipe(outer).pipe(inner);
    inner.on("data", () => {
      seen++;
      onData?.();
    });
  });
  let onData: (() => void) | undefined;
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  const cut = () => {
    for (const socket of sockets) socket.destroy();
  };
  return {
    url: `http://127.0.0.1:${(server.address() as { port: number }).port}`,
    cut,
    accept: (yes: boolean) => {
      open = yes;
      if (!yes) cut();
    },
    /** Resolves when bytes of a further request have passed. */
    next: () =>
      new Promise<void>((resolve) => {
        const before = seen;
        onData = () => seen > before && resolve();
      }),
  };
}

describe("jobs from TypeScript", () => {
  test("runsync resolves the function's output", async (t) => {
    const platform = await startPlatform(t);
    platform.work(({ input }) => ({ state: "COMPLETED", output: json(JSON.parse(String(input)).n * 2) }));
    assert.equal(await jobsOf(platform).runsync({ n: 21 }), 42);
  });

  test("run resolves a job that can be waited for, found again and asked for its state", async (t) => {
    const platform = await startPlatform(t);
    const endpoint = jobsOf(platform);
    const job = await endpoint.run({ n: 1 });
    assert.equal(job.record?.status, "IN_QUEUE");
    assert.equal(await job.status(), "IN_QUEUE");
    assert.equal((await endpoint.health()).jobs.inQueue, 1);
    platform.work(() => ({ state: "COMPLETED", output: json(7) }));
    assert.equal(await job.wait(), 7);
    assert.equal(await endpoint.job(job.id).wait(), 7);
    const record = await endpoint.status(job.id);
    assert.deepEqual([record.status, record.output], ["COMPLETED", 7]);
  });

  test("a failed, a timed-out and a cancelled job reject each with its own error, which carries the job", async (t) => {
    const platform = await startPlatform(t);
    const endpoint = jobsOf(platform);
    const failure = { error_type: "ValueError", error_message: "too big", error_traceback: "  File w.py, line 3" };
    platform.work(({ input }) => {
      if (JSON.parse(String(input)).n === 1) return { state: "FAILED", error: JSON.stringify(failure) };
      return { state: "TIMED_OUT", error: "it ran 5000 ms" };
    });
    await assert.rejects(endpoint.runsync({ n: 1 }), (error) => {
      assert.ok(error instanceof JobFailedError);
      assert.equal(error.message, "ValueError: too big");
      assert.deepEqual([error.errorType, error.traceback], ["ValueError", failure.error_traceback]);
      assert.equal(error.job.status, "FAILED");
      return true;
    });
    await assert.rejects(endpoint.runsync({ n: 2 }), JobTimedOutError);
    const other = new Endpoint({ url: `${platform.url}/v2/other`, apiKey: KEY });
    const job = await other.run({});
    assert.equal(await job.cancel(), "CANCELLED");
    await assert.rejects(job.wait(), JobCancelledError);
    assert.equal(await other.cancel(job.id), "CANCELLED");
  });

  test("a signal ends the waiting with its reason, and the job goes on", async (t) => {
    const platform = await startPlatform(t);
    const job = await jobsOf(platform).run({ n: 1 });
    await assert.rejects(job.wait({ signal: AbortSignal.timeout(20) }), { name: "TimeoutError" });
    platform.work(() => ({ state: "COMPLETED", output: json(1) }));
    assert.equal(await job.wait(), 1);
  });

  test("waiting survives a connection that breaks and a platform that is away for a moment", async (t) => {
    const platform = await startPlatform(t);
    const line = await relay(t, platform.port);
    const endpoint = jobsOf(platform, line.url);
    const job = await endpoint.run({ n: 1 });
    const polls = line.next();
    const output = job.wait();
    await polls;
    line.accept(false);
    platform.work(() => ({ state: "COMPLETED", output: json("done") }));
    line.accept(true);
    assert.equal(await output, "done");
  });

  test("a submission whose answer was lost is repeated and makes one job", async (t) => {
    const platform = await startPlatform(t);
    const line = await relay(t, platform.port);
    const endpoint = jobsOf(platform, line.url);
    await endpoint.health(); // It has been reached once.
    const queued: string[] = [];
    platform.queue.events.jobQueued((id) => queued.push(id));
    const sent = line.next();
    const output = endpoint.runsync({ n: 1 });
    await sent;
    while (queued.length === 0) await new Promise(setImmediate);
    line.cut();
    platform.work(() => ({ state: "COMPLETED", output: json(5) }));
    assert.equal(await output, 5);
    assert.equal((await endpoint.health()).jobs.completed, 1);
  });

  test("a stream gives each chunk once and in order, also over broken connections", async (t) => {
    const platform = await startPlatform(t);
    const line = await relay(t, platform.port);
    const endpoint = jobsOf(platform, line.url);
    const job = await endpoint.run({ n: 1 });
    const [claim] = await platform.queue.claim("jobs", "w-1", 1, AbortSignal.timeout(60_000));
    const seen: unknown[] = [];
    for (const chunk of [1, "two"]) await platform.queue.chunk(claim!, json(chunk));
    for await (const chunk of endpoint.stream(job.id)) {
      seen.push(chunk);
      line.cut();
      if (seen.length === 2) await platform.queue.chunk(claim!, json({ three: 3 }));
      if (seen.length === 3) await platform.queue.finish(claim!, { state: "COMPLETED", output: json([]) });
    }
    assert.deepEqual(seen, [1, "two", { three: 3 }]);
  });

  test("a stream of a job that fails gives what there was and then rejects", async (t) => {
    const platform = await startPlatform(t);
    const job = await jobsOf(platform).run({ n: 1 });
    const [claim] = await platform.queue.claim("jobs", "w-1", 1, AbortSignal.timeout(60_000));
    await platform.queue.chunk(claim!, json(1));
    await platform.queue.finish(claim!, { state: "FAILED", error: "broken" });
    const seen: unknown[] = [];
    await assert.rejects(async () => {
      for await (const chunk of job.stream()) seen.push(chunk);
    }, JobFailedError);
    assert.deepEqual(seen, [1]);
  });

  test("the platform's refusals are SvcErrors with their code; an address that never answered fails at once", async (t) => {
    const platform = await startPlatform(t);
    const code = (endpoint: Endpoint) =>
      endpoint.run({}).then(
        () => "none",
        (error) => (error instanceof SvcError ? error.code : String(error)),
      );
    assert.equal(await code(new Endpoint({ url: `${platform.url}/v2/jobs`, apiKey: "svc_wrong" })), "WRONG_KEY");
    assert.equal(await code(new Endpoint({ url: `${platform.url}/v2/nope`, apiKey: KEY })), "ENDPOINT_NOT_FOUND");
    const before = performance.now();
    assert.equal(await code(new Endpoint({ url: `${await closedPort()}/v2/x`, apiKey: KEY })), "PLATFORM_UNREACHABLE");
    assert.ok(performance.now() - before < 20_000);
  });
});

describe("load-balanced endpoints from TypeScript", () => {
  const respond = (status: number, body: Buffer, type: string): LoadBalancedResponse => ({
    status,
    headers: [["content-type", type]],
    body,
    workerId: "w-1",
    timing: { queueMs: 0, bootMs: 0, importMs: 0, execMs: 1 },
  });

  test("get, post and the others send JSON and resolve the answer's", async (t) => {
    const seen: string[] = [];
    const platform = await startPlatform(t, {
      forward: async ({ method, path, query, headers, body }) => {
        const type = headers.find(([name]) => name.toLowerCase() === "content-type")?.[1] ?? "";
        seen.push([method, path, query, type, Buffer.isBuffer(body) ? String(body) : "stream"].join(" "));
        return respond(200, json({ ok: true }), "application/json");
      },
    });
    const api = new Endpoint({ url: `${platform.url}/lb/web`, apiKey: KEY });
    assert.deepEqual(await api.get("/a", { query: { q: "x y" } }), { ok: true });
    await api.post("b", { n: 1 });
    await api.put("/c", "text");
    await api.patch("/d", [1]);
    await api.delete("/e");
    assert.deepEqual(seen, [
      "GET /a q=x+y  ",
      'POST /b  application/json {"n":1}',
      "PUT /c  text/plain;charset=UTF-8 text",
      "PATCH /d  application/json [1]",
      "DELETE /e   ",
    ]);
  });

  test("another status than 2xx rejects with a RequestError: of the route, or of the platform", async (t) => {
    const platform = await startPlatform(t, {
      forward: async () => respond(422, json({ error: "no text" }), "application/json"),
    });
    const api = new Endpoint({ url: `${platform.url}/lb/web`, apiKey: KEY });
    await assert.rejects(api.post("/x", {}), (error) => {
      assert.ok(error instanceof RequestError);
      assert.deepEqual([error.status, error.code, error.body], [422, undefined, { error: "no text" }]);
      assert.match(error.message, /422: no text/);
      return true;
    });
    assert.equal((await api.request("POST", "/x")).status, 422, "request() resolves with any status");
    const wrong = new Endpoint({ url: `${platform.url}/lb/web`, apiKey: "svc_wrong" });
    await assert.rejects(wrong.get("/x"), { name: "RequestError", status: 401, code: "WRONG_KEY" });
  });

  test("events are parsed as they come, however the bytes are cut", async (t) => {
    const text =
      ': hello\n\ndata: {"token":"a"}\n\nevent: note\r\ndata: one\r\ndata: zwei ä\r\nid: 7\r\n\r\nevent: none\n\ndata:b\n\n';
    const bytes = Buffer.from(text);
    const { PassThrough } = await import("node:stream");
    const platform = await startPlatform(t, {
      forward: async () => {
        const body = new PassThrough();
        for (const byte of bytes) body.write(Buffer.from([byte]));
        body.end();
        return { ...respond(200, bytes, "text/event-stream"), body };
      },
    });
    const api = new Endpoint({ url: `${platform.url}/lb/web`, apiKey: KEY });
    const events: unknown[] = [];
    for await (const event of api.events("POST", "/generate", { body: {} })) events.push(event);
    assert.deepEqual(events, [
      { event: "message", data: '{"token":"a"}', id: "" },
      { event: "note", data: "one\nzwei ä", id: "7" },
      { event: "message", data: "b", id: "7" },
    ]);
  });
});

test("pages of the origins that an endpoint allows may use its job routes", async (t) => {
  const { endpoint } = await import("../gateway/support.ts");
  const allowed = { ...endpoint("jobs", "queue"), cors: "https://app.test" };
  const platform = await startPlatform(t, { deps: { endpoints: { find: () => allowed } } });
  const asks = { origin: "https://app.test", "access-control-request-method": "POST" };
  const headers = { ...asks, "access-control-request-headers": "authorization,content-type,idempotency-key" };
  const preflight = await fetch(`${platform.url}/v2/jobs/run`, { method: "OPTIONS", headers });
  assert.equal(preflight.status, 204);
  assert.equal(preflight.headers.get("access-control-allow-origin"), "https://app.test");
  assert.equal(preflight.headers.get("access-control-allow-headers"), "authorization,content-type,idempotency-key");
  const answer = await platform.post("/v2/jobs/run", { input: {} }, { origin: "https://app.test" });
  assert.equal(answer.headers.get("access-control-allow-origin"), "https://app.test");
  const other = await platform.post("/v2/jobs/run", { input: {} }, { origin: "https://evil.test" });
  assert.equal(other.headers.get("access-control-allow-origin"), null);
});
