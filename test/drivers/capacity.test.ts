import assert from "node:assert/strict";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { emulatesGpu, type Share, sizeProblems } from "../../src/domain/capacity.ts";
import { CapacityLedger, findGpus } from "../../src/drivers/capacity.ts";
import type { WorkerSpec } from "../../src/drivers/worker-driver.ts";

const spec = (workerId: string, changes: Partial<WorkerSpec>): WorkerSpec =>
  ({ workerId, instanceIds: "cpu3c-1-2", gpuIds: "", gpuPreference: [], gpuCount: 1, ...changes }) as WorkerSpec;
const options = { cpuOvercommit: 1, memoryOvercommit: 1000, emulateGpu: false, emulatedGpus: [] };

test("The machine never promises more vCPUs than it has, times the overcommit factor", () => {
  const ledger = new CapacityLedger(options, []);
  for (let i = 0; i < availableParallelism(); i++) ledger.book(spec(`w${i}`, {}));
  assert.throws(() => ledger.book(spec("more", {})), { code: "NO_CAPACITY", message: /1 vCPU/ });
  ledger.free("w0");
  ledger.book(spec("again", {}));
});

test("A size of one's own is booked like a machine type; one beyond all that the machine promises is told with both numbers", () => {
  const ledger = new CapacityLedger({ ...options, memoryOvercommit: 1 }, [], { vcpus: 16, memoryGb: 64 });
  assert.deepEqual(ledger.book(spec("a", { instanceIds: "12.5-40" })), { vcpus: 12.5, memoryGb: 40, gpus: [] });
  assert.throws(() => ledger.book(spec("b", { instanceIds: "4-8" })), { message: /needs 4 vCPU, 3.5 of 16 is free/ });
  for (const fits of ["16-64", "12.5-40", "cpu3c-8-16", ""]) assert.deepEqual(sizeProblems(ledger.capacity, fits), []);
  for (const large of ["16.25-64", "16-64.25"]) {
    const [problem] = sizeProblems(ledger.capacity, large);
    assert.match(problem!, new RegExp(`cpu="${large}" is .* promises 16 vCPU and 64 GB in all.*SVC_CPU_OVERCOMMIT`));
  }
  const small = new CapacityLedger(options, [], { vcpus: 4, memoryGb: 64 });
  assert.match(sizeProblems(small.capacity, "cpu3c-8-16")[0]!, /promises 4 vCPU/);
});

test("One worker owns its GPU; the reason says what is missing", () => {
  const ledger = new CapacityLedger({ ...options, cpuOvercommit: 100 }, ["NVIDIA L4", "NVIDIA H200"]);
  const gpu = { instanceIds: "", gpuIds: "AMPERE_24" };
  assert.deepEqual(ledger.book(spec("a", gpu)).gpus, [0]);
  assert.throws(() => ledger.book(spec("b", gpu)), { code: "NO_CAPACITY", message: /0 of 1 is free/ });
  assert.deepEqual(ledger.book(spec("c", { instanceIds: "", gpuIds: "ANY" })).gpus, [1]);
  assert.throws(() => ledger.book(spec("d", { instanceIds: "", gpuIds: "ADA_24" })), /No GPU available/);
});

test("A worker that others sit and wait for goes beyond vCPUs and memory, and never beyond the GPUs", () => {
  const beyond = { beyondCapacity: true };
  const ledger = new CapacityLedger(options, ["NVIDIA L4"]);
  for (let i = 0; i < availableParallelism(); i++) ledger.book(spec(`w${i}`, {}));
  assert.equal(ledger.book(spec("peer", beyond)).vcpus, 1);
  assert.throws(() => ledger.book(spec("other", {})), { code: "NO_CAPACITY", message: /, 0 of \d+ is free/ });
  const gpu = { instanceIds: "", gpuIds: "AMPERE_24", ...beyond };
  assert.deepEqual(ledger.book(spec("first", gpu)).gpus, [0]);
  assert.throws(() => ledger.book(spec("second", gpu)), {
    code: "NO_CAPACITY",
    message: /1 GPU, 0 of 1 is free/,
    help: /a GPU cannot be lent twice/,
  });
});

