import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import {
  dominantShare,
  emulatesGpu,
  fitsTogether,
  type Gpu,
  type Machine,
  type Need,
  needOf,
  place,
  type Share,
} from "../../src/domain/capacity.ts";

const real = (product: string): Gpu => ({ product, emulated: false });
const emulated = (product: string): Gpu => ({ product, emulated: true });
const host = { vcpus: 8, memoryGb: 64 };
const machine = (...gpus: Gpu[]): Machine => ({ ...host, hardware: host, gpus, emulatesGpu: false });
const gpu = (gpuIds: string, gpuCount = 1, gpuPreference: string[] = []): Need => ({
  vcpus: 1,
  memoryGb: 4,
  gpuIds,
  gpuCount,
  gpuPreference,
});
const share = (on: Machine, taken: Share[], need: Need): Share => {
  const placed = place(on, taken, need);
  assert.ok(!("lack" in placed), "lack" in placed ? placed.lack : "");
  taken.push(placed);
  return placed;
};

test("Two workers with half a GPU each share one; a third goes to the next GPU", () => {
  const on = machine(real("NVIDIA L4"), real("NVIDIA L4"));
  const taken: Share[] = [];
  const half = gpu("AMPERE_24", 0.5);
  assert.deepEqual(share(on, taken, half), { vcpus: 1, memoryGb: 4, gpus: [0], gpuFraction: 0.5 });
  assert.deepEqual([share(on, taken, half).gpus, share(on, taken, half).gpus], [[0], [1]]);
});

test("A worker that asks for a whole GPU never gets one that is shared, and the reverse", () => {
  const on = machine(real("NVIDIA L4"));
  const shared: Share[] = [];
  share(on, shared, gpu("ANY", 0.1));
  assert.match((place(on, shared, gpu("ANY")) as { lack: string }).lack, /1 GPU, 0 of 1 is free/);
  const owned: Share[] = [];
  share(on, owned, gpu("ANY"));
  assert.match((place(on, owned, gpu("ANY", 0.1)) as { lack: string }).lack, /0.1 of a GPU, 0 of 1 is free/);
});

test("Fractions fill the GPU that has the least room, so that whole ones stay free", () => {
  const on = machine(real("NVIDIA L4"), real("NVIDIA L4"), real("NVIDIA L4"));
  const taken: Share[] = [];
  share(on, taken, gpu("ANY", 0.3));
  share(on, taken, gpu("ANY", 0.8));
  assert.deepEqual(share(on, taken, gpu("ANY", 0.2)).gpus, [1]);
  assert.deepEqual(share(on, taken, gpu("ANY")).gpus, [2]);
});

test("Ten workers with a tenth each fit on one GPU", () => {
  const on = { ...machine(real("NVIDIA L4")), vcpus: 100 };
  const taken: Share[] = [];
  for (let i = 0; i < 10; i++) assert.deepEqual(share(on, taken, gpu("ANY", 0.1)).gpus, [0]);
  assert.ok("lack" in place(on, taken, gpu("ANY", 0.1)));
});

test("A list of GPUs is an order: the first that is free is taken, then the next", () => {
  const on = machine(real("NVIDIA L4"), real("NVIDIA GeForce RTX 4090"), real("NVIDIA L4"));
  const order = gpu("ADA_24,AMPERE_24", 1, ["ADA_24", "NVIDIA_L4"]);
  const taken: Share[] = [];
  assert.deepEqual(
    [share(on, taken, order).gpus, share(on, taken, order).gpus, share(on, taken, order).gpus],
    [[1], [0], [2]],
  );
  const turned = gpu("ADA_24,AMPERE_24", 1, ["NVIDIA_L4", "ADA_24"]);
  assert.deepEqual(share(on, [], turned).gpus, [0]);
  assert.deepEqual(share(on, [], gpu("ADA_24,AMPERE_24")).gpus, [0], "without an order the first of the machine");
});

test("Several GPUs of one worker are alike where the machine has enough of them", () => {
  const on = machine(real("NVIDIA L4"), real("NVIDIA GeForce RTX 4090"), real("NVIDIA GeForce RTX 4090"));
  const order = ["AMPERE_24", "ADA_24"];
  assert.deepEqual(share(on, [], gpu("ADA_24,AMPERE_24", 2, order)).gpus, [1, 2]);
  assert.deepEqual(share(on, [], gpu("ADA_24,AMPERE_24", 3, order)).gpus, [0, 1, 2]);
});

/** What a worker is given of the host: [vCPUs, GB]. */
const hostOf = (on: Machine, gpuIds: string, gpuCount = 1) => {
  const { vcpus, memoryGb } = needOf(on, { instanceIds: "", gpuIds, gpuCount });
  return [vcpus, memoryGb];
};

