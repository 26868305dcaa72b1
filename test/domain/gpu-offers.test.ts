/** What is said of GPUs that pools of Pods have not, before and after their Pods have joined. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { gpuProblems, gpusAmiss, otherGpus, poolsAsFound } from "../../src/domain/gpu-offers.ts";
import { POD_OTHER_GPUS_MAX_MS } from "../../src/domain/limits.ts";
import type { HostMachine } from "../../src/domain/placement.ts";
import { decidePools } from "../../src/domain/pool-plan.ts";
import { machineOf, type Pool, type PoolHost, type Wish } from "../../src/domain/pools.ts";

const L4_IDS = "AMPERE_24,-NVIDIA GeForce RTX 3090,-NVIDIA RTX A5000";
const L4 = { product: "NVIDIA L4", emulated: false };
const pool = (changes: Partial<Pool> = {}): Pool => ({
  ...{ name: "gpu", vcpus: 8, memoryGb: 32, gpus: 1, gpuProduct: "NVIDIA L4", warm: 0, idleMs: 600_000, max: 4 },
  ...{ trust: "shared", volumes: false },
  ...changes,
});
const asMachine = (of: Pool): HostMachine => ({
  ...machineOf(of),
  ...{ id: `pool:${of.name}`, name: `the pool ${of.name}`, labels: [of.name], sharedVolumes: false, potential: true },
});
const host = (changes: Partial<PoolHost> = {}): PoolHost => ({
  ...{ pod: "p1", pool: "gpu", state: "here", forMs: 0, holder: "*", shares: [], problems: new Map() },
  ...changes,
});
const bare = (of: Pool, changes: Partial<PoolHost> = {}) =>
  host({ machine: { ...machineOf(of), gpus: [] }, hasOtherGpus: true, ...changes });
const wish: Wish = {
  ...{ endpointId: "x", environmentId: "e", volumes: [], image: "x:b", missing: 1 },
  need: { vcpus: 1, memoryGb: 4, gpuIds: L4_IDS, gpuPreference: [], gpuCount: 1, ofGpus: true },
};

test("A GPU that no pool has is named, with what each pool has and what to do", () => {
  const small = pool({ name: "small", gpus: 0, gpuProduct: "" });
  const large = pool({ gpus: 4, gpuProduct: "NVIDIA H200" });
  const box = { ...asMachine(pool({ name: "box", gpus: 2, gpuProduct: "NVIDIA A40" })), potential: undefined };
  const machines = [asMachine(small), asMachine(large), box as HostMachine];
  const [said, ...more] = gpuProblems(machines, { gpuIds: L4_IDS });
  assert.match(
    said ?? "",
    /^gpu= asks for a GPU of NVIDIA L4, which nothing here can give: the pool small has no GPU; the pool gpu has 4 × NVIDIA H200; the pool box has 2 × NVIDIA A40\. .*add a pool .*svc worker join/,
  );
  assert.deepEqual(more, []);
  assert.deepEqual(gpuProblems(machines, { gpuIds: "HOPPER_141", gpuCount: 4 }), []);
  assert.match(gpuProblems(machines, { gpuIds: "HOPPER_141", gpuCount: 5 })[0] ?? "", /5 GPUs of NVIDIA H200/);
  assert.match(gpuProblems([asMachine(small)], { gpuIds: "ANY" })[0] ?? "", /a GPU of any kind/);
  assert.deepEqual(gpuProblems(machines, { gpuIds: "" }), []);
  assert.deepEqual(gpuProblems(machines, { gpuIds: L4_IDS, hosts: "elsewhere" }), [], "the label is another matter");
  assert.match(
    gpuProblems(machines, { gpuIds: "HOPPER_141", hosts: "small" })[0] ?? "",
    /: the pool small has no GPU\. /,
  );
});

test("A pool whose Pod has too little beside its GPU says so", () => {
  const [said] = gpuProblems([asMachine(pool({ memoryGb: 2 }))], { gpuIds: L4_IDS });
  assert.match(said ?? "", /the pool gpu has 1 × NVIDIA L4 \(a worker needs 4 GB memory, 2 of 2 is free\)/);
});

test("A host has other GPUs where some of its pool's are not there; one that emulates them has them all", () => {
  const machine = machineOf(pool());
  assert.equal(otherGpus(pool(), machine), undefined);
  assert.deepEqual(otherGpus(pool({ gpus: 2 }), machine), [L4]);
  assert.deepEqual(otherGpus(pool(), { ...machine, gpus: [] }), []);
  assert.equal(otherGpus(pool(), { ...machine, gpus: [], emulatesGpu: true }), undefined);
  assert.equal(otherGpus(pool({ gpus: 0 }), { ...machine, gpus: [] }), undefined);
});

test("A pool whose Pods joined without its GPUs gets no further ones for who needs them, until one has them or none is left", () => {
  const one = pool();
  const decided = (hosts: readonly PoolHost[]) => decidePools(poolsAsFound([one], hosts), hosts, [wish]);
  const made = [{ kind: "make", pool: one, count: 1 }];
  assert.deepEqual(decided([]), made);
  const wrong = [bare(one)];
  assert.deepEqual(decided(wrong), []);
  assert.deepEqual(poolsAsFound([one], wrong), [{ ...one, gpus: 0, gpuProduct: "" }]);
  assert.match(gpusAmiss(one, wrong) ?? "", /^no GPU in its Pod p1, where the pool says 1 × NVIDIA L4$/);
  const full = host({ pod: "p2", shares: [{ vcpus: 1, memoryGb: 4, gpus: [0] }] });
  assert.deepEqual(decided([...wrong, full]), made, "nodes differ: the next may be as the one that has them");
  assert.equal(gpusAmiss(one, [...wrong, full]), undefined);
  const ofImage = host({ machine: { ...machineOf(one), gpus: [] }, isOwn: true });
  assert.deepEqual(poolsAsFound([one], [ofImage]), [one], "it has what its endpoint asks for");
});

test("A Pod without the GPUs of its pool and without workers is made anew after a while, also a warm one", () => {
  const one = pool({ warm: 1 });
  const decided = (changes: Partial<PoolHost>) => decidePools([one], [bare(one, changes)], []);
  assert.deepEqual(decided({ forMs: POD_OTHER_GPUS_MAX_MS }), []);
  assert.deepEqual(decided({ forMs: POD_OTHER_GPUS_MAX_MS + 1 }), [
    { kind: "delete", pod: "p1", why: "it has not the GPUs of its pool" },
  ]);
  const busy = decided({ forMs: 0, shares: [{ vcpus: 1, memoryGb: 2, gpus: [] }] });
  assert.ok(!busy.some(({ kind }) => kind === "delete"));
});