test("A share that was decided elsewhere is booked as it is told, and refused only when a GPU would be lent twice", () => {
  const ledger = new CapacityLedger({ ...options, cpuOvercommit: 1 }, ["NVIDIA L4", "NVIDIA L4"]);
  const told = { vcpus: 1000, memoryGb: 9000, gpus: [1] };
  assert.deepEqual(ledger.book(spec("a", { share: told })), told);
  assert.deepEqual(ledger.capacity.shares.get("a"), told);
  const half = { vcpus: 1, memoryGb: 1, gpus: [0], gpuFraction: 0.5 };
  ledger.book(spec("b", { share: half }));
  ledger.book(spec("c", { share: half }));
  for (const gpus of [[1], [0], [0, 1]]) {
    const share = { vcpus: 1, memoryGb: 1, gpus };
    assert.throws(() => ledger.book(spec("d", { share })), { code: "NO_CAPACITY", message: /lent twice/ });
  }
  const none = { vcpus: 1, memoryGb: 1, gpus: [2] };
  assert.throws(() => ledger.book(spec("d", { share: none })), { code: "NO_CAPACITY", message: /2 GPUs.*number 2/ });
  ledger.free("a");
  ledger.book(spec("d", { share: told }));
});

test("A machine without GPUs serves GPU endpoints on the CPU only when the configuration says so", () => {
  const gpu = { instanceIds: "", gpuIds: "ANY" };
  assert.throws(() => new CapacityLedger(options, []).book(spec("a", gpu)), { code: "NO_CAPACITY" });
  assert.deepEqual(new CapacityLedger({ ...options, emulateGpu: true }, []).book(spec("a", gpu)).gpus, []);
});

test("Workers that survived a crash of the platform keep their share of the machine, GPUs included", () => {
  const gpus = ["NVIDIA L4", "NVIDIA L4"];
  const gpu = { instanceIds: "", gpuIds: "AMPERE_24" };
  const before = new CapacityLedger({ ...options, cpuOvercommit: 100 }, gpus);
  const kept: unknown = JSON.parse(JSON.stringify(before.book(spec("survivor", gpu))));

  const after = new CapacityLedger({ ...options, cpuOvercommit: 100 }, gpus);
  after.restore("survivor", kept as Share);
  assert.deepEqual(after.book(spec("next", gpu)).gpus, [1]);
  assert.throws(() => after.book(spec("third", gpu)), { code: "NO_CAPACITY" });
  after.free("survivor");
  assert.deepEqual(after.book(spec("third", gpu)).gpus, [0]);
});

test("A GPU is emulated only where it is asked for, allowed and missing", () => {
  const capacity = (allowed: boolean, gpus: string[]) =>
    new CapacityLedger({ ...options, emulateGpu: allowed }, gpus).capacity;
  assert.equal(emulatesGpu(capacity(true, []), "ADA_24"), true);
  assert.equal(emulatesGpu(capacity(true, ["NVIDIA L4"]), "ADA_24"), true);
  assert.equal(emulatesGpu(capacity(true, ["NVIDIA L4"]), "AMPERE_24"), false);
  assert.equal(emulatesGpu(capacity(false, []), "ADA_24"), false);
  assert.equal(emulatesGpu(capacity(true, []), ""), false);
});

test("A start that fails gives back what it had booked, however often", async () => {
  const ledger = new CapacityLedger({ ...options, cpuOvercommit: 100 }, []);
  for (let n = 0; n < 100; n++) {
    const failing = ledger.withShare(spec(`failing-${n}`, {}), () => {
      throw new Error("the launcher is away");
    });
    await assert.rejects(failing, /the launcher is away/);
  }
  assert.equal(ledger.capacity.shares.size, 0);
  await ledger.withShare(spec("runs", {}), () => {});
  assert.deepEqual([...ledger.capacity.shares.keys()], ["runs"]);
});

test("GPUs are those that the driver's program of the search path lists, and none without one", async (t) => {
  const folder = mkdtempSync(path.join(tmpdir(), "svc-gpus-"));
  t.after(() => rmSync(folder, { recursive: true }));
  assert.deepEqual(await findGpus(folder), []);
  writeFileSync(path.join(folder, "nvidia-smi"), "#!/bin/sh\necho NVIDIA A; echo NVIDIA B\n", { mode: 0o755 });
  assert.deepEqual(await findGpus(folder), ["NVIDIA A", "NVIDIA B"]);
  writeFileSync(path.join(folder, "nvidia-smi"), "#!/bin/sh\necho no driver; exit 9\n");
  assert.deepEqual(await findGpus(folder), []);
});
