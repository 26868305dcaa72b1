import assert from "node:assert/strict";
import { test } from "node:test";
import { METRICS_ENDPOINTS_MAX, METRICS_IDLE_MS, SERIES_ROUTES_MAX } from "../../src/domain/limits.ts";
import type { FinishedJob } from "../../src/queue/queue.ts";
import type { Store } from "../../src/store/store.ts";
import { EndpointTotals } from "../../src/telemetry/endpoint-totals.ts";
import { PrometheusText } from "../../src/telemetry/prometheus.ts";
import { RouteNames } from "../../src/telemetry/route-names.ts";
import { OTHER_ROUTE, Tallies } from "../../src/telemetry/tallies.ts";

const JOB: FinishedJob = {
  id: "j",
  endpointId: "e",
  state: "COMPLETED",
  webhook: "",
  workerId: "w",
  createdAt: 1_000,
  startedAt: 1_100,
  finishedAt: 3_100,
};
const MACHINE = {
  vcpus: { total: 4, promised: 1, used: 0.5 },
  memory: { total: 8, promised: 1, used: 2 },
  gpus: { total: 2, promised: 1, measured: [{ index: 1, busy: 0.25, memoryGb: 1 }] },
};
const AT_REST = { waiting: 0, oldestWaitMs: 0, running: 0, workersReady: 0, workersStarting: 0, workersThrottled: 0 };

function scraped(loads = new Map([["e", { ...AT_REST, waiting: 3, workersReady: 1 }]])) {
  let now = 0;
  const totals = new EndpointTotals(() => now);
  const tallies = new Tallies();
  const text = new PrometheusText({
    totals,
    loads: async () => loads,
    machine: async () => MACHINE,
    named: async (id) => ({ endpoint_id: id, endpoint: `the "${id}"\n`, app: "shop", environment: "production" }),
    now: () => now,
  });
  return {
    tallies,
    totals,
    pass: (ms: number) => {
      now += ms;
    },
    read: async () => {
      totals.add(tallies.take());
      now += 10_000;
      return (await text.read()).text;
    },
  };
}

const valueOfLine = (text: string, line: RegExp) =>
  Number(new RegExp(`^${line.source} (\\S+)$`, "m").exec(text)?.[1] ?? Number.NaN);

