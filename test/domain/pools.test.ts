/** What is done about pools of Pods, for all that can be wanted and be there. */
import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import type { Need } from "../../src/domain/capacity.ts";
import {
  HOST_SILENCE_MAX_MS,
  POD_AWAY_MAX_MS,
  POD_BACK_MAX_MS,
  POD_COMING_MAX_MS,
  POD_UNPLACED_MAX_MS,
  POD_YIELD_MS,
  PODS_COMING_MAX,
} from "../../src/domain/limits.ts";
import { decidePools } from "../../src/domain/pool-plan.ts";
import {
  canTake,
  HELD_FOR_ALL,
  holderOf,
  holdersFor,
  type Pool,
  type PoolHost,
  type Wish,
} from "../../src/domain/pools.ts";

const isHeldFor = (holder: string, of: Parameters<typeof holdersFor>[0]) => holdersFor(of).includes(holder);
const NEED: Need = { vcpus: 1, memoryGb: 2, gpuIds: "", gpuPreference: [], gpuCount: 1 };
const pool = (changes: Partial<Pool> = {}): Pool => ({
  ...{
    name: "a",
    vcpus: 2,
    memoryGb: 4,
    gpus: 0,
    gpuProduct: "",
    warm: 0,
    idleMs: 1_000,
    max: 10,
    trust: "environment",
    volumes: false,
  },
  ...changes,
});
const host = (pod: string, changes: Partial<PoolHost> = {}): PoolHost => ({
  ...{ pod, pool: "a", state: "here", forMs: 0, holder: "", shares: [], problems: new Map() },
  ...changes,
});
const wish = (endpointId: string, changes: Partial<Wish> = {}): Wish => ({
  ...{ endpointId, environmentId: "e1", volumes: [], image: `${endpointId}:b1`, need: NEED, missing: 1 },
  ...changes,
});
const MODELS = [{ app: "app", environment: "production", name: "models", paths: ["/volumes/models"], readOnly: true }];
const mounting = (endpointId: string, changes: Partial<Wish> = {}) =>
  wish(endpointId, { volumes: MODELS, need: { ...NEED, volumes: true }, ...changes });
const SHARE = { vcpus: 1, memoryGb: 2, gpus: [] };
const kinds = (steps: ReturnType<typeof decidePools>) =>
  steps.map((step) =>
    step.kind === "make"
      ? `make ${step.count} of ${step.pool.name}`
      : step.kind === "hold"
        ? `hold ${step.pod} for ${step.holder}`
        : `delete ${step.pod}: ${step.why}`,
  );

test("As many Pods are made as those who wait need, two workers of one vCPU on a host of two", () => {
  assert.deepEqual(kinds(decidePools([pool()], [], [wish("x", { missing: 5 })])), ["make 3 of a"]);
  assert.deepEqual(kinds(decidePools([pool()], [], [wish("x"), wish("y")])), ["make 1 of a"]);
  assert.deepEqual(kinds(decidePools([pool()], [], [wish("x"), wish("y", { environmentId: "e2" })])), ["make 2 of a"]);
  assert.deepEqual(
    kinds(decidePools([pool({ trust: "shared" })], [], [wish("x"), wish("y", { environmentId: "e2" })])),
    ["make 1 of a"],
  );
  assert.deepEqual(kinds(decidePools([pool({ trust: "endpoint" })], [], [wish("x"), wish("y")])), ["make 2 of a"]);
});

test("What is on its way counts: looking twice makes nothing twice", () => {
  const coming = [host("p1", { state: "coming" }), host("p2", { state: "coming" }), host("p3", { state: "coming" })];
  assert.deepEqual(decidePools([pool()], coming, [wish("x", { missing: 5 })]), []);
});

test("A Pod whose link is not there yet, or is away for a moment, is no reason for another", () => {
  const away = (forMs: number) => [host("p1", { state: "away", forMs })];
  assert.deepEqual(decidePools([pool()], away(0), [wish("x")]), []);
  assert.deepEqual(decidePools([pool({ warm: 1 })], away(0), []), []);
  assert.deepEqual(kinds(decidePools([pool()], away(POD_BACK_MAX_MS), [wish("x")])), ["make 1 of a"]);
});