test("A GPU worker's part of the host is that of its GPUs, before overcommit and less a reserve", () => {
  const two = machine(real("NVIDIA L4"), real("NVIDIA H200"));
  assert.deepEqual(hostOf(two, "ANY"), [3.5, 28]);
  assert.deepEqual(hostOf(two, "ANY", 2), [7, 56]);
  assert.deepEqual(hostOf(two, "ANY", 0.5), [1.75, 14]);
  assert.deepEqual(hostOf(two, "ANY", 9), [7, 56], "not more than the machine has");
  assert.deepEqual(hostOf({ ...two, vcpus: 64, memoryGb: 128 }, "ANY"), [3.5, 28], "overcommit changes nothing");
  assert.deepEqual(hostOf({ ...two, vcpus: 4, memoryGb: 32 }, "ANY"), [1.5, 14], "unless less is promised");
});

test("A GPU worker never has less than 1 vCPU and 4 GB, and exactly that where its GPU is emulated", () => {
  const small = { ...machine(real("NVIDIA L4")), hardware: { vcpus: 2, memoryGb: 4 } };
  assert.deepEqual(hostOf(small, "ANY"), [1, 4]);
  assert.deepEqual(hostOf(machine(real("NVIDIA L4")), "ANY", 0.05), [1, 4]);
  const mixed = machine(real("NVIDIA H200"), emulated("NVIDIA L4"));
  assert.deepEqual(
    [hostOf(mixed, "HOPPER_141"), hostOf(mixed, "AMPERE_24")],
    [
      [7, 56],
      [1, 4],
    ],
  );
  assert.deepEqual(hostOf({ ...machine(), emulatesGpu: true }, "ANY"), [1, 4]);
});

test("A CPU worker fits beside workers on all GPUs; a CPU machine type is what it says", () => {
  const on = machine(real("NVIDIA L4"), real("NVIDIA L4"));
  const taken: Share[] = [];
  for (let i = 0; i < 2; i++) share(on, taken, needOf(on, { instanceIds: "", gpuIds: "ANY", gpuCount: 1 }));
  share(on, taken, needOf(on, { instanceIds: "cpu3c-1-2", gpuIds: "", gpuCount: 1 }));
});

test("When the GPU is taken, the GPU is what is said to be missing", () => {
  const on = machine(real("NVIDIA L4"));
  const need = needOf(on, { instanceIds: "", gpuIds: "ANY", gpuCount: 1 });
  assert.match((place(on, [share(on, [], need)], need) as { lack: string }).lack, /1 GPU, 0 of 1 is free/);
});

test("Declared GPUs are counted like real ones and labelled as emulated, unless a real one fits", () => {
  const on = machine(real("NVIDIA H200"), emulated("NVIDIA L4"), emulated("NVIDIA H200"));
  const taken: Share[] = [];
  assert.deepEqual(share(on, taken, gpu("AMPERE_24")).gpus, [1]);
  assert.ok("lack" in place(on, taken, gpu("AMPERE_24")));
  assert.deepEqual(share(on, taken, gpu("HOPPER_141")).gpus, [0]);
  assert.ok("lack" in place(on, taken, gpu("HOPPER_141")), "the real one is taken: it waits, and is not emulated");
  assert.deepEqual(
    ["AMPERE_24", "HOPPER_141", "ADA_24", ""].map((ids) => emulatesGpu(on, ids)),
    [true, false, false, false],
  );
});

const products = ["NVIDIA L4", "NVIDIA GeForce RTX 4090", "NVIDIA H200", "NVIDIA Unheard Of"];
const hosts = fc.record({ vcpus: fc.integer({ min: 1, max: 32 }), memoryGb: fc.integer({ min: 4, max: 128 }) });
const machines = fc
  .record({
    hardware: hosts,
    overcommit: fc.constantFrom(0.5, 1, 2, 8),
    gpus: fc.array(fc.record({ product: fc.constantFrom(...products), emulated: fc.boolean() }), { maxLength: 5 }),
    emulatesGpu: fc.boolean(),
  })
  .map(({ overcommit, ...rest }): Machine => {
    const { vcpus, memoryGb } = rest.hardware;
    return { ...rest, vcpus: vcpus * overcommit, memoryGb: memoryGb * overcommit };
  });
