/** The route of a gateway's questions: to whoever has the jobs, again to the next where that has moved, and held in between. */
import assert from "node:assert/strict";
import { test } from "node:test";
import { SvcError } from "../../src/domain/errors.ts";
import { REPLICA_HELD_MAX } from "../../src/domain/limits.ts";
import { Departure, type LoadBalancedRequest } from "../../src/domain/request.ts";
import type { Backing } from "../../src/gateway-link/backing.ts";
import { Route } from "../../src/gateway-link/route.ts";
import { routedDeps } from "../../src/gateway-link/routed-deps.ts";
import type { CallerJobs, Job, NewJob } from "../../src/queue/queue.ts";

const MOVED = () => new SvcError("MOVED", "elsewhere");
const JOB = { id: "j-1", endpointId: "e-1" } as NewJob;

function backing(queue: Partial<CallerJobs>, others: Partial<Backing> = {}): Backing {
  return { queue, ...others } as Backing;
}

function job(state: Job["state"]): Job {
  return { id: "j-1", state } as Job;
}

test("What is known at once is answered at once, and an error that is none of a move is the caller's", async () => {
  const route = new Route();
  route.set(backing({}, { endpoints: { find: () => undefined } }));
  assert.equal(routedDeps(route, false).endpoints.find("e-1"), undefined);
  const refuses = () => {
    throw new SvcError("QUEUE_FULL", "full");
  };
  await assert.rejects(async () => route.ask(refuses), { code: "QUEUE_FULL" });
});

test("A job whose owner is gone is sent to the next under its id, and is new to its caller though it is there", async () => {
  const route = new Route();
  const sent: NewJob[] = [];
  const first = backing({
    enqueue: async () => {
      route.set(undefined);
      throw MOVED();
    },
  });
  route.set(first);
  const submitted = routedDeps(route, false).queue.enqueue(JOB);
  const second = backing({
    enqueue: async (given) => {
      sent.push(given);
      return { id: given.id, created: false };
    },
  });
  setImmediate(() => route.set(second));
  assert.deepEqual(await submitted, { id: "j-1", created: true });
  assert.deepEqual(sent, [{ ...JOB, isSentAgain: true }]);
});

test("Who waits for a job goes on waiting at the next, also when the one that closed answered with the job as it was", async () => {
  const route = new Route();
  const second = backing({ wait: async () => job("COMPLETED") });
  const first = backing({
    wait: async () => {
      route.set(second);
      return job("IN_PROGRESS");
    },
  });
  route.set(first);
  assert.equal((await routedDeps(route, false).queue.wait("j-1", 60_000))?.state, "COMPLETED");
  route.set(backing({ wait: async () => job("IN_PROGRESS") }));
  assert.equal((await routedDeps(route, false).queue.wait("j-1", 60_000))?.state, "IN_PROGRESS", "it has not moved");
});

test("A retry whose answer was lost is one: it is asked for again, and found to be done", async () => {
  const route = new Route();
  const failed = (state: Job["state"]) => backing({ retry: async () => false, find: async () => job(state) });
  const loses = (next: Backing) =>
    backing({
      retry: async () => {
        route.set(next);
        throw MOVED();
      },
    });
  for (const [state, isRetried] of [
    ["IN_QUEUE", true],
    ["IN_PROGRESS", true],
    ["COMPLETED", false],
  ] as const) {
    route.set(loses(failed(state)));
    assert.equal(await routedDeps(route, false).queue.retry("j-1"), isRetried, state);
  }
  route.set(failed("IN_PROGRESS"));
  assert.equal(await routedDeps(route, false).queue.retry("j-1"), false, "it is none of this caller's");
});

test("A request goes again while no worker had it, and where a second time does no harm", async () => {
  for (const [method, taken, streams, again] of [
    ["POST", false, false, true],
    ["POST", true, false, false],
    ["GET", true, false, true],
    ["POST", false, true, true],
    ["GET", true, true, false],
  ] as const) {
    const route = new Route();
    const response = { status: 200 };
    const second = backing({}, { forwarder: { forward: async () => response as never } });
    const forward = async ({ handedOut }: LoadBalancedRequest) => {
      if (taken) handedOut?.();
      route.set(second);
      throw MOVED();
    };
    route.set(backing({}, { forwarder: { forward } }));
    const body = streams ? ({} as never) : Buffer.alloc(0);
    const request = { method, body, departure: new Departure() } as LoadBalancedRequest;
    const answered = routedDeps(route, false).forwarder.forward(request);
    if (again) assert.equal(await answered, response);
    else await assert.rejects(answered, { code: "MOVED" });
  }
});

