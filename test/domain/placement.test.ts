import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { Need, Share } from "../../src/domain/capacity.ts";
import { type Contender, shareRoom } from "../../src/domain/fair-share.ts";
import { gpuRank } from "../../src/domain/gpu.ts";
import { allFitTogether, type Fleet, type HostMachine, placeAmong } from "../../src/domain/placement.ts";

const L4 = "NVIDIA L4";
const H100 = "NVIDIA H100 80GB HBM3";

function machine(id: string, vcpus: number, changes: Partial<HostMachine> = {}): HostMachine {
  const size = { vcpus, memoryGb: vcpus * 4 };
  const name = id === "" ? "platform" : id;
  return {
    ...size,
    hardware: size,
    gpus: [],
    emulatesGpu: false,
    id,
    name,
    labels: [],
    sharedVolumes: false,
    ...changes,
  };
}
const gpus = (...products: string[]) => products.map((product) => ({ product, emulated: false }));
const fleet = (...machines: HostMachine[]): Fleet => ({ ...machine("", 4), machines });
const need = (changes: Partial<Need> = {}): Need => {
  return { vcpus: 1, memoryGb: 2, gpuIds: "", gpuPreference: [], gpuCount: 1, ...changes };
};
const of = (endpointId: string) => ({ endpointId, image: `${endpointId}:b`, zygote: `${endpointId}:r` });
function hostOf(placed: ReturnType<typeof placeAmong>): string {
  assert.ok(!("lack" in placed), "lack" in placed ? placed.lack : "");
  return placed.host ?? "";
}

test("A worker goes to the machine with the best GPU, then to one that knows its code, then to the least loaded", () => {
  const cold = machine("a", 8, { gpus: gpus(L4, H100) });
  const warm = machine("b", 8, { gpus: gpus(L4, L4), warm: new Set(["e:r"]) });
  const gpu = { gpuIds: "ANY", of: of("e") };
  const prefersH100 = need({ ...gpu, gpuPreference: ["ADA_80_PRO", "ANY"] });
  assert.equal(hostOf(placeAmong(fleet(warm, cold), [], prefersH100)), "a");
  assert.equal(hostOf(placeAmong(fleet(cold, warm), [], need(gpu))), "b");
  const taken: Share[] = [{ vcpus: 4, memoryGb: 1, gpus: [], host: "a" }];
  assert.equal(hostOf(placeAmong(fleet(machine("a", 8), machine("c", 8)), taken, need())), "c");
});

test("Among machines alike it goes where the fewest workers of its endpoint are, then by name", () => {
  const crowded = machine("a", 8, { counts: new Map([["e", 2]]) });
  assert.equal(hostOf(placeAmong(fleet(crowded, machine("b", 8)), [], need({ of: of("e") }))), "b");
  assert.equal(hostOf(placeAmong(fleet(machine("b", 8), machine("a", 8)), [], need())), "a");
});

test("The platform's own machine is one of them: a share on it names no host", () => {
  assert.deepEqual(placeAmong(fleet(machine("", 4), machine("z", 4)), [], need()), {
    vcpus: 1,
    memoryGb: 2,
    gpus: [],
  } as never);
});

test("What no machine can take is said of each of them, those with one reason together", () => {
  const machines = fleet(machine("a", 1), machine("b", 1), machine("c", 9, { closed: "it is away" }));
  const full = [
    { vcpus: 1, memoryGb: 0, gpus: [], host: "a" },
    { vcpus: 1, memoryGb: 0, gpus: [], host: "b" },
  ];
  assert.deepEqual(
    (placeAmong(machines, full, need()) as { lack: string }).lack,
    "None of 3 machines has room: a, b: a worker needs 1 vCPU, 0 of 1 is free; c: it is away.",
  );
  assert.match(
    (placeAmong(machines, [], need({ label: "gpu" })) as { lack: string }).lack,
    /There is no machine with the label "gpu"\./,
  );
  assert.match((placeAmong(fleet(), [], need()) as { lack: string }).lack, /No machine takes workers\./);
});

test("A worker starts only where its image is prepared; why another machine cannot is said", () => {
  const machines = fleet(
    machine("a", 8, { prepared: new Set(), problems: new Map([["e:b", "no Python 3.13"]]) }),
    machine("b", 1, { prepared: new Set(["e:b"]) }),
  );
  assert.equal(hostOf(placeAmong(machines, [], need({ of: of("e") }))), "b");
  const full = [{ vcpus: 1, memoryGb: 0, gpus: [], host: "b" }];
  assert.match(
    (placeAmong(machines, full, need({ of: of("e") })) as { lack: string }).lack,
    /a: it cannot be prepared there \(no Python 3\.13\)/,
  );
});

const anyMachine = (id: string) =>
  fc
    .record({
      vcpus: fc.integer({ min: 1, max: 8 }),
      cards: fc.array(fc.constantFrom(L4, H100), { maxLength: 3 }),
      labelled: fc.boolean(),
      closed: fc.boolean(),
    })
    .map(({ vcpus, cards, labelled, closed }) =>
      machine(id, vcpus, {
        gpus: gpus(...cards),
        labels: labelled ? ["x"] : [],
        ...(closed ? { closed: "it is away" } : {}),
      }),
    );