const needs = fc.record({
  vcpus: fc.constantFrom(1, 2, 4),
  memoryGb: fc.constantFrom(2, 4, 8),
  gpuIds: fc.constantFrom("", "ANY", "AMPERE_24", "ADA_24,HOPPER_141"),
  gpuCount: fc.oneof(fc.integer({ min: 1, max: 3 }), fc.constantFrom(0.05, 0.1, 0.3, 0.5, 0.95)),
  gpuPreference: fc.shuffledSubarray(["ANY", "NVIDIA_L4", "ADA_24", "HOPPER_141"]),
});
/** What starts (a need) and what ends (the place of a worker among those that run). */
const histories = fc.array(fc.oneof(needs, fc.nat(20)), { maxLength: 60 });

test("Whatever starts and ends: nothing is promised twice, and each worker has what it asked for", () => {
  fc.assert(
    fc.property(machines, histories, (on, history) => {
      const taken: Share[] = [];
      for (const step of history) {
        if (typeof step === "number") {
          taken.splice(step, 1);
          continue;
        }
        const placed = place(on, taken, step);
        if ("lack" in placed) {
          assert.notEqual(placed.lack, "");
          continue;
        }
        taken.push(placed);
        assert.ok(fitsTogether(on, taken));
        assert.deepEqual([placed.vcpus, placed.memoryGb], [step.vcpus, step.memoryGb]);
        const onCpu = step.gpuIds === "" || (placed.gpus.length === 0 && emulatesGpu(on, step.gpuIds));
        assert.equal(placed.gpus.length, onCpu ? 0 : Math.ceil(step.gpuCount));
        assert.equal(new Set(placed.gpus).size, placed.gpus.length);
        const size = dominantShare(on, placed);
        assert.ok(size > 0 && size <= 1 + 1e-6);
        if (placed.gpus.length > 0) {
          assert.ok(placed.gpus.every((index) => on.gpus[index]!.emulated === emulatesGpu(on, step.gpuIds)));
        }
        for (const index of placed.gpus) {
          const others: Share[] = taken.filter((other) => other !== placed && other.gpus.includes(index));
          if (step.gpuCount >= 1) assert.equal(others.length, 0, "a whole GPU is one worker's alone");
          assert.ok(others.every((other) => other.gpuFraction !== undefined));
        }
      }
    }),
  );
});

test("What does not fit now fits once the others are gone, or never: the order of ends plays no part", () => {
  fc.assert(
    fc.property(machines, fc.array(needs, { maxLength: 12 }), needs, (on, before, need) => {
      const taken: Share[] = [];
      for (const one of before) {
        const placed = place(on, taken, one);
        if (!("lack" in placed)) taken.push(placed);
      }
      const now = place(on, taken, need);
      const alone = place(on, [], need);
      if ("lack" in alone) assert.ok("lack" in now);
    }),
  );
});

test("Whatever GPU workers ask for, what they get of the host never exceeds the machine", () => {
  const asked = fc.record({
    gpuIds: fc.constantFrom("ANY", "AMPERE_24"),
    gpuCount: needs.map(({ gpuCount }) => gpuCount),
  });
  fc.assert(
    fc.property(machines, fc.array(asked, { maxLength: 40 }), (on, all) => {
      const taken: Share[] = [];
      for (const one of all) {
        const placed = place(on, taken, needOf(on, { instanceIds: "", ...one }));
        if ("lack" in placed) continue;
        taken.push(placed);
        assert.ok(placed.vcpus >= 1 && placed.memoryGb >= 4);
        assert.ok(fitsTogether(on, taken));
      }
    }),
  );
});

test("One worker for each GPU fits on all GPUs at once, as do fractions, where the machine has 1 vCPU and 4 GB for each", () => {
  const cases = fc.record({
    gpus: fc.integer({ min: 1, max: 8 }),
    each: hosts,
    parts: fc.constantFrom(1, 2, 3, 4),
    overcommit: fc.constantFrom(1, 8),
  });
  fc.assert(
    fc.property(cases, ({ gpus, each, parts, overcommit }) => {
      const hardware = { vcpus: gpus * each.vcpus * parts, memoryGb: gpus * each.memoryGb * parts };
      const on: Machine = {
        hardware,
        vcpus: hardware.vcpus * overcommit,
        memoryGb: hardware.memoryGb * overcommit,
        gpus: Array.from({ length: gpus }, () => real("NVIDIA H200")),
        emulatesGpu: false,
      };
      const taken: Share[] = [];
      const gpuCount = Math.floor(100 / parts) / 100;
      for (let i = 0; i < gpus * parts; i++) share(on, taken, needOf(on, { instanceIds: "", gpuIds: "ANY", gpuCount }));
      const used = taken.reduce((sum, one) => sum + one.memoryGb, 0);
      assert.ok(used <= hardware.memoryGb, "overcommit is not used for them");
    }),
  );
});