test("Only so many are held, a caller that leaves is let go, and none stays when the route is closed", async () => {
  const route = new Route();
  const held = Array.from({ length: REPLICA_HELD_MAX }, () => route.ask(() => 1) as Promise<number>);
  assert.equal(route.held, REPLICA_HELD_MAX);
  await assert.rejects(async () => route.ask(() => 1), { code: "SHUTTING_DOWN" });
  route.set(backing({}));
  assert.deepEqual(new Set(await Promise.all(held)), new Set([1]));
  route.set(undefined);
  const leaves = new AbortController();
  const left = route.ask(() => 1, { signal: leaves.signal });
  const last = route.ask(() => 1);
  leaves.abort();
  await assert.rejects(async () => left, { code: "SHUTTING_DOWN" });
  assert.equal(route.held, 1);
  route.close();
  await assert.rejects(async () => last, { code: "SHUTTING_DOWN" });
  await assert.rejects(async () => route.ask(() => 1), { code: "SHUTTING_DOWN" });
});

/** Two that share the endpoints `e-1` and `e-2`; the second has what the first has not. */
function shared(route: Route, first: Backing, second: Backing, own = first) {
  const owners = new Map<string, Backing | undefined>([
    ["e-1", first],
    ["e-2", second],
  ]);
  route.set(first);
  route.share({ own, ownerOf: (id) => owners.get(id), all: () => [first, second] });
  return owners;
}

test("Where several have the jobs, each question goes to whoever has its endpoint, and those of no endpoint to who has the database", async () => {
  const route = new Route();
  const asked: string[] = [];
  const named = (name: string): Backing => {
    const says = (what: string) => asked.push(`${name} ${what}`);
    return backing(
      {
        enqueue: async ({ id }) => ({ id, created: says("enqueue") > 0 }),
        counts: async () => ({ inQueue: says("counts") }) as never,
        find: async (id) => {
          says("find");
          return { ...job("IN_PROGRESS"), endpointId: id === "j-1" ? "e-1" : "e-2" };
        },
        cancel: async () => {
          says("cancel");
          return job("CANCELLED");
        },
      },
      {
        endpoints: { find: () => void says("endpoint") },
        workers: { counts: async () => ({ idle: says("workers") }) as never, health: () => undefined as never },
        forwarder: {
          forward: async () => ({ status: says("request") }) as never,
          bootOf: (id) => (id === name ? { startedAt: 1, bootMs: 2, importMs: 3 } : undefined),
        },
      },
    );
  };
  shared(route, named("A"), named("B"));
  const { queue, endpoints, workers, forwarder } = routedDeps(route, false);
  for (const endpointId of ["e-1", "e-2"]) {
    await queue.enqueue({ ...JOB, endpointId });
    await queue.counts(endpointId);
    await workers.counts(endpointId);
    const request = { method: "POST", endpointId, body: Buffer.alloc(0), departure: new Departure() };
    await forwarder.forward(request as unknown as LoadBalancedRequest);
  }
  assert.deepEqual(
    asked.splice(0),
    ["A", "B"].flatMap((name) => ["enqueue", "counts", "workers", "request"].map((what) => `${name} ${what}`)),
  );
  await queue.cancel("j-2");
  await endpoints.find("e-2");
  assert.deepEqual(asked, ["A find", "B cancel", "A endpoint"], "rows are read where the call came");
  assert.equal(forwarder.bootOf?.("B")?.bootMs, 2);
});

test("Who is believed to have an endpoint and has it not yet is asked again, until it has", async () => {
  const route = new Route();
  let refusals = 3;
  const late = backing({
    enqueue: async ({ id }) => {
      if (refusals-- > 0) throw MOVED();
      return { id, created: true };
    },
  });
  shared(route, backing({}), late);
  assert.equal((await routedDeps(route, false).queue.enqueue({ ...JOB, endpointId: "e-2" })).created, true);
  assert.equal(refusals, -1);
  assert.equal(route.held, 0);
});

test("Who waits for a job follows it from owner to owner, and is held while there is none", async () => {
  const route = new Route();
  const found = { ...job("IN_PROGRESS"), endpointId: "e-1" };
  const end = { ...job("COMPLETED"), endpointId: "e-1" };
  const third = backing({ wait: async () => end });
  const second = backing({
    wait: async () => {
      setImmediate(() => route.share({ ...route.shared!, ownerOf: () => third }));
      owners.set("e-1", undefined);
      throw MOVED();
    },
  });
  const first = backing({
    find: async () => found,
    wait: async () => {
      owners.set("e-1", second);
      throw MOVED();
    },
  });
  const owners = shared(route, first, second);
  assert.equal((await routedDeps(route, false).queue.wait("j-1", 60_000))?.state, "COMPLETED");
});