test("Jobs, requests and workers become counters, histograms in seconds and gauges, with names that are escaped", async () => {
  const { tallies, read } = scraped();
  tallies.of("e").jobFinished(JOB);
  tallies.of("e").jobFinished({ ...JOB, state: "TIMED_OUT" });
  tallies.of("e").jobFinished({ ...JOB, state: "CANCELLED" });
  tallies.of("e").requestEnded("GET /", 200, 12);
  tallies.of("e").requestEnded("GET /", 503, 12);
  tallies.of("e").workerReady(40, 100);
  const text = await read();
  const labels = 'endpoint_id="e",endpoint="the \\\\"e\\\\"\\\\n",app="shop",environment="production"';
  const value = (name: string, more = "") => valueOfLine(text, new RegExp(`${name}\\{${labels}${more}\\}`));
  assert.equal(value("svc_jobs_total", ',outcome="done"'), 1);
  assert.equal(value("svc_jobs_total", ',outcome="failed"'), 1);
  assert.equal(value("svc_requests_total", ',status="2xx"'), 1);
  assert.equal(value("svc_requests_total", ',status="5xx"'), 1);
  assert.equal(value("svc_cold_starts_total"), 1);
  assert.equal(value("svc_job_run_seconds_sum"), 4);
  assert.equal(value("svc_job_run_seconds_count"), 2);
  assert.equal(value("svc_job_run_seconds_bucket", ',le="1.024"'), 0);
  assert.equal(value("svc_job_run_seconds_bucket", ',le="2.048"'), 2);
  assert.equal(value("svc_job_run_seconds_bucket", ',le="\\+Inf"'), 2);
  assert.equal(value("svc_job_wait_seconds_sum"), 0.2);
  assert.equal(value("svc_waiting"), 3);
  assert.equal(value("svc_workers", ',state="ready"'), 1);
  assert.equal(valueOfLine(text, /svc_machine_vcpus\{kind="free"\}/), 3);
  assert.equal(valueOfLine(text, /svc_machine_gpus\{kind="used"\}/), 0.25);
  assert.equal(valueOfLine(text, /svc_gpu_busy_ratio\{gpu="1"\}/), 0.25);
  assert.equal(valueOfLine(text, /svc_gpu_memory_used_bytes\{gpu="1"\}/), 1024 ** 3);
  assert.ok(valueOfLine(text, /process_resident_memory_bytes/) > 0);
  assert.match(text, /^# TYPE svc_job_run_seconds histogram$/m);
});

test("However many endpoints there are, the metrics have a bounded number of lines, and no counter ever falls", async () => {
  const { tallies, totals, pass, read } = scraped(new Map());
  const jobs = (endpoints: readonly string[]) => {
    for (const id of endpoints) tallies.of(id).jobFinished({ ...JOB, endpointId: id });
  };
  const all = Array.from({ length: 1_000 }, (_, n) => `e${n}`);
  jobs(all);
  const first = await read();
  assert.equal(totals.own.size, METRICS_ENDPOINTS_MAX);
  const other = /svc_jobs_total\{endpoint_id="other",endpoint="other",app="",environment="",outcome="done"\}/;
  assert.equal(valueOfLine(first, other), 1_000 - METRICS_ENDPOINTS_MAX);
  const lines = first.split("\n").length;
  jobs(all);
  const second = await read();
  assert.equal(second.split("\n").length, lines);
  assert.equal(valueOfLine(second, other), 2 * (1_000 - METRICS_ENDPOINTS_MAX));

  // One that was at rest for long gives its lines to another.
  pass(METRICS_IDLE_MS);
  jobs(["new"]);
  const third = await read();
  assert.ok(totals.own.has("new") && totals.own.size === METRICS_ENDPOINTS_MAX);
  assert.equal(valueOfLine(third, other), 2 * (1_000 - METRICS_ENDPOINTS_MAX));
});

test("A stranger's 10,000 paths make one name; of declared routes so many are told apart", async () => {
  const declared = Object.fromEntries(
    Array.from({ length: SERIES_ROUTES_MAX + 20 }, (_, n) => [`GET /r${n}/{id}`, "f"]),
  );
  const routes = {
    api: { "GET /items/mine": "f", "GET /items/{id}": "f", "POST /files/{path:path}": "f" },
    many: declared,
    app: { "GET /own": "f", "ANY /": "f" },
  };
  const builds = { find: async () => ({ manifest: { routes } }) } as unknown as Store["builds"];
  const failures: unknown[] = [];
  const names = new RouteNames({ builds }, (error) => failures.push(error));
  const find = (name: string, method: string, path: string) => names.find({ buildId: "b", name }, method, path);
  for (const name of ["api", "many", "app", "__proto__"]) assert.equal(find(name, "GET", "/"), OTHER_ROUTE);
  await new Promise((resolve) => setImmediate(resolve));
  assert.deepEqual(
    [
      find("api", "GET", "/items/7"),
      find("api", "HEAD", "/items/7"),
      find("api", "GET", "/items/mine"),
      find("api", "POST", "/files/a/b"),
      find("api", "GET", "/items/a/b"),
      find("app", "DELETE", "/x"),
      find("app", "GET", "/own"),
      find("__proto__", "GET", "/"),
    ],
    [
      "GET /items/{id}",
      "GET /items/{id}",
      "GET /items/mine",
      "POST /files/{path:path}",
      OTHER_ROUTE,
      "ANY /",
      "GET /own",
      OTHER_ROUTE,
    ],
  );
  const tallies = new Tallies();
  for (let n = 0; n < 10_000; n++) tallies.of("e").requestEnded(find("api", "GET", `/${n}`), 404, 1);
  for (let n = 0; n < SERIES_ROUTES_MAX + 20; n++)
    tallies.of("e").requestEnded(find("many", "GET", `/r${n}/1`), 200, 1);
  const { numbers } = tallies.of("e").recorded();
  assert.equal(numbers[`requests@${OTHER_ROUTE}`], 10_000 + 21);
  assert.ok(tallies.of("e").routes.size <= SERIES_ROUTES_MAX);
  assert.equal(numbers.requests, 10_000 + SERIES_ROUTES_MAX + 20);
  assert.deepEqual(failures, []);
});
