import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { Endpoint } from "../../src/client/endpoint.ts";
import { closedPort, serve } from "./serve.ts";

const DONE = '{"id":"j","status":"COMPLETED","output":1}';
const AWAY = '{"code":"SHUTTING_DOWN","detail":"The platform is shutting down.","status":503}';

describe("requests that may be repeated", () => {
  test("are sent again while the platform is busy, shutting down, or a proxy before it has nobody to ask", async () => {
    const answers: [number, string, Record<string, string>][] = [
      [429, '{"code":"RATE_LIMITED","detail":"slow down"}', { "retry-after": "1" }],
      [503, AWAY, {}],
      [502, "<h1>Bad Gateway</h1>", {}],
      [200, DONE, {}],
    ];
    const keys = new Set<unknown>();
    const at: number[] = [];
    const url = await serve((request, response) => {
      keys.add(request.headers["idempotency-key"]);
      at.push(performance.now());
      const [status, body, headers] = answers.shift()!;
      response.writeHead(status, headers).end(body);
    });
    assert.equal(await new Endpoint({ url, apiKey: "k" }).runsync({}), 1);
    assert.equal(keys.size, 1, "every try carries the same Idempotency-Key");
    assert.match(String([...keys][0]), /^[0-9a-f]{32}$/);
    assert.ok(at[1]! - at[0]! >= 1000, "Retry-After is kept to");
  });

  test("end with the last answer when patience is over", async () => {
    let tries = 0;
    const url = await serve((_request, response) => {
      tries++;
      response.writeHead(503).end(AWAY);
    });
    const endpoint = new Endpoint({ url, patienceMs: 2_500 });
    await assert.rejects(endpoint.health(), { code: "SHUTTING_DOWN" });
    // After 100, 200, 400 and 800 ms, and not after 1,600 more; fewer where the answers themselves took long.
    assert.ok(tries >= 2 && tries <= 5, `${tries}`);
  });

  test("an answer that breaks off in the middle is asked for again", async () => {
    let tries = 0;
    const url = await serve((request, response) => {
      if (++tries === 2) {
        response.writeHead(200, { "content-length": 1000 }).write('{"id":');
        setImmediate(() => request.socket.destroy());
      } else response.end(DONE);
    });
    const endpoint = new Endpoint({ url });
    await endpoint.health();
    assert.equal((await endpoint.status("j")).output, 1);
    assert.equal(tries, 3);
  });

  test("what the platform refuses is refused once", async () => {
    let tries = 0;
    const url = await serve((_request, response) => {
      tries++;
      response.writeHead(404).end('{"code":"JOB_NOT_FOUND","detail":"no"}');
    });
    await assert.rejects(new Endpoint({ url }).job("j").wait(), { code: "JOB_NOT_FOUND" });
    assert.equal(tries, 1);
  });

  test("a signal that is aborted while it pauses ends it at once", async () => {
    const url = await serve((_request, response) => response.writeHead(429, { "retry-after": "50" }).end("{}"));
    const abort = new AbortController();
    const asked = new Endpoint({ url }).health({ signal: abort.signal });
    setTimeout(() => abort.abort(new Error("enough")), 30);
    await assert.rejects(asked, { message: "enough" });
    await assert.rejects(new Endpoint({ url }).health({ signal: AbortSignal.abort(new Error("before")) }), /before/);
  });
});

test("requests to a load-balanced endpoint are sent once", async () => {
  let tries = 0;
  const url = await serve((request, response) => {
    if (++tries === 1) response.end("{}");
    else request.socket.destroy();
  });
  const api = new Endpoint({ url });
  await api.post("/a", {});
  await assert.rejects(api.post("/a", {}), { code: "PLATFORM_UNREACHABLE" });
  assert.equal(tries, 2);
  await assert.rejects(new Endpoint({ url: await closedPort() }).get("/"), { code: "PLATFORM_UNREACHABLE" });
});
