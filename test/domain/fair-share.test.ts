import assert from "node:assert/strict";
import { test } from "node:test";
import fc from "fast-check";
import { fitsTogether, type Machine, type Need, place, type Share } from "../../src/domain/capacity.ts";
import { type Contender, canBeServed, type HeldWorker, type Move, shareRoom } from "../../src/domain/fair-share.ts";
import { FAIR_LAST_IDLE_MS, FAIR_TURN_MS } from "../../src/domain/limits.ts";

const host = { vcpus: 4, memoryGb: 1000 };
const FOUR: Machine = { ...host, hardware: host, gpus: [], emulatesGpu: false };
const need = (vcpus = 1): Need => ({ vcpus, memoryGb: 1, gpuIds: "", gpuPreference: [], gpuCount: 1 });
const of = (vcpus = 1): Share => ({ vcpus, memoryGb: 1, gpus: [] });
const IDLE = { idleMs: 1_000 };

function worker(id: string, changes: Partial<HeldWorker> = {}): HeldWorker {
  return { id, share: of(), idleMs: 0, upMs: 60_000, stale: false, ...changes };
}
function workers(id: string, count: number, changes: Partial<HeldWorker> = {}): HeldWorker[] {
  return Array.from({ length: count }, (_, i) => worker(`${id}${i}`, changes));
}
function endpoint(id: string, changes: Partial<Contender> = {}): Contender {
  const { wanted = 0 } = changes;
  return { id, need: need(), workersMin: 0, wanted, urgent: wanted > 0, waitingMs: 0, workers: [], ...changes };
}
/** "start a" | "take b0 for a" */
const words = (moves: readonly Move[]) =>
  moves.map((move) =>
    move.kind === "start" ? `start ${move.endpointId}` : `take ${move.workerId} for ${move.forEndpoint}`,
  );
const share = (contenders: Contender[], leaving: Share[] = [], machine = FOUR) =>
  words(shareRoom(machine, contenders, leaving));

test("Where there is room, everybody starts what it wants", () => {
  assert.deepEqual(share([endpoint("a", { wanted: 2 }), endpoint("b", { wanted: 1 })]), [
    "start a",
    "start b",
    "start a",
  ]);
});

test("Free room goes round: to whoever holds least, and among equals to who waits longest", () => {
  const holds = endpoint("a", { wanted: 9, workers: workers("a", 1), waitingMs: 900 });
  assert.deepEqual(
    share([holds, endpoint("b", { wanted: 9, waitingMs: 1 }), endpoint("c", { wanted: 9, waitingMs: 2 })]),
    ["start c", "start b", "start a"],
  );
});

test("workersMin comes first, and what it holds is never taken", () => {
  const rich = endpoint("rich", { workers: workers("r", 3, IDLE), workersMin: 3 });
  const poor = endpoint("poor", { wanted: 4, waitingMs: 99_000 });
  const minimum = endpoint("min", { wanted: 1, workersMin: 1, workers: [] });
  assert.deepEqual(share([rich, poor, minimum]), ["start min"]);
});

test("Below workersMin, even a busy worker of an endpoint above its own minimum makes room", () => {
  const busy = endpoint("busy", { workers: workers("b", 4), workersMin: 3 });
  assert.deepEqual(share([busy, endpoint("min", { wanted: 1, workersMin: 1 })]), ["take b0 for min"]);
});

test("An idle worker makes room at once: that of the largest holder, the one idle longest", () => {
  const large = endpoint("large", { workers: [worker("l0"), worker("l1", { idleMs: 30 }), worker("l2", IDLE)] });
  const small = endpoint("small", { workers: [worker("s0", { idleMs: 90_000 })] });
  assert.deepEqual(share([large, small, endpoint("new", { wanted: 1 })]), ["take l2 for new"]);
});

test("The only worker of an endpoint is left to it for a while when the other has some", () => {
  const only = (idleMs: number) => endpoint("only", { workers: [worker("o0", { idleMs })] });
  const greedy = endpoint("greedy", { wanted: 1, workers: workers("g", 3) });
  assert.deepEqual(share([only(FAIR_LAST_IDLE_MS - 1), greedy]), []);
  assert.deepEqual(share([only(FAIR_LAST_IDLE_MS), greedy]), ["take o0 for greedy"]);
});

