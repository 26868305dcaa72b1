/** The loop around `decide`, with an endpoint, a queue and clocks that the test holds. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { setImmediate as turn } from "node:timers/promises";
import { Autoscaler } from "../../src/autoscaler/autoscaler.ts";
import { AUTOSCALER_READS_AT_ONCE } from "../../src/domain/limits.ts";
import type { Decision } from "../../src/domain/worker.ts";
import type { JobReader, JobUpkeep } from "../../src/queue/queue.ts";
import type { Endpoint, Store } from "../../src/store/store.ts";
import { newEndpoint } from "../conformance/store.ts";

function loop(changes: { inQueue?: number; mayStart?: boolean; others?: readonly Endpoint[] } = {}) {
  const endpoint = newEndpoint(null, { workersMax: 2 });
  const all = [...(changes.others ?? []), endpoint];
  const found = new Map<string, Endpoint>(all.map((each) => [each.id, each]));
  const counts = { inQueue: changes.inQueue ?? 1, inQueueLowPriority: 0, inProgressLowPriority: 0, oldestQueuedAt: 0 };
  const others = new Set<string>();
  const proof = { isDue: false, isRefused: false };
  const applied: Decision[] = [];
  const errors: unknown[] = [];
  let looks = 0;
  const looked: string[] = [];
  const reads = { now: 0, most: 0, fails: 0 };
  const listByEndpoint = async () => {
    reads.most = Math.max(reads.most, ++reads.now);
    await turn();
    reads.now--;
    if (reads.fails-- > 0) throw new Error("the database is away");
    return [];
  };
  let applying: Promise<void> = Promise.resolve();
  const queue = {
    counts: async (id: string) => {
      looks += 1;
      return id === endpoint.id ? counts : { ...counts, inQueue: 0 };
    },
    endpointIds: async () => all.slice(1).map(({ id }) => id),
  };
  const autoscaler = new Autoscaler({
    store: {
      workers: { listByEndpoint, list: async () => [] },
      endpoints: { listBriefly: async () => all },
    } as unknown as Store,
    endpoints: {
      find: (id) => {
        looked.push(id);
        return found.get(id);
      },
    },
    isMine: (id) => !others.has(id),
    queue: queue as unknown as JobReader & JobUpkeep,
    sampleLink: () => ({ waitingRequests: 0, running: 0, averageExecMs: undefined, workers: [] }),
    mayStart: () => changes.mayStart ?? true,
    mustProve: () => proof.isDue,
    isRefused: () => proof.isRefused,
    apply: async (_endpoint, decision) => {
      applied.push(decision);
      await applying;
    },
    clock: () => -1_000, // Set back since the oldest job came.
    now: () => 0,
    onError: (error) => errors.push(error),
  });
  const settled = async () => {
    for (let n = 0; n < 10; n++) await turn();
  };
  const hold = () => {
    const held = Promise.withResolvers<void>();
    applying = held.promise;
    return held.resolve;
  };
  return {
    autoscaler,
    endpoint,
    others,
    proof,
    found,
    applied,
    errors,
    settled,
    hold,
    looked,
    reads,
    looks: () => looks,
  };
}

test("A job that waits brings one look and one worker, also after the clock was set back", async () => {
  const { autoscaler, endpoint, applied, settled } = loop();
  autoscaler.wake(endpoint.id);
  await settled();
  assert.deepEqual(
    applied.map(({ start, urgent }) => [start, urgent]),
    [[1, true]],
  );
});

test("Looks at one endpoint never overlap: however often it is woken meanwhile, one more follows", async () => {
  const { autoscaler, endpoint, applied, settled, hold, looks } = loop();
  const go = hold();
  autoscaler.wake(endpoint.id);
  await settled();
  for (const _ of [1, 2, 3]) autoscaler.wake(endpoint.id);
  await settled();
  assert.deepEqual([looks(), applied.length], [1, 1]);
  go();
  await settled();
  assert.equal(looks(), 2);
});

test("Nothing is started while it must not be, and what is gone is not looked at", async () => {
  const { autoscaler, endpoint, found, applied, errors, settled, looks } = loop({ mayStart: false });
  autoscaler.wake(endpoint.id);
  await settled();
  assert.deepEqual(
    applied.map(({ start }) => start),
    [0],
  );
  found.delete(endpoint.id);
  autoscaler.wake(endpoint.id);
  await settled();
  assert.deepEqual([looks(), errors], [1, []]);
});

test("A revision that must show that it starts is looked at again when its start was refused, and not for ever when it failed", async () => {
  const { autoscaler, endpoint, proof, applied, settled } = loop({ inQueue: 0 });
  Object.assign(proof, { isDue: true, isRefused: true });
  autoscaler.wake(endpoint.id);
  await settled();
  assert.deepEqual([applied.map(({ start }) => start), autoscaler.awake.has(endpoint.id)], [[1], true]);
  proof.isRefused = false;
  autoscaler.wake(endpoint.id);
  await settled();
  assert.equal(autoscaler.awake.has(endpoint.id), false);
});

test("A platform that starts looks at endpoints that want workers or have jobs, and at none that nobody calls", async (t) => {
  const idle = Array.from({ length: 100 }, () => newEndpoint(null, { workersMax: 1 }));
  const wanted = newEndpoint(null, { workersMin: 1 });
  const { autoscaler, endpoint, settled, looked } = loop({ inQueue: 1, others: [...idle, wanted] });
  t.after(() => autoscaler.stop());
  await autoscaler.start();
  await settled();
  assert.deepEqual(new Set(looked), new Set([endpoint, wanted].map(({ id }) => id)));
});

test("Endpoints that another platform has are not looked at, and nothing is decided for one that moved there meanwhile", async (t) => {
  const there = newEndpoint(null, { workersMin: 1 });
  const { autoscaler, endpoint, others, applied, settled, looked } = loop({ others: [there] });
  t.after(() => autoscaler.stop());
  others.add(there.id);
  await autoscaler.start();
  autoscaler.wake(there.id);
  await settled();
  assert.deepEqual([looked, applied.length], [[endpoint.id], 1]);

  const { length } = applied;
  autoscaler.wake(endpoint.id);
  others.add(endpoint.id);
  await settled();
  assert.deepEqual([applied.length, autoscaler.awake], [length, new Set()]);
  others.delete(there.id);
  await autoscaler.lookAtAll();
  await settled();
  assert.equal(looked.at(-1), there.id);
});

test("One that was stopped starts nothing, whoever wakes it, and does not finish a look", async () => {
  const { autoscaler, endpoint, applied, settled } = loop();
  autoscaler.wake(endpoint.id);
  autoscaler.stop();
  autoscaler.wake(endpoint.id);
  await settled();
  assert.deepEqual(applied, []);
});

test("Thousands that are looked at together read the store a few at a time, and reads that fail hold up no others", async (t) => {
  const others = Array.from({ length: 2_000 }, () => newEndpoint(null, { workersMin: 1, workersMax: 1 }));
  const { autoscaler, errors, reads, settled, looks } = loop({ others });
  t.after(() => autoscaler.stop());
  reads.fails = 10;
  await autoscaler.lookAtAll();
  while (looks() < 2 * others.length + 1 - errors.length) await settled();
  assert.deepEqual([reads.most, errors.length], [AUTOSCALER_READS_AT_ONCE, 10]);
});
