/** Traces of a real platform, as a collector gets them by OTLP. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { type TestContext, test } from "node:test";
import { eventually } from "../eventually.ts";
import { project, startPlatform } from "./platform.ts";

const CODE = `
import svc
from svc import Endpoint

@Endpoint(name="inner", cpu="cpu3c-1-2", workers=(0, 1), idle_timeout=600)
def inner() -> str:
    return svc.context().traceparent

@Endpoint(name="outer", cpu="cpu3c-1-2", workers=(0, 1), idle_timeout=600)
def outer(fail: bool = False) -> list[str]:
    if fail:
        raise ValueError("asked for")
    return [svc.context().traceparent, inner()]

api = Endpoint(name="api", cpu="cpu3c-1-2", workers=(0, 1), idle_timeout=600)

@api.get("/calls")
def calls() -> list[str]:
    return [svc.context().traceparent, inner()]
`;

interface Span {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentSpanId?: string;
  readonly name: string;
  readonly startTimeUnixNano: string;
  readonly endTimeUnixNano: string;
  readonly status: { readonly code?: number };
  readonly attributes: readonly { readonly key: string; readonly value: object }[];
}

/** What an OTLP collector gets. */
async function collector(t: TestContext) {
  const spans: Span[] = [];
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = [];
    for await (const chunk of request) chunks.push(chunk);
    const { resourceSpans } = JSON.parse(Buffer.concat(chunks).toString());
    assert.equal(request.url, "/v1/traces");
    for (const { scopeSpans } of resourceSpans) for (const scope of scopeSpans) spans.push(...scope.spans);
    response.setHeader("content-type", "application/json").end("{}");
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const close = async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  };
  t.after(close);
  return { spans, close, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

const CALLER = { traceId: "0af7651916cd43dd8448eb211c80319c", spanId: "b7ad6b7169203331" };
const traceparent = `00-${CALLER.traceId}-${CALLER.spanId}-01`;

test("A trace goes from the caller through job, wait, cold start and run to the functions it calls; a collector that is away costs nothing", {
  timeout: 240_000,
}, async (t) => {
  const to = await collector(t);
  const platform = await startPlatform(t, { OTEL_EXPORTER_OTLP_ENDPOINT: to.url, OTEL_BSP_SCHEDULE_DELAY: "50" });
  const deployed = await platform.svc(["deploy"], { cwd: project(t, { "worker.py": CODE }) });
  assert.equal(deployed.code, 0, deployed.stdout + deployed.stderr);
  const all = await platform.endpoints();
  const [outer, api] = ["outer", "api"].map((name) => all.find((one) => one.name === name)!);
  const runsync = (input: object, headers: Record<string, string> = { traceparent }) =>
    platform.call(`${outer!.url}/runsync`, { body: { input }, headers });

  const { output } = (await runsync({})).json as { output: string[] };
  const named = (name: string) => to.spans.filter((span) => span.traceId === CALLER.traceId && span.name === name);
  const one = (name: string, parent: { readonly spanId: string }) =>
    eventually(() => {
      const found = named(name).filter(({ parentSpanId }) => parentSpanId === parent.spanId);
      assert.equal(found.length, 1, `${name}: ${JSON.stringify(to.spans)}`);
      return found[0]!;
    });
  const job = await one("job outer", CALLER);
  await one("wait", job);
  const run = await one("run", job);
  assert.equal(output[0], `00-${CALLER.traceId}-${run.spanId}-01`, "the function sees its own span");
  const called = await one("job inner", run);
  assert.equal(output[1], `00-${CALLER.traceId}-${(await one("run", called)).spanId}-01`);
  const took = ({ startTimeUnixNano, endTimeUnixNano }: Span) =>
    Number(BigInt(endTimeUnixNano) - BigInt(startTimeUnixNano)) / 1e6;
  assert.ok(took(job) >= took(run) && took(run) >= took(called), JSON.stringify([job, run, called]));

  // The same through a request.
  to.spans.length = 0;
  const [own, inner] = (await platform.call(`${api!.url}/calls`, { headers: { traceparent } })).json as string[];
  const request = await one("GET api", CALLER);
  assert.equal(own, `00-${CALLER.traceId}-${request.spanId}-01`);
  const behind = await one("job inner", request);
  assert.equal(inner, `00-${CALLER.traceId}-${(await one("run", behind)).spanId}-01`);

  // What a caller sends as a trace may be anything.
  to.spans.length = 0;
  const strange = await runsync({ fail: true }, { traceparent: `00-${"0".repeat(32)}-x"}}'-01` });
  assert.equal(strange.json.status, "FAILED");
  const failed = await eventually(() => {
    const found = to.spans.find(({ name }) => name === "job outer");
    assert.ok(found !== undefined);
    return found;
  });
  assert.ok(failed.parentSpanId === undefined || failed.parentSpanId === "", "a trace of its own");
  assert.deepEqual([failed.status.code, failed.traceId === CALLER.traceId], [2, false]);

  await to.close();
  for (let n = 0; n < 20; n++) assert.equal((await runsync({})).json.status, "COMPLETED");
  await platform.stop();
});