test("A worker is not idle while its endpoint has work that waits", () => {
  const between = endpoint("between", { wanted: 1, workers: [worker("b0", IDLE), worker("b1", IDLE)] });
  const even = endpoint("even", { wanted: 1, workers: workers("e", 2, IDLE) });
  assert.deepEqual(share([between, even]), []);
});

test("Endpoints that are always busy end up with equal shares: a worker of the larger finishes its work and goes", () => {
  const a = endpoint("a", { wanted: 9, workers: workers("a", 4) });
  assert.deepEqual(share([a, endpoint("b", { wanted: 9 })]), ["take a0 for b", "take a1 for b"]);
  const three = endpoint("a", { wanted: 9, workers: workers("a", 3) });
  const one = endpoint("b", { wanted: 9, workers: workers("b", 1) });
  assert.deepEqual(share([three, one]), ["take a0 for b"]);
  assert.deepEqual(
    share([
      endpoint("a", { wanted: 9, workers: workers("a", 2) }),
      endpoint("b", { wanted: 9, workers: workers("b", 2) }),
    ]),
    [],
  );
});

test("Room that is on its way counts: nobody is taken twice for the same", () => {
  const a = endpoint("a", { wanted: 9, workers: workers("a", 2) });
  assert.deepEqual(share([a, endpoint("b", { wanted: 2 })], [of(), of()]), []);
});

test("Nobody starts into room that another has waited for", () => {
  const large = endpoint("large", { need: need(3), wanted: 1, waitingMs: 5_000 });
  const small = endpoint("small", { wanted: 1 });
  const holds = endpoint("holds", { workers: workers("h", 1) });
  assert.deepEqual(share([large, small, holds], [of(2)]), [], "one vCPU is free, and large needs it");
});

test("One place for two that never rest: they take turns", () => {
  const one: Machine = { ...FOUR, vcpus: 1 };
  const holder = (upMs: number) => endpoint("a", { wanted: 1, workers: [worker("a0", { upMs })] });
  const waits = (waitingMs: number) => endpoint("b", { wanted: 1, waitingMs });
  assert.deepEqual(share([holder(60_000), waits(FAIR_TURN_MS - 1)], [], one), []);
  assert.deepEqual(share([holder(FAIR_TURN_MS - 1), waits(60_000)], [], one), []);
  assert.deepEqual(share([holder(FAIR_TURN_MS), waits(FAIR_TURN_MS)], [], one), ["take a0 for b"]);
});

test("When the turn of a large one has come, small ones do not nibble at the room that gathers for it", () => {
  const holds = endpoint("holds", { wanted: 1, workers: workers("h", 3, { upMs: 1_000 }) });
  const large = (waitingMs: number) => endpoint("large", { need: need(4), wanted: 1, waitingMs });
  const small = endpoint("small", { wanted: 1 });
  assert.deepEqual(share([holds, large(FAIR_TURN_MS - 1), small]), ["start small"]);
  assert.deepEqual(share([holds, large(FAIR_TURN_MS), small]), []);
});

test("What is not urgent takes free room only", () => {
  const idle = endpoint("idle", { workers: workers("i", 4, IDLE) });
  assert.deepEqual(share([idle, endpoint("ahead", { wanted: 1, urgent: false })]), []);
});

test("On a full machine a new revision replaces a worker of its own earlier one", () => {
  const workersMin = 2;
  const rolls = endpoint("rolls", { workersMin, wanted: 1, workers: workers("old", 2, { stale: true, idleMs: 50 }) });
  const other = endpoint("other", { workers: workers("o", 2) });
  assert.deepEqual(share([rolls, other]), ["take old0 for rolls"]);
});

test("As few workers as possible make room, and none for what would never fit", () => {
  const holds = endpoint("holds", {
    workers: [worker("h0", IDLE), worker("h1", { ...IDLE, share: of(3), idleMs: 900 })],
  });
  assert.deepEqual(share([holds, endpoint("new", { need: need(3), wanted: 1 })]), ["take h1 for new"]);
  assert.deepEqual(share([holds, endpoint("new", { need: need(5), wanted: 1 })]), []);
});