test("No more than twenty are on their way at once, of all pools, and no pool exceeds its number", () => {
  const pools = [pool({ max: 100, warm: 50 }), pool({ name: "b", max: 100, warm: 50 })];
  const steps = decidePools(pools, [], []);
  assert.equal(
    steps.reduce((sum, step) => sum + (step.kind === "make" ? step.count : 0), 0),
    PODS_COMING_MAX,
  );
  assert.deepEqual(kinds(decidePools([pool({ max: 2 })], [], [wish("x", { missing: 50 })])), ["make 2 of a"]);
  const away = [host("p1", { state: "away" }), host("p2", { state: "leaving" })];
  assert.deepEqual(kinds(decidePools([pool({ max: 2 })], away, [wish("x", { missing: 50 })])), ["make 1 of a"]);
});

test("Pods that do not come keep those of other pools back for half a minute, and their own for good", () => {
  const pools = [pool({ max: 100, idleMs: 600_000 }), pool({ name: "b", vcpus: 8, memoryGb: 16, max: 2 })];
  const stuck = (forMs: number) =>
    Array.from({ length: PODS_COMING_MAX }, (_, n) =>
      host(`p${n}`, { state: "coming", forMs, holder: `endpoint:${n}` }),
    );
  const wishes = [wish("x", { need: { ...NEED, vcpus: 8, memoryGb: 16 } })];
  assert.deepEqual(decidePools(pools, stuck(POD_COMING_MAX_MS - 1), wishes), []);
  assert.deepEqual(kinds(decidePools(pools, stuck(POD_COMING_MAX_MS), wishes)), ["make 1 of b"]);
  const all = stuck(POD_COMING_MAX_MS).map((one) => ({ ...one, holder: "" }));
  assert.deepEqual(decidePools(pools, all, [wish("y", { missing: 2 * PODS_COMING_MAX })]), [], "they are waited for");
});

test("A Pod that was made with other settings of its pool gets nothing more, and another is made for those who wait", () => {
  const here = host("p1", { made: "otherwise" });
  const coming = host("p2", { made: "otherwise", state: "coming" });
  const changed = "what its pool is made of has changed";
  assert.deepEqual(kinds(decidePools([pool({ warm: 1 })], [here, coming], [wish("x")])), [
    "make 2 of a",
    `delete p1: ${changed}`,
    `delete p2: ${changed}`,
  ]);
  const used = { ...here, holder: "environment:e1", shares: [SHARE] };
  assert.deepEqual(kinds(decidePools([pool()], [used], [wish("x")])), ["make 1 of a"], "what runs there goes on");
  assert.deepEqual(kinds(decidePools([pool({ max: 1 })], [here], [wish("x")])), [`delete p1: ${changed}`]);
});

test("Pods of the release before are used, and go once others are there: one by one where their pool has no place for both", () => {
  const before = ["p1", "p2"].map((name) => host(name, { made: "before" }));
  const gone = "it is of the release before";
  assert.deepEqual(kinds(decidePools([pool({ warm: 2 })], before, [])), ["make 2 of a"]);
  assert.deepEqual(kinds(decidePools([pool({ warm: 2 })], before, [wish("x")])), [
    "hold p1 for environment:e1",
    "make 2 of a",
  ]);
  const next = (state: PoolHost["state"]) => ["p3", "p4"].map((name) => host(name, { state }));
  assert.deepEqual(decidePools([pool({ warm: 2 })], [...before, ...next("coming")], []), []);
  assert.deepEqual(kinds(decidePools([pool({ warm: 2 })], [...before, ...next("here")], [])), [
    `delete p1: ${gone}`,
    `delete p2: ${gone}`,
  ]);
  const all = [...before, ...next("here")];
  assert.deepEqual(kinds(decidePools([pool({ warm: 2 })], all, [wish("x")])), [
    "hold p3 for environment:e1",
    "make 1 of a",
  ]);
  assert.deepEqual(kinds(decidePools([pool({ warm: 2, max: 2 })], before, [])), [`delete p1: ${gone}`]);
  const comes = [before[1]!, host("p3", { state: "coming" })];
  assert.deepEqual(decidePools([pool({ warm: 2, max: 2 })], comes, []), [], "its image may not be there");
  const coming = host("p1", { made: "before", state: "coming" });
  assert.deepEqual(
    kinds(decidePools([pool()], [coming], [wish("x")])),
    ["make 1 of a", "delete p1: what its pool is made of has changed"],
    "its image may be what keeps it",
  );
  const held = host("p1", { made: "before", holder: "environment:e1" });
  assert.deepEqual(decidePools([pool()], [held], [wish("x")]), [], "it has the environment's code");
});