const anyFleet = fc
  .tuple(anyMachine(""), anyMachine("a"), anyMachine("b"), anyMachine("c"))
  .map((machines) => fleet(...machines));
const anyNeed = fc
  .record({
    vcpus: fc.integer({ min: 1, max: 4 }),
    memoryGb: fc.integer({ min: 1, max: 8 }),
    gpuIds: fc.constantFrom("", "ANY", "AMPERE_24"),
    gpuPreference: fc.constantFrom([], ["ADA_80_PRO", "ANY"], ["AMPERE_24", "ANY"]),
    gpuCount: fc.constantFrom(1, 2, 0.5),
  })
  .chain((one) => fc.boolean().map((labelled): Need => (labelled ? { ...one, label: "x" } : one)));

test("Whatever is asked for, nothing of any machine is promised twice, and labels and closed machines are respected", () => {
  fc.assert(
    fc.property(anyFleet, fc.array(anyNeed, { maxLength: 30 }), (machines, needs) => {
      const taken: Share[] = [];
      for (const one of needs) {
        const placed = placeAmong(machines, taken, one);
        if ("lack" in placed) continue;
        taken.push(placed);
        const on = machines.machines!.find(({ id }) => id === (placed.host ?? ""))!;
        assert.equal(on.closed, undefined);
        if (one.label !== undefined) assert.ok(on.labels.includes(one.label));
      }
      assert.ok(allFitTogether(machines, taken));
    }),
  );
});

test("No machine with room has a better GPU than the one that was chosen", () => {
  fc.assert(
    fc.property(anyFleet, anyNeed, (machines, one) => {
      const placed = placeAmong(machines, [], one);
      if ("lack" in placed || one.gpuIds === "" || one.gpuCount > 1) return;
      const rankOf = (id: string, index: number) =>
        gpuRank(one.gpuPreference, machines.machines!.find((on) => on.id === id)!.gpus[index]!.product);
      const chosen = rankOf(placed.host ?? "", placed.gpus[0]!);
      for (const { id } of machines.machines!) {
        const there = placeAmong(machines, [], one, { only: id });
        if (!("lack" in there)) assert.ok(rankOf(id, there.gpus[0]!) >= chosen);
      }
    }),
  );
});

test("Over several machines, what fair share starts is there on one of them, with all that runs and starts beside it", () => {
  const contender = fc.record({
    need: anyNeed,
    wanted: fc.integer({ min: 0, max: 4 }),
    held: fc.integer({ min: 0, max: 4 }),
    min: fc.integer({ min: 0, max: 2 }),
    urgent: fc.boolean(),
    waitingMs: fc.integer({ min: 0, max: 100_000 }),
  });
  fc.assert(
    fc.property(anyFleet, fc.array(contender, { maxLength: 6 }), (machines, some) => {
      const taken: Share[] = [];
      const contenders = some.map((one, i): Contender => {
        const workers = Array.from({ length: one.held }, (_, n) => {
          const share = placeAmong(machines, taken, one.need);
          if ("lack" in share) return [];
          taken.push(share);
          return [{ id: `${i}-${n}`, share, idleMs: 1_000 * n, upMs: 60_000, stale: false }];
        }).flat();
        const { need: wish, wanted, urgent, waitingMs, min: workersMin } = one;
        return { id: `e${i}`, need: wish, workersMin, wanted, urgent, waitingMs, workers };
      });
      for (const move of shareRoom(machines, contenders, [])) {
        if (move.kind !== "start") continue;
        const { need: wish } = contenders.find(({ id }) => id === move.endpointId)!;
        const placed = placeAmong(machines, taken, wish, { only: move.host ?? "" });
        assert.ok(!("lack" in placed), "lack" in placed ? placed.lack : "");
        taken.push(placed);
      }
      assert.ok(allFitTogether(machines, taken));
    }),
  );
});

test("Workers make room on one machine alone, where the fewest that are busy would have to go", () => {
  const held = (id: string, host: string, idleMs: number) => {
    return { id, share: { vcpus: 1, memoryGb: 1, gpus: [], host }, idleMs, upMs: 60_000, stale: false };
  };
  const busy: Contender = {
    ...{ id: "large", need: need(), workersMin: 0, wanted: 0, urgent: false, waitingMs: 0 },
    workers: [held("a1", "a", 0), held("a2", "a", 90_000), held("b1", "b", 90_000), held("b2", "b", 90_000)],
  };
  const waits: Contender = { ...busy, id: "new", need: need({ vcpus: 2 }), wanted: 1, urgent: true, workers: [] };
  const moves = shareRoom(fleet(machine("a", 2), machine("b", 2)), [busy, waits], []);
  assert.deepEqual(moves.map((move) => (move.kind === "take" ? move.workerId : move.kind)).sort(), ["b1", "b2"]);
});
