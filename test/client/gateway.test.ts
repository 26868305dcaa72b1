import assert from "node:assert/strict";
import { text } from "node:stream/consumers";
import { describe, test } from "node:test";
import { endpointClient } from "../../src/cli/find-job.ts";
import type { SvcError } from "../../src/domain/errors.ts";
import { serve } from "./serve.ts";

describe("calls of an endpoint", () => {
  test("the job routes get the input, the wait and the key", async () => {
    const calls: string[] = [];
    const url = await serve(async (request, response) => {
      assert.equal(request.headers.authorization, "Bearer svc_k");
      calls.push(`${request.method} ${request.url} ${await text(request)}`.trim());
      response.end('{"id":"j","status":"COMPLETED","output":2}');
    });
    const client = endpointClient(`${url}/v2/ep/`, "svc_k");
    assert.equal((await client.runsync({ x: 1 }, { waitMs: 1000 })).output, 2);
    await client.run({});
    await client.status("j");
    await client.statusSync("j", { waitMs: 5000 });
    await client.cancel("j");
    await client.health();
    assert.deepEqual(calls, [
      'POST /v2/ep/runsync?wait=1000 {"input":{"x":1}}',
      'POST /v2/ep/run {"input":{}}',
      "GET /v2/ep/status/j",
      "GET /v2/ep/status-sync/j?wait=5000",
      "POST /v2/ep/cancel/j",
      "GET /v2/ep/health",
    ]);
  });

  test("an error answer becomes a SvcError with its code", async () => {
    const url = await serve((_request, response) => {
      response.writeHead(404).end('{"code":"JOB_NOT_FOUND","detail":"There is no job j."}');
    });
    await assert.rejects(endpointClient(url, "k").status("j"), (error: SvcError) => {
      assert.equal(error.code, "JOB_NOT_FOUND");
      assert.equal(error.message, "There is no job j.");
      return true;
    });
  });

  test("a refused key says how to give another", async () => {
    const url = await serve((_request, response) => response.writeHead(401).end('{"code":"WRONG_KEY","detail":"no"}'));
    await assert.rejects(endpointClient(url, "svc_k").health(), { code: "WRONG_KEY", help: /svc login/ });
  });
});