test("A host that is nobody's is held for who needs it first, and another is made warm", () => {
  const steps = decidePools([pool({ warm: 1 })], [host("p1")], [wish("x")]);
  assert.deepEqual(kinds(steps), ["hold p1 for environment:e1", "make 1 of a"]);
});

test("A host that one environment used is never another's, also when it is empty: it is deleted when it was idle", () => {
  const used = host("p1", { holder: "environment:e1" });
  assert.deepEqual(kinds(decidePools([pool()], [used], [wish("x", { environmentId: "e2" })])), ["make 1 of a"]);
  assert.deepEqual(kinds(decidePools([pool({ warm: 1 })], [{ ...used, forMs: 2_000 }], [])), [
    "make 1 of a",
    "delete p1: it was idle",
  ]);
  assert.deepEqual(decidePools([pool()], [{ ...used, forMs: 500 }], []), []);
  assert.deepEqual(decidePools([pool()], [{ ...used, forMs: 2_000 }], [wish("x")]), [], "its holder needs it again");
  assert.deepEqual(decidePools([pool()], [{ ...used, shares: [SHARE] }], []), []);
});

test("Hosts beyond the warm ones go, and a warm one stays", () => {
  const idle = [host("p1", { forMs: 2_000 }), host("p2", { forMs: 2_000 })];
  assert.deepEqual(kinds(decidePools([pool({ warm: 1 })], idle, [])), ["delete p1: more were idle than are kept warm"]);
  const shared = idle.map((one) => ({ ...one, holder: HELD_FOR_ALL }));
  assert.deepEqual(kinds(decidePools([pool({ warm: 2, trust: "shared" })], shared, [])), []);
});

test("A Pod that is still on its way goes when nobody has needed it for long, unless it is to be warm", () => {
  const coming = [host("p1", { state: "coming", forMs: 2_000 }), host("p2", { state: "coming", forMs: 500 })];
  assert.deepEqual(kinds(decidePools([pool()], coming, [])), ["delete p1: nobody needs it any more"]);
  assert.deepEqual(decidePools([pool({ warm: 2 })], coming, []), []);
  assert.deepEqual(decidePools([pool()], coming, [wish("x", { missing: 4 })]), []);
});

test("Where a pool has all its Pods, one without workers gives way to those who wait and may not use it", () => {
  const full = pool({ max: 2, idleMs: 600_000, warm: 1 });
  const idle = [
    host("p1", { holder: "environment:e1", forMs: POD_YIELD_MS + 1 }),
    host("p2", { shares: [SHARE], holder: "environment:e1" }),
  ];
  const other = wish("y", { environmentId: "e2", missing: 3 });
  assert.deepEqual(kinds(decidePools([full], idle, [other])), ["delete p1: others wait for its place"]);
  assert.deepEqual(decidePools([full], idle, []), []);
  assert.deepEqual(decidePools([full], [{ ...idle[0]!, forMs: POD_YIELD_MS }, idle[1]!], [other]), []);
  assert.deepEqual(decidePools([full], idle, [wish("x", { missing: 2 }), other]), [], "its holder needs it");
});