test("It is known who waits in vain: for what the machine lacks, or what others are guaranteed", () => {
  const guaranteed = endpoint("guaranteed", { workersMin: 4, workers: workers("g", 4) });
  const busy = endpoint("busy", { workers: workers("b", 4, { upMs: 0 }) });
  const waits = (vcpus: number) => endpoint("waits", { need: need(vcpus), wanted: 1 });
  assert.equal(canBeServed(FOUR, [guaranteed, waits(1)], "waits"), false);
  assert.equal(canBeServed(FOUR, [busy, waits(5)], "waits"), false);
  assert.equal(canBeServed(FOUR, [busy, waits(4)], "waits"), true);
});

test("A GPU is made free by whoever has it, not by those that have none", () => {
  const machine: Machine = { ...FOUR, gpus: [{ product: "NVIDIA L4", emulated: false }] };
  const gpuNeed = { ...need(), gpuIds: "ANY" };
  const cpu = endpoint("cpu", { workers: workers("c", 2, { idleMs: 9_000 }) });
  const gpu = endpoint("gpu", { need: gpuNeed, workers: [worker("g0", { ...IDLE, share: { ...of(), gpus: [0] } })] });
  const moves = share([cpu, gpu, endpoint("new", { need: gpuNeed, wanted: 1 })], [], machine);
  assert.deepEqual(moves, ["take g0 for new"]);
});

const contenders = fc
  .array(
    fc.record({
      vcpus: fc.integer({ min: 1, max: 3 }),
      workersMin: fc.nat(2),
      wanted: fc.nat(4),
      urgent: fc.boolean(),
      waitingMs: fc.nat(60_000),
      workers: fc.array(fc.record({ idleMs: fc.nat(10_000), upMs: fc.nat(60_000), stale: fc.boolean() }), {
        maxLength: 5,
      }),
    }),
    { minLength: 1, maxLength: 6 },
  )
  .map((all) =>
    all.map(({ vcpus, workers: held, ...rest }, index): Contender => {
      const id = `e${index}`;
      const its = held.map((one, i) => ({ ...one, id: `${id}-${i}`, share: of(vcpus) }));
      return { ...rest, id, need: need(vcpus), workers: its };
    }),
  );

test("Whatever the machine is like: no start without room, no minimum broken, nothing taken for nobody", () => {
  fc.assert(
    fc.property(contenders, fc.nat(6), fc.nat(8), (all, leavingCount, spare) => {
      const leaving = Array.from({ length: leavingCount }, () => of());
      const shares = [...all.flatMap((one) => one.workers.map((held) => held.share)), ...leaving];
      const machine = { ...FOUR, vcpus: Math.max(1, shares.reduce((sum, one) => sum + one.vcpus, 0) + spare - 3) };
      const moves = shareRoom(machine, all, leaving);
      const started = moves
        .filter((move) => move.kind === "start")
        .map((move) => all.find((one) => one.id === move.endpointId)!);
      if (started.length > 0) {
        assert.ok(fitsTogether(machine, [...shares, ...started.map((one) => of(one.need.vcpus))]));
      }
      const takes = moves.filter((move) => move.kind === "take");
      assert.equal(new Set(takes.map((move) => move.workerId)).size, takes.length, "a worker is taken once");
      for (const one of all) {
        const gone = takes.filter((move) => move.endpointId === one.id && move.forEndpoint !== one.id).length;
        assert.ok(gone === 0 || one.workers.length - gone >= one.workersMin, "the minimum stays");
        assert.ok(started.filter((other) => other === one).length <= one.wanted);
      }
      for (const move of takes) {
        const waiting = all.find((one) => one.id === move.forEndpoint)!;
        assert.ok(waiting.wanted > 0 && waiting.urgent);
      }
      const wantsSome = all.some((one) => one.wanted > 0 && !("lack" in place(machine, shares, one.need)));
      const nothingLeaves =
        leavingCount === 0 && takes.length === 0 && !all.some((one) => one.urgent && one.waitingMs >= FAIR_TURN_MS);
      if (wantsSome && nothingLeaves) assert.ok(started.length > 0, "room that somebody wants is not left empty");
    }),
    { numRuns: 500 },
  );
});

