import assert from "node:assert/strict";
import { createServer } from "node:net";
import { test } from "node:test";
import { TRACED_JOBS_MAX } from "../../src/domain/limits.ts";
import { openTraces } from "../../src/telemetry/tracing.ts";
import { eventually } from "../eventually.ts";

const ENDPOINT = { id: "e", name: "add" };
const finished = (id: string) => ({ id, state: "COMPLETED", workerId: "w", createdAt: 1, startedAt: 2, finishedAt: 3 });

test("A collector that refuses, or takes and never answers, costs spans: it is said once, and the end is not held up", async (t) => {
  const silent = createServer((socket) => socket.resume()).listen(0, "127.0.0.1");
  t.after(() => silent.close());
  await new Promise((resolve) => silent.once("listening", resolve));
  const { port } = silent.address() as { port: number };
  process.env.OTEL_BSP_SCHEDULE_DELAY = "10";
  for (const address of ["http://127.0.0.1:1", `http://127.0.0.1:${port}`]) {
    process.env.OTEL_EXPORTER_OTLP_ENDPOINT = address;
    process.env.OTEL_EXPORTER_OTLP_TIMEOUT = "200";
    const told: string[] = [];
    const traces = await openTraces({ clock: Date.now, told: (line) => void told.push(line) });
    const jobs = (count: number) => {
      for (let n = 0; n < count; n++) {
        traces.jobSubmitted(`j${n}`, ENDPOINT, undefined);
        assert.match(traces.jobHandedOut(`j${n}`) ?? "", /^00-[\da-f]{32}-[\da-f]{16}-01$/);
        traces.jobFinished(finished(`j${n}`), undefined);
      }
    };
    jobs(10_000);
    await eventually(() => assert.deepEqual(told, ["traces cannot be sent: spans are left out"]));
    jobs(10_000);
    await traces.close();
    assert.equal(told.length, 1);
  }
});

test("Jobs that never end take a bounded room; those that were refused take none", async () => {
  process.env.OTEL_EXPORTER_OTLP_ENDPOINT = "http://127.0.0.1:1";
  const traces = await openTraces({ clock: Date.now, told: () => {} });
  traces.jobSubmitted("dropped", ENDPOINT, undefined);
  traces.jobDropped("dropped");
  assert.equal(traces.jobHandedOut("dropped"), undefined);
  for (let n = 0; n <= TRACED_JOBS_MAX; n++) traces.jobSubmitted(`j${n}`, ENDPOINT, undefined);
  assert.equal(traces.jobHandedOut("j0"), undefined, "the oldest made room");
  assert.ok(traces.jobHandedOut("j1") !== undefined);
  await traces.close();
});