test("Pods that ended, that do not answer, and those of a pool that is gone are deleted", () => {
  const hosts = [
    host("p1", { state: "over" }),
    host("p2", { state: "away", forMs: POD_AWAY_MAX_MS + 1 }),
    host("p3", { state: "away", forMs: 1 }),
  ];
  assert.deepEqual(kinds(decidePools([pool()], hosts, [])), [
    "delete p1: it has ended",
    "delete p2: its agent does not answer",
  ]);
  const lost = [
    host("p4", { state: "away", forMs: HOST_SILENCE_MAX_MS + 1 }),
    host("p5", { state: "away", forMs: HOST_SILENCE_MAX_MS + 1, shares: [SHARE] }),
  ];
  const full = pool({ max: 2, warm: 0 });
  assert.deepEqual(decidePools([full], lost, []), []);
  const inTheWay = ["delete p4: its agent does not answer"];
  assert.deepEqual(
    kinds(decidePools([full], lost, [wish("x", { missing: 2 })])),
    inTheWay,
    "others wait for its place",
  );
  const gone = [host("p4", { pool: "z" }), host("p5", { pool: "z", shares: [SHARE] })];
  assert.deepEqual(kinds(decidePools([pool()], gone, [])), ["delete p4: its pool is gone"]);
});

test("No Pod is made for what would not fit on one, for volumes, for another label, or for an image that cannot be prepared", () => {
  assert.deepEqual(decidePools([pool()], [], [wish("x", { need: { ...NEED, vcpus: 4 } })]), []);
  assert.deepEqual(decidePools([pool()], [], [wish("x", { need: { ...NEED, volumes: true } })]), []);
  assert.deepEqual(decidePools([pool()], [], [wish("x", { need: { ...NEED, label: "platform" } })]), []);
  assert.ok(canTake(pool(), { ...NEED, label: "platform,a" }), "a pool's name is a label of its hosts");
  const broken = host("p1", { holder: "environment:e1", problems: new Map([["x:b1", "pip failed"]]) });
  assert.deepEqual(decidePools([pool()], [broken], [wish("x", { missing: 9 })]), []);
});

test("An endpoint with volumes gets Pods that are made with them, and nobody else's workers run there", () => {
  const one = pool({ volumes: true, trust: "shared" });
  const holder = holderOf("shared", mounting("x"));
  const warm = host("p1", { holder: HELD_FOR_ALL });
  const steps = decidePools([one], [warm, host("p2")], [mounting("x", { missing: 2 }), mounting("y"), wish("z")]);
  assert.deepEqual(
    steps.filter(({ kind }) => kind === "make"),
    [
      { kind: "make", pool: one, count: 1, having: { holder, volumes: MODELS } },
      { kind: "make", pool: one, count: 1, having: { holder: holderOf("shared", mounting("y")), volumes: MODELS } },
    ],
  );
  const made = host("p3", { state: "coming", holder });
  assert.deepEqual(decidePools([one], [made], [mounting("x", { missing: 2 })]), [], "it is on its way");
  const others = [
    mounting("y"),
    wish("x"),
    wish("y"),
    mounting("x", { volumes: [{ ...MODELS[0]!, readOnly: false }] }),
  ];
  for (const other of others) assert.ok(!isHeldFor(holder, other), JSON.stringify(other));
  assert.ok(isHeldFor(holder, mounting("x")) && !isHeldFor(HELD_FOR_ALL, mounting("x")));
  assert.deepEqual(kinds(decidePools([one], [host("p3", { holder, forMs: 2_000 })], [])), ["delete p3: it was idle"]);
});

test("GPUs are asked for where they are, whole and in parts", () => {
  const l4 = pool({ name: "gpu", gpus: 2, gpuProduct: "NVIDIA L4", vcpus: 8, memoryGb: 32 });
  const need = { ...NEED, gpuIds: "AMPERE_24", gpuCount: 1, ofGpus: true };
  assert.deepEqual(kinds(decidePools([pool(), l4], [], [wish("x", { need, missing: 3 })])), ["make 2 of gpu"]);
  const half = { ...need, gpuCount: 0.5, vcpus: 1, memoryGb: 1, ofGpus: false };
  assert.deepEqual(kinds(decidePools([pool(), l4], [], [wish("x", { need: half, missing: 4 })])), ["make 1 of gpu"]);
  assert.deepEqual(decidePools([l4], [], [wish("x", { need: { ...need, gpuIds: "HOPPER_141" } })]), []);
});

