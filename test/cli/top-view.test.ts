import assert from "node:assert/strict";
import { test } from "node:test";
import pc from "picocolors";
import { topView } from "../../src/cli/top/view.ts";
import type { EndpointGlance, Glance } from "../../src/client/history.ts";

function endpoint(name: string, changes: Partial<EndpointGlance> = {}): EndpointGlance {
  return {
    id: name,
    name,
    app: "shop",
    environment: "production",
    workersMin: 0,
    workersMax: 3,
    status: { state: "READY", reason: "", progress: [] },
    pods: [{ state: "READY" }, { state: "BOOTING" }],
    load: { waiting: 4, running: 1, p50Ms: 3.4, p95Ms: 61_234, failed: 2 },
    ...changes,
  };
}

function glance(endpoints: EndpointGlance[], hosts: Glance["hosts"] = []): Glance {
  return {
    endpoints,
    capacity: { vcpu: { total: 8, promised: 2.5 }, memoryGb: { total: 16, promised: 3 } },
    hosts,
    decisions: [{ at: 0, endpoint: "hello", start: 2, stop: 0, reason: "4 waiting", times: 3 }],
  };
}

const plain = pc.createColors(false);
const view = (endpoints: EndpointGlance[], columns = 80) => topView(glance(endpoints), 0, columns, plain);

test("an endpoint is a line with its workers, what waits and runs, times and failures", () => {
  const { head, body, foot } = view([
    endpoint("hello"),
    endpoint("alone", { app: null, load: { ...endpoint("").load, p50Ms: null } }),
  ]);
  assert.match(head[0]!, /vCPU 2\.5 of 8 {2}memory 3 of 16 GB {2}workers 2$/);
  assert.equal(body[0], "no app");
  assert.match(body[1]!, /^ {2}alone +READY +1\+1\/0-3 +4 +1 +- +61\.2s +2$/);
  assert.deepEqual(body[2], "shop/production");
  assert.match(body[3]!, /^ {2}hello +READY +1\+1\/0-3 +4 +1 +3\.4ms +61\.2s +2$/);
  assert.match(foot[0]!, /hello \+2 4 waiting \(3 times\)$/);
});

test("every line of endpoints has the width of the terminal, whatever their names and numbers are", () => {
  const large = { waiting: 123_456_789, running: 99_999_999, p50Ms: 1e12, p95Ms: 1e12, failed: 1e9 };
  const many = Array.from({ length: 300 }, (_, n) => endpoint(`${n}${"x".repeat(60)}`, { load: large }));
  const { head, body } = view(many);
  for (const line of [head[1]!, ...body.slice(1)]) assert.equal(line.length, 80, line);
  assert.equal(body.length, 301);
  assert.deepEqual(view([]).body, ["No endpoints are deployed here. Next: svc deploy"]);
});

test("machines that joined are lines below, with what is promised and busy, as wide as the terminal at most", () => {
  const of = (total: number, promised: number, used: number | null) => ({ total, promised, used });
  const machine = { state: "joined", vcpu: of(8, 2.5, 1.25), memoryGb: of(64, 3, 7), workers: [{ id: "w" }] };
  const hosts: Glance["hosts"] = [
    { ...machine, name: "gpu-1" },
    { ...machine, name: "x".repeat(63), vcpu: of(1_000, 999.5, 999.5), memoryGb: of(100_000, 99_999.5, 99_999.5) },
    { ...machine, name: "gone", state: "away", vcpu: null, memoryGb: null, workers: [] },
  ];
  const body = (columns: number) => topView(glance([endpoint("hello")], hosts), 0, columns, plain).body.slice(3);
  const [title, one, , gone] = body(120);
  assert.equal(title, "Machines that joined");
  assert.match(one!, /^ {2}gpu-1 +joined +workers 1 +vCPU 2\.5 of 8, 1\.3 busy +memory 3 of 64 GB, 7 busy$/);
  assert.match(gone!, /^ {2}gone +away +workers 0$/);
  for (const columns of [60, 80, 200]) for (const line of body(columns)) assert.ok(line.length <= columns, line);
});