/** Endpoints that always have work, over time: each job takes `jobMs`, then its worker goes if it was taken. */
function live(
  machine: Machine,
  sides: readonly { vcpus: number; workersMin: number; wanted: number }[],
  jobMs: number,
  untilMs: number,
) {
  const STEP_MS = 500;
  let held = sides.map(() => [] as { id: string; share: Share; since: number; leaves: boolean }[]);
  const waitsSince = sides.map(() => 0);
  const longestWait = sides.map(() => 0);
  let ids = 0;
  for (let now = 0; now < untilMs; now += STEP_MS) {
    held = held.map((own) => own.filter((one) => !(one.leaves && (now - one.since) % jobMs < STEP_MS)));
    const all = sides.map((side, index): Contender => {
      const own = held[index]!.filter((one) => !one.leaves);
      if (own.length > 0) waitsSince[index] = now;
      longestWait[index] = Math.max(longestWait[index]!, now - waitsSince[index]!);
      return {
        id: String(index),
        need: need(side.vcpus),
        workersMin: side.workersMin,
        wanted: Math.max(0, side.wanted - own.length),
        urgent: true,
        waitingMs: now - waitsSince[index]!,
        workers: own.map((one) => worker(one.id, { share: one.share, upMs: now - one.since })),
      };
    });
    const leaving = held
      .flat()
      .filter((one) => one.leaves)
      .map((one) => one.share);
    for (const move of shareRoom(machine, all, leaving)) {
      const own = held[Number(move.endpointId)]!;
      if (move.kind === "start") {
        own.push({ id: `w${ids++}`, share: of(sides[Number(move.endpointId)]!.vcpus), since: now, leaves: false });
      } else own.find((one) => one.id === move.workerId)!.leaves = true;
    }
    assert.ok(
      fitsTogether(
        machine,
        held.flat().map((one) => one.share),
      ),
    );
  }
  return { held, longestWait };
}

test("Nobody starves: among endpoints that never rest, each that fits gets its turn in bounded time", () => {
  const sides = fc.array(fc.record({ vcpus: fc.integer({ min: 1, max: 4 }), wanted: fc.integer({ min: 1, max: 6 }) }), {
    minLength: 2,
    maxLength: 6,
  });
  fc.assert(
    fc.property(sides, fc.integer({ min: 4, max: 8 }), fc.constantFrom(500, 3_000, 10_000), (all, vcpus, jobMs) => {
      const given = all.map((side) => ({ ...side, workersMin: 0 }));
      const { longestWait } = live({ ...FOUR, vcpus }, given, jobMs, 400_000);
      const bound = (all.length + 1) * 2 * (FAIR_TURN_MS + jobMs);
      assert.ok(Math.max(...longestWait) <= bound, `waited ${Math.max(...longestWait)} ms`);
    }),
    { numRuns: 60 },
  );
});

test("The minimum of every endpoint is there soon and stays, whatever the others want", () => {
  const sides = fc.array(fc.record({ workersMin: fc.nat(2), wanted: fc.integer({ min: 2, max: 9 }) }), {
    minLength: 2,
    maxLength: 4,
  });
  fc.assert(
    fc.property(sides, (all) => {
      const { held } = live(
        { ...FOUR, vcpus: 8 },
        all.map((side) => ({ ...side, vcpus: 1 })),
        1_000,
        30_000,
      );
      for (const [index, side] of all.entries()) {
        const own = held[index]!.filter((one) => !one.leaves);
        assert.ok(own.length >= side.workersMin);
      }
    }),
    { numRuns: 60 },
  );
});

test("Equal endpoints that never rest hold equal shares, and then nothing moves any more", () => {
  const sides = Array.from({ length: 3 }, () => ({ vcpus: 1, workersMin: 0, wanted: 9 }));
  const { held } = live({ ...FOUR, vcpus: 9 }, sides, 1_000, 120_000);
  assert.deepEqual(
    held.map((own) => own.length),
    [3, 3, 3],
  );
  const ids = (all: typeof held) =>
    all
      .flat()
      .map((one) => one.id)
      .join();
  assert.equal(ids(held), ids(live({ ...FOUR, vcpus: 9 }, sides, 1_000, 240_000).held));
});