test("Those who can have no Pod keep nobody else from one, however many they are", () => {
  const tooLarge = Array.from({ length: 500 }, (_, n) => wish(`large${n}`, { need: { ...NEED, vcpus: 64 } }));
  assert.deepEqual(kinds(decidePools([pool()], [], [...tooLarge, wish("x")])), ["make 1 of a"]);
});

test("Whatever is wanted and there: nobody gets a host of another, no pool has too many, and nothing that works is deleted", () => {
  const states = fc.constantFrom("coming", "here", "away", "leaving", "over");
  const withVolumes = holderOf("endpoint", mounting("x"));
  const holders = fc.constantFrom("", "environment:e1", "environment:e2", "endpoint:x", withVolumes);
  const arbitraryHost = fc.record({
    state: states,
    holder: holders,
    n: fc.integer({ min: 0, max: 2 }),
    forMs: fc.integer({ min: 0, max: 100_000 }),
  });
  const arbitraryWish = fc.record({
    endpointId: fc.constantFrom("x", "y", "z"),
    environmentId: fc.constantFrom("e1", "e2", null),
    missing: fc.integer({ min: 0, max: 30 }),
    mounts: fc.boolean(),
  });
  const settings = fc.record({
    warm: fc.integer({ min: 0, max: 5 }),
    max: fc.integer({ min: 0, max: 12 }),
    trust: fc.constantFrom("environment" as const, "endpoint" as const),
  });
  fc.assert(
    fc.property(
      fc.array(arbitraryHost, { maxLength: 12 }),
      fc.array(arbitraryWish, { maxLength: 5 }),
      settings,
      (some, wants, set) => {
        const hosts = some.map(({ state, holder, n, forMs }, i) => {
          const isNew = (state === "coming" && holder !== withVolumes) || holder === "";
          return host(`p${i}`, {
            state,
            forMs,
            holder: isNew ? "" : holder,
            shares: isNew ? [] : Array(n).fill(SHARE),
          });
        });
        const wishes = wants.map(({ endpointId, environmentId, missing, mounts }) =>
          (mounts ? mounting : wish)(endpointId, { environmentId, missing }),
        );
        const steps = decidePools([pool({ ...set, volumes: true })], hosts, wishes);
        const there = hosts.filter(({ state }) => state === "here" || state === "coming" || state === "away").length;
        const made = steps.reduce((sum, step) => sum + (step.kind === "make" ? step.count : 0), 0);
        assert.ok(made === 0 || there + made <= set.max, `${there} and ${made}`);
        for (const step of steps) {
          if (step.kind === "make") continue;
          const found = hosts.find(({ pod }) => pod === step.pod)!;
          if (step.kind === "hold") {
            assert.deepEqual([found.state, found.holder], ["here", ""]);
            const its = wishes.find((one) => holderOf(set.trust, one) === step.holder && isHeldFor(step.holder, one));
            assert.deepEqual(its?.volumes, []);
          } else if (found.state === "here" || found.state === "coming") assert.equal(found.shares.length, 0);
        }
        const told = steps.flatMap((step) => (step.kind === "make" ? [] : [step.pod]));
        assert.equal(new Set(told).size, told.length, "one thing at a time is done to a Pod");
      },
    ),
  );
});

const OWN = "example.org/own:1";

test("An endpoint with an image of its own gets a Pod of one worker's size, which is never another's and no host Pod stands in for", () => {
  const [step, ...more] = decidePools([pool({ warm: 1 })], [host("p1")], [wish("x", { ownImage: OWN })]);
  assert.deepEqual(more, []);
  assert.ok(step?.kind === "make" && step.having?.own);
  const { holder, own } = step.having;
  assert.deepEqual([own.image, own.machine.vcpus, own.machine.memoryGb, own.machine.gpus], [OWN, 1, 2, []]);
  const coming = host("p2", { state: "coming", holder, machine: own.machine });
  assert.deepEqual(decidePools([pool()], [coming], [wish("x", { ownImage: OWN })]), []);
  for (const other of [
    wish("y", { ownImage: OWN }),
    wish("x", { ownImage: "example.org/own:2" }),
    wish("x"),
    wish("y"),
  ])
    assert.equal(isHeldFor(holder, other), false, JSON.stringify(other));
  assert.equal(isHeldFor(holder, wish("x", { ownImage: OWN })), true);
  for (const trust of ["environment", "endpoint", "shared"] as const)
    assert.equal(isHeldFor(holderOf(trust, wish("x")), wish("x", { ownImage: OWN })), false, trust);
  const full = host("p2", { holder, machine: own.machine, shares: [SHARE] });
  assert.deepEqual(kinds(decidePools([pool()], [full], [wish("x", { ownImage: OWN })])), ["make 1 of a"]);
  const idle = host("p2", { holder, machine: own.machine, forMs: 2_000 });
  assert.deepEqual(kinds(decidePools([pool()], [idle], [])), ["delete p2: it was idle"]);
});

test("A Pod that cannot come, and that nobody needs any more, gives its place to those who wait", () => {
  const stuck = host("p1", { state: "coming", holder: "image:x:1", forMs: POD_YIELD_MS + 1 });
  const steps = decidePools([pool({ max: 1, idleMs: 600_000 })], [stuck], [wish("x", { ownImage: OWN })]);
  assert.deepEqual(kinds(steps), ["delete p1: others wait for its place"]);
});

test("Where the scheduler finds no node for a Pod that is waited for, an idle one gives way on each node, one after the other", () => {
  const volumes = pool({ volumes: true, idleMs: 600_000, warm: 2 });
  const unplaced = (forMs: number, ...yielded: string[]) => {
    const holder = holderOf("endpoint", mounting("x"));
    return host("p0", { state: "coming", holder, forMs, unplaced: { forMs, yielded } });
  };
  const long = POD_YIELD_MS + 1;
  const idle = [1, 2].map((n) => host(`p${n}`, { node: `n${n}`, forMs: long }));
  const decided = (first: PoolHost, some = idle, wishes = [mounting("x")]) =>
    kinds(decidePools([volumes], [first, ...some], wishes));
  assert.deepEqual(decided(unplaced(POD_YIELD_MS)), [], "it may be that it finds one");
  const [given] = decidePools([volumes], [unplaced(long), ...idle], [mounting("x")]);
  assert.deepEqual(given, { kind: "delete", pod: "p1", why: "p0 has no node", for: "p0" });
  assert.deepEqual(decided(unplaced(0, "n1"), idle.slice(1)), [], "none is made in its place, which it would take");
  assert.deepEqual(decided(unplaced(long, "n1"), idle.slice(1)), ["delete p2: p0 has no node"]);
  assert.deepEqual(decided(unplaced(long, "n1", "n2"), idle), [], "on each node once");
  assert.deepEqual(decided(unplaced(POD_UNPLACED_MAX_MS, "n1", "n2"), []), ["make 2 of a"], "others need them");
  const busy = [host("p1", { node: "n1", shares: [SHARE] }), host("p2", { node: "n2", forMs: POD_YIELD_MS })];
  const cold = pool({ ...volumes, warm: 0 });
  assert.deepEqual(kinds(decidePools([cold], [unplaced(long), ...busy], [mounting("x")])), []);
  const other = host("p3", { pool: "b", node: "n1", forMs: long });
  assert.deepEqual(
    kinds(decidePools([cold, pool({ ...cold, name: "b", warm: 1 })], [unplaced(long), other], [mounting("x")])),
    [],
  );
});

test("With whole GPUs an own image has as many as one worker, and a fraction is one of them", () => {
  const gpus = pool({ vcpus: 16, memoryGb: 64, gpus: 4, gpuProduct: "NVIDIA L4" });
  for (const [gpuCount, wanted] of [
    [2, 2],
    [0.5, 1],
  ] as const) {
    const need = { ...NEED, gpuIds: "ANY", gpuCount };
    const [step] = decidePools([gpus], [], [wish("x", { ownImage: OWN, need })]);
    assert.ok(step?.kind === "make");
    assert.equal(step.having?.own?.machine.gpus.length, wanted);
  }
});
