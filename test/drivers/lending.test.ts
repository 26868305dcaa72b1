/** Platforms that share endpoints: one has the machines and lends them. Their links are real sockets, the machine's agent is played. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { type AddressInfo, connect, createServer, type Socket } from "node:net";
import { type TestContext, test } from "node:test";
import type { Share } from "../../src/domain/capacity.ts";
import { CPU_IMAGE } from "../../src/domain/endpoint.ts";
import { SvcError } from "../../src/domain/errors.ts";
import { gpuIds } from "../../src/domain/gpu.ts";
import { HOST_FRAME, type RoomWant } from "../../src/domain/host-protocol.ts";
import { LEND_ASKS_MAX, LEND_UNSENT_MAX_BYTES } from "../../src/domain/limits.ts";
import { NO_RIVALS, type Rival, type RoomSide, type RoomTake } from "../../src/domain/rivals.ts";
import { CapacityLedger } from "../../src/drivers/capacity.ts";
import { HostsDriver } from "../../src/drivers/hosts/hosts-driver.ts";
import type { KnownHost } from "../../src/drivers/hosts/known-host.ts";
import { SharedMachines } from "../../src/drivers/hosts/shared-machines.ts";
import type { LocalDriver, WorkerExit, WorkerImage, WorkerSpec } from "../../src/drivers/worker-driver.ts";
import { Connection } from "../../src/worker-link/connection.ts";
import { eventually } from "../eventually.ts";
import { Agent } from "./played-agent.ts";

const image = (endpointId: string): WorkerImage => ({
  endpointId,
  endpointName: endpointId,
  environmentId: "env",
  buildId: "b1",
  sourceLayer: "a".repeat(64),
  dependencyLayer: null,
  baseDependencies: [],
  pythonVersion: "3.12",
  handler: "worker.py",
  imageName: CPU_IMAGE,
  systemDependencies: [],
  imageSteps: [],
  bootType: "SVCBOOT",
  volumes: [],
  cache: undefined,
});

const spec = (workerId: string, endpointId: string, changes: Partial<WorkerSpec> = {}): WorkerSpec => ({
  workerId,
  token: "t",
  revision: "r1",
  image: image(endpointId),
  appName: "app",
  environmentName: "main",
  kind: "queue",
  env: {},
  maxConcurrency: 1,
  instanceIds: "cpu3c-1-2",
  gpuIds: "",
  gpuPreference: [],
  gpuCount: 1,
  beyondCapacity: false,
  ...changes,
});

const ROW: KnownHost = {
  ...{ id: "h1", name: "h1", labels: [], driver: "process", version: "0" },
  ...{ sharedVolumes: false, draining: false, pod: "", holder: "" },
};

/** What all platforms know: who is the first, who has which endpoint, and the rows of workers. */
function world(t: TestContext, first: string) {
  const known = { first, owners: new Map<string, string>(), rows: new Map<string, string>() };
  const platform = (id: string) => {
    const seen = {
      exits: [] as WorkerExit[],
      printed: [] as string[],
      available: 0,
      wants: [] as RoomWant[],
      drained: [] as string[],
      waits: [] as boolean[],
      side: async (): Promise<RoomSide> => NO_RIVALS,
      give: async (_asked: RoomTake): Promise<void> => {},
    };
    const nothing = () => {};
    const made = new CapacityLedger(
      { cpuOvercommit: 1, memoryOvercommit: 1, emulateGpu: false, emulatedGpus: [] },
      [],
      { vcpus: 1, memoryGb: 1 },
    );
    const local = { onExit: nothing, close: async () => {}, removeUnused: async () => {} } as unknown as LocalDriver;
    const machines = new SharedMachines({
      make: (hooks, drain) =>
        new HostsDriver({
          ...{ local, hooks, capacity: made.capacity, labels: [], runsHere: false },
          needed: async (needed) => ({ image: needed, layers: [] }),
          isConnected: () => false,
          connected: () => [],
          drain,
        }),
      hooks: {
        ...{ bootFailed: nothing, started: nothing, told: nothing },
        log: (workerId, _stream, text) => seen.printed.push(`${workerId}: ${text}`),
        programPrinted: nothing,
        available: () => {
          seen.available++;
        },
      },
      isFirst: () => known.first === id,
      isMine: (endpointId) => known.owners.get(endpointId) === id,
      ownerOf: (endpointId) => known.owners.get(endpointId) ?? "",
      rowOf: async (workerId) => {
        const endpointId = known.rows.get(workerId);
        return endpointId === undefined ? undefined : { endpointId };
      },
      dial: () => [`${id}:1`, "other:1"],
      isConnected: () => false,
      connected: () => [],
      drain: (workerIds) => seen.drained.push(...workerIds),
      wants: () => seen.wants,
      room: {
        side: (waits) => {
          seen.waits.push(waits);
          return seen.side();
        },
        give: (asked) => seen.give(asked),
      },
      onError: (error) => assert.fail(error as Error),
    });
    machines.onExit((exit) => seen.exits.push(exit));
    t.after(() => machines.close());
    return { id, machines, seen };
  };
  return { known, platform };
}

type Platform = ReturnType<ReturnType<typeof world>["platform"]>;

/** The two ends of a connection. */
async function sockets(t: TestContext): Promise<[Socket, Socket]> {
  const server = createServer();
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const one = connect((server.address() as AddressInfo).port, "127.0.0.1");
  const [other] = (await once(server, "connection")) as [Socket];
  server.close();
  t.after(() => {
    one.destroy();
    other.destroy();
  });
  return [one, other];
}

/** Resolves the borrower's end. */
async function link(t: TestContext, borrower: Platform, lender: Platform): Promise<Connection> {
  const [one, other] = await sockets(t);
  const ends = [new Connection(one), new Connection(other)] as const;
  for (const end of ends) end.trust();
  lender.machines.lend(borrower.id, ends[1]);
  borrower.machines.attach(ends[0]);
  return ends[0];
}

function machine({ machines }: Platform): Agent {
  const agent = new Agent();
  machines.hosts.attach(ROW, agent);
  agent.state();
  return agent;
}

const started = (agent: Agent) => agent.calls("start").map(({ body }) => (body.spec as WorkerSpec).workerId);

test("A platform without machines runs its workers on those of another, and hears of its own alone", async (t) => {
  const { known, platform } = world(t, "a");
  known.owners.set("ep-a", "a").set("ep-b", "b").set("ep-c", "c");
  const [a, b, c] = [platform("a"), platform("b"), platform("c")];
  const agent = machine(a);
  await link(t, b, a);
  await link(t, c, a);
  for (const [one, endpointId] of [
    [a, "ep-a"],
    [b, "ep-b"],
    [c, "ep-c"],
  ] as const) {
    await one.machines.prepare(image(endpointId), () => {});
    await one.machines.start(spec(`w-${one.id}`, endpointId));
  }
  assert.deepEqual(started(agent), ["w-a", "w-b", "w-c"]);
  const dials = agent.calls("start").map(({ body }) => (body.spec as WorkerSpec).dial?.[0]);
  assert.deepEqual(dials, ["a:1", "b:1", "c:1"], "each worker dials its own platform first");
  assert.deepEqual((await b.machines.list())?.sort(), ["w-a", "w-b", "w-c"]);
  const { machines, shares } = await b.machines.capacity();
  assert.deepEqual([machines?.[0]?.vcpus, [...shares.keys()].sort()], [4, ["w-a", "w-b", "w-c"]]);
  // A Pod is open to those alone whose code was prepared there.
  a.machines.hosts.know({ ...ROW, pod: "uid", holder: "env" });
  const [pod] = (await b.machines.capacity()).machines ?? [];
  assert.deepEqual([pod?.kept !== undefined, pod?.closed, pod?.prepared?.has("ep-b:b1")], [true, undefined, true]);
  a.machines.hosts.know({ ...ROW, draining: true });
  for (const { id, seen } of [a, b, c]) await eventually(() => assert.deepEqual(seen.drained, [`w-${id}`]));
  for (const id of ["a", "b", "c"]) {
    agent.event("log", `w-${id}`, { text: "hear" });
    agent.event("exited", `w-${id}`, { of: { workerId: `w-${id}`, code: 0, signal: null, reason: "it is over" } });
  }
  for (const { id, seen } of [a, b, c]) {
    await eventually(() =>
      assert.deepEqual(
        seen.exits.map(({ workerId }) => workerId),
        [`w-${id}`],
      ),
    );
    assert.deepEqual(seen.printed, [`w-${id}: hear`]);
  }
});

test("What endpoints of other platforms wait for is known where machines are made, each from whoever has the endpoint", async (t) => {
  const { known, platform } = world(t, "a");
  known.owners.set("ep-b", "b").set("ep-c", "c");
  const [a, b, c] = [platform("a"), platform("b"), platform("c")];
  b.seen.wants.push({ endpointId: "ep-b", missing: 2 }, { endpointId: "ep-c", missing: 9 });
  c.seen.wants.push({ endpointId: "ep-c", missing: 1 });
  await link(t, b, a);
  await link(t, c, a);
  assert.deepEqual(await a.machines.othersWant(), [
    { endpointId: "ep-b", missing: 2 },
    { endpointId: "ep-c", missing: 1 },
  ]);
});

const NEED = { vcpus: 1, memoryGb: 2, gpuIds: "", gpuPreference: [], gpuCount: 1 };

function rival(id: string, changes: Partial<Rival> = {}): Rival {
  const workers = [{ id: `w-${id}`, idleMs: 50, upMs: 100, stale: false }];
  return { id, need: NEED, workersMin: 0, wanted: 0, urgent: false, waitingMs: 0, workers, ...changes };
}

const ASKED = { images: [], waits: true };
const names = ({ contenders }: RoomSide) => contenders.map(({ id }) => id).sort();

test("Who waits is told what all others hold and want, and has the one that has a worker asked for its room", async (t) => {
  const { known, platform } = world(t, "a");
  known.owners.set("ep-a", "a").set("ep-b", "b").set("ep-c", "c");
  const [a, b, c] = [platform("a"), platform("b"), platform("c")];
  const agent = machine(a);
  await link(t, b, a);
  await link(t, c, a);
  const given: string[] = [];
  for (const { id, seen } of [a, b, c]) {
    // Of another's endpoints nobody is believed.
    seen.side = async () => ({ contenders: [rival(`ep-${id}`), rival("ep-x")], leaving: [`w-${id}-goes`] });
    seen.give = async (asked) => {
      if (asked.idle) throw new SvcError("NO_CAPACITY", "It has something to do.");
      given.push(`${id}: ${asked.workerId}`);
    };
  }
  const ofB = await b.machines.others.rivals(ASKED);
  assert.deepEqual(
    [names(ofB), ofB.leaving],
    [
      ["ep-a", "ep-c", "ep-x"],
      ["w-a-goes", "w-c-goes"],
    ],
  );
  assert.deepEqual(names(await a.machines.others.rivals({ images: [], waits: false })), ["ep-b", "ep-c"]);
  assert.deepEqual([a.seen.waits, c.seen.waits.includes(true)], [[true], true]);
  const take = { workerId: "w-1", idle: false, why: "another waits" };
  for (const [one, endpointId] of [
    [b, "ep-c"],
    [b, "ep-a"],
    [a, "ep-b"],
  ] as const) {
    await one.machines.others.take({ ...take, endpointId });
  }
  assert.deepEqual(given, ["c: w-1", "a: w-1", "b: w-1"]);
  await assert.rejects(b.machines.others.take({ ...take, endpointId: "ep-c", idle: true }), { code: "NO_CAPACITY" });
  await assert.rejects(b.machines.others.take({ ...take, endpointId: "ep-nobody" }), { code: "STARTS_PAUSED" });
  // Who can start nowhere wants nothing of others, and it is told where code cannot start.
  await b.machines.prepare(image("ep-b"), () => {});
  const large = { ...NEED, vcpus: 99 };
  a.seen.side = async () => ({ contenders: [rival("ep-a", { wanted: 1, need: large })], leaving: [] });
  const told = await b.machines.others.rivals({ images: ["ep-b:b1", "ep-b:b2"], waits: false });
  assert.deepEqual([told.contenders.find(({ id }) => id === "ep-a")?.wanted, told.lacking], [0, { h1: ["ep-b:b2"] }]);
  assert.ok(agent.isOpen);
});

test("One that does not answer, says nonsense, is of an earlier version or ends meanwhile is left out, and its workers stay", async (t) => {
  const { known, platform } = world(t, "a");
  known.owners.set("ep-b", "b").set("ep-c", "c");
  const [a, b, c] = [platform("a"), platform("b"), platform("c")];
  machine(a);
  const end = await link(t, b, a);
  await link(t, c, a);
  c.seen.side = async () => ({ contenders: [rival("ep-c")], leaving: [] });
  const { others } = a.machines;
  assert.deepEqual(names(await others.rivals(ASKED)), ["ep-c"]);
  b.seen.side = () => new Promise(() => {});
  b.seen.give = () => new Promise(() => {});
  const asked = { workerId: "w-1", endpointId: "ep-b", idle: true, why: "another waits" };
  const asks = b.seen.waits.length;
  await eventually(async () => {
    await others.rivals(ASKED);
    assert.ok(b.seen.waits.length > asks);
  });
  assert.deepEqual(names(await others.rivals(ASKED)), ["ep-c"]);
  await assert.rejects(others.take(asked), { code: "STARTS_PAUSED" });
  await assert.rejects(c.machines.others.take(asked), { code: "STARTS_PAUSED" });
  // It is not asked again while it has not answered.
  const before = b.seen.waits.length;
  assert.deepEqual(names(await others.rivals(ASKED)), ["ep-c"]);
  assert.equal(b.seen.waits.length, before);
  const taking = assert.rejects(others.take(asked), { code: "STARTS_PAUSED" });
  end.destroy();
  await taking;
  assert.deepEqual(names(await others.rivals(ASKED)), ["ep-c"]);

  for (const answer of [
    { contenders: 3 },
    { contenders: [rival("ep-b", { workersMin: -1 })], leaving: [] },
    undefined,
  ]) {
    const [one, other] = await sockets(t);
    const [theirs, mine] = [new Connection(one), new Connection(other)];
    for (const each of [theirs, mine]) each.trust();
    theirs.onFrame = ({ type, headBytes }) => {
      if (type !== HOST_FRAME.ASK) return;
      const { id } = JSON.parse(headBytes.toString()) as { id: number };
      const error = { code: "STARTS_PAUSED", message: "This platform lends nothing." };
      if (answer === undefined) theirs.send(HOST_FRAME.ANSWER, 0, { id, error });
      else theirs.send(HOST_FRAME.ANSWER, 0, { id }, Buffer.from(JSON.stringify(answer)));
    };
    a.machines.lend("b", mine);
    assert.deepEqual(names(await others.rivals(ASKED)), ["ep-c"]);
    assert.ok(theirs.isOpen);
  }
  // Who lends is of an earlier version.
  const [one, other] = await sockets(t);
  const [theirs, mine] = [new Connection(one), new Connection(other)];
  for (const each of [theirs, mine]) each.trust();
  theirs.onFrame = ({ type, headBytes }) => {
    if (type !== HOST_FRAME.ASK) return;
    const { id, call } = JSON.parse(headBytes.toString()) as { id: number; call: string };
    const message = `The platform that has the machines does not know the call "${call}".`;
    theirs.send(HOST_FRAME.ANSWER, 0, { id, error: { code: "STARTS_PAUSED", message } });
  };
  c.machines.attach(mine);
  assert.deepEqual(await c.machines.others.rivals(ASKED), NO_RIVALS);
  await assert.rejects(c.machines.others.take(asked), { code: "STARTS_PAUSED" });
});

test("GPUs are lent once, of the models that are asked for: to workers of whichever platform, beyond the ends of those, until the workers end", async (t) => {
  const { known, platform } = world(t, "a");
  known.owners.set("ep-a", "a").set("ep-b", "b").set("ep-c", "c");
  const [a, b, c] = [platform("a"), platform("b"), platform("c")];
  const gpus = ["NVIDIA L4", "NVIDIA L4", "NVIDIA A100 80GB PCIe"].map((product) => ({ product, emulated: false }));
  const SIZE = { vcpus: 64, memoryGb: 512 };
  const withGpus = { ...SIZE, hardware: SIZE, gpus, emulatesGpu: false };
  const agent = machine(a);
  agent.state({ machine: withGpus });
  const end = await link(t, b, a);
  await link(t, c, a);
  for (const one of [a, b, c]) await one.machines.prepare(image(`ep-${one.id}`), () => {});
  const onGpu = (workerId: string, of: string, changes: Partial<WorkerSpec> = {}) =>
    spec(workerId, of, { instanceIds: "", gpuIds: gpuIds(["NVIDIA_L4"]), ...changes });
  /** By worker, as its machine is told. */
  const given = (of = agent) =>
    of.calls("start").map(({ body }) => {
      const { share, spec: told } = body as { share: Share; spec: WorkerSpec };
      return [told.workerId, share.gpus, share.gpuFraction];
    });
  const full = { code: "NO_CAPACITY", message: /GPU/ };
  await b.machines.start(onGpu("w-b", "ep-b"));
  await c.machines.start(onGpu("w-half", "ep-c", { gpuCount: 0.5 }));
  await assert.rejects(a.machines.start(onGpu("w-whole", "ep-a")), full, "none is whole");
  await assert.rejects(c.machines.start(onGpu("w-more", "ep-c", { beyondCapacity: true })), full);
  await assert.rejects(b.machines.start(onGpu("w-two", "ep-b", { gpuCount: 2 })), full);
  await assert.rejects(b.machines.start(onGpu("w-none", "ep-b", { gpuIds: "HOPPER_141" })), full);
  await a.machines.start(onGpu("w-other-half", "ep-a", { gpuCount: 0.5 }));
  await b.machines.start(onGpu("w-model", "ep-b", { gpuIds: "ADA_24,AMPERE_24,AMPERE_80" }));
  assert.deepEqual(given(), [
    ["w-b", [0], undefined],
    ["w-half", [1], 0.5],
    ["w-other-half", [1], 0.5],
    ["w-model", [2], undefined],
  ]);
  const { machines = [], shares } = await c.machines.capacity();
  assert.deepEqual([machines[0]?.gpus, shares.get("w-half")?.gpuFraction], [gpus, 0.5], "whoever borrows sees them");
  assert.deepEqual(shares.get("w-b")?.gpus, [0]);

  // Whoever borrowed is gone: its worker goes on, and has its GPU until it ends.
  known.rows.set("w-b", "ep-b").set("w-model", "ep-b").set("w-half", "ep-c").set("w-other-half", "ep-a");
  end.destroy();
  await assert.rejects(c.machines.start(onGpu("w-1", "ep-c")), full);
  known.owners.set("ep-b", "c");
  agent.event("exited", "w-b", { of: { workerId: "w-b", code: 0, signal: null, reason: "it is over" } });
  await eventually(() => assert.ok(c.seen.exits.some(({ workerId }) => workerId === "w-b")));
  await c.machines.start(onGpu("w-2", "ep-c"));
  assert.deepEqual(given().at(-1), ["w-2", [0], undefined]);
  known.rows.set("w-2", "ep-c");

  // The next one that lends has them from what their machine says.
  known.first = "c";
  known.owners.set("ep-a", "a");
  c.machines.becomeFirst();
  const again = new Agent();
  c.machines.hosts.attach(ROW, again);
  const workers = ["w-half", "w-other-half", "w-model", "w-2"].map((worker) => {
    const [, indexes, gpuFraction] = given().find(([id]) => id === worker)! as [string, number[], number | undefined];
    return { worker, share: { vcpus: 1, memoryGb: 4, gpus: indexes, ...(gpuFraction && { gpuFraction }) } };
  });
  again.state({ machine: withGpus, workers });
  await link(t, a, c);
  await a.machines.prepare(image("ep-a"), () => {});
  await assert.rejects(a.machines.start(onGpu("w-3", "ep-a")), full);
  await assert.rejects(a.machines.start(onGpu("w-3", "ep-a", { gpuCount: 0.5 })), full);
  const ended = { of: { workerId: "w-half", code: 0, signal: null, reason: "it is over" } };
  again.event("exited", "w-half", ended);
  await eventually(() => assert.ok(c.seen.exits.some(({ workerId }) => workerId === "w-half")));
  await assert.rejects(a.machines.start(onGpu("w-3", "ep-a")), full, "the other half is not free");
  await a.machines.start(onGpu("w-3", "ep-a", { gpuCount: 0.25 }));
  await c.machines.start(onGpu("w-4", "ep-c", { gpuCount: 0.25 }));
  assert.deepEqual(given(again), [
    ["w-3", [1], 0.25],
    ["w-4", [1], 0.25],
  ]);
  // One that its machine refuses books nothing.
  await c.machines.stop("w-2", 0);
  again.event("exited", "w-2", { of: { workerId: "w-2", code: 0, signal: null, reason: "it is over" } });
  again.answers = (call) => (call === "start" ? { error: { code: "STARTS_PAUSED", message: "no" } } : {});
  await assert.rejects(a.machines.start(onGpu("w-5", "ep-a")), { code: "STARTS_PAUSED" });
  again.answers = () => ({});
  await a.machines.start(onGpu("w-6", "ep-a"));
  assert.deepEqual(given(again).at(-1), ["w-6", [0], undefined]);
});

test("Room that a worker of one platform leaves is told to the others, whose endpoints may wait for it", async (t) => {
  const { known, platform } = world(t, "a");
  known.owners.set("ep-b", "b");
  const [a, b, c] = [platform("a"), platform("b"), platform("c")];
  const agent = machine(a);
  await link(t, b, a);
  await link(t, c, a);
  await b.machines.prepare(image("ep-b"), () => {});
  await b.machines.start(spec("w-b", "ep-b"));
  await eventually(() => assert.ok(c.seen.available > 0 && a.seen.available > 0));
  const [before, there] = [c.seen.available, a.seen.available];
  agent.event("exited", "w-b", { of: { workerId: "w-b", code: 0, signal: null, reason: "it is over" } });
  await eventually(() => assert.ok(c.seen.available > before && a.seen.available > there));
});

test("A platform gets no more than the machines have, nothing of another's endpoints, and with nonsense no link", async (t) => {
  const { known, platform } = world(t, "a");
  known.owners.set("ep-a", "a").set("ep-b", "b");
  const [a, b] = [platform("a"), platform("b")];
  const agent = machine(a);
  await link(t, b, a);
  await a.machines.prepare(image("ep-a"), () => {});
  await b.machines.prepare(image("ep-b"), () => {});
  await a.machines.start(spec("w-a", "ep-a"));
  const all = await Promise.allSettled([1, 2, 3, 4, 5].map((n) => b.machines.start(spec(`w-${n}`, "ep-b"))));
  assert.deepEqual(
    all.map((one) => (one.status === "fulfilled" ? "" : one.reason.code)),
    ["", "", "", "NO_CAPACITY", "NO_CAPACITY"],
  );
  const share = { vcpus: 0.1, memoryGb: 0.1, gpus: [] };
  for (const more of [{ beyondCapacity: true }, { share }, { onHost: "h1" }]) {
    await assert.rejects(b.machines.start(spec("w-6", "ep-b", more)), { code: "NO_CAPACITY" });
  }
  await assert.rejects(b.machines.start(spec("w-7", "ep-a")), {
    code: "STARTS_PAUSED",
    message: /Another platform has/,
  });
  await b.machines.stop("w-a", 0);
  assert.deepEqual(started(agent), ["w-a", "w-1", "w-2", "w-3"]);
  await b.machines.list();
  assert.ok(!agent.calls("stop").some(({ body }) => body.workerId === "w-a"), "another's worker goes on");

  for (const say of [
    (end: Connection) => end.send(99, 0),
    (end: Connection) => end.send(HOST_FRAME.ASK, 0, { id: "x" }),
    (end: Connection) => end.send(HOST_FRAME.EVENT, 0, {}),
    (end: Connection) => end.send(HOST_FRAME.ANSWER, 0, { id: -1 }),
  ]) {
    const [one, other] = await sockets(t);
    const [mine, theirs] = [new Connection(one), new Connection(other)];
    a.machines.lend("b", theirs);
    const closed = once(one, "close");
    say(mine);
    await closed;
  }
  const [one, other] = await sockets(t);
  const [mine, theirs] = [new Connection(one), new Connection(other)];
  theirs.trust();
  a.machines.lend("b", theirs);
  const answers: { id: number; error?: { code: string } }[] = [];
  mine.onFrame = ({ type, headBytes }) => {
    if (type === HOST_FRAME.ANSWER) answers.push(JSON.parse(headBytes.toString()));
  };
  for (const [id, call, body] of [
    [1, "start", "{"],
    [2, "start", JSON.stringify({ spec: { ...spec("../w", "ep-b") } })],
    [3, "prepare", JSON.stringify({ image: { ...image("ep-b"), handler: "../../etc/passwd" }, layers: [] })],
    [4, "erase", "{}"],
  ] as const) {
    mine.send(HOST_FRAME.ASK, 0, { id, call }, Buffer.from(body));
  }
  await eventually(() => assert.equal(answers.length, 4));
  assert.ok(answers.every(({ error }) => error !== undefined));
});

test("What is asked at once is bounded", async (t) => {
  const { platform } = world(t, "a");
  const a = platform("a");
  const agent = machine(a);
  agent.answers = (call) => (call === "vouched" ? undefined : {});
  const [one, other] = await sockets(t);
  const [mine, theirs] = [new Connection(one), new Connection(other)];
  theirs.trust();
  a.machines.lend("b", theirs);
  const refused: number[] = [];
  mine.onFrame = ({ type, headBytes }) => {
    if (type === HOST_FRAME.ANSWER) refused.push((JSON.parse(headBytes.toString()) as { id: number }).id);
  };
  for (let id = 1; id <= LEND_ASKS_MAX + 1; id++) mine.send(HOST_FRAME.ASK, 0, { id, call: "vouched" });
  await eventually(() => assert.ok(refused.length > 0));
  assert.ok(refused[0]! > LEND_ASKS_MAX);
});

test("A platform that reads nothing is cut, and asks anew", async (t) => {
  const { known, platform } = world(t, "a");
  known.owners.set("ep-b", "b");
  const [a, b] = [platform("a"), platform("b")];
  const agent = machine(a);
  const end = await link(t, b, a);
  await b.machines.prepare(image("ep-b"), () => {});
  await b.machines.start(spec("w-b", "ep-b"));
  end.pause();
  const text = "x".repeat(60_000);
  let sent = 0;
  while (end.isOpen && sent < 2 * LEND_UNSENT_MAX_BYTES) {
    agent.event("log", "w-b", { text });
    sent += text.length;
    if (sent % 3_000_000 === 0) await new Promise(setImmediate);
  }
  end.resume();
  await eventually(() => assert.equal(end.isOpen, false));
  await link(t, b, a);
  assert.deepEqual(await b.machines.list(), ["w-b"]);
});

test("A start whose answer is lost is ended by whoever lends next, which knows of workers from their machines", async (t) => {
  const { known, platform } = world(t, "a");
  known.owners.set("ep-b", "b").set("ep-c", "c");
  const [a, b, c] = [platform("a"), platform("b"), platform("c")];
  const agent = machine(a);
  const end = await link(t, b, a);
  await b.machines.prepare(image("ep-b"), () => {});
  await b.machines.start(spec("w-1", "ep-b"));
  known.rows.set("w-1", "ep-b");
  agent.answers = (call) => (call === "start" ? undefined : {});
  const lost = b.machines.start(spec("w-2", "ep-b"));
  await eventually(() => assert.deepEqual(started(agent), ["w-1", "w-2"]));
  end.destroy();
  await assert.rejects(lost, { code: "STARTS_PAUSED" });
  assert.equal(await b.machines.list(), undefined, "nobody is given up while it is not known who runs");
  const prepared = b.machines.prepare(image("ep-c"), () => {});
  known.first = "c";
  known.owners.set("ep-c", "b");
  c.machines.becomeFirst();
  const again = machine(c);
  const workers = ["w-1", "w-2"].map((worker) => ({ worker, share: { vcpus: 1, memoryGb: 2, gpus: [] } }));
  again.state({ workers });
  const before = b.seen.available;
  await link(t, b, c);
  assert.ok(b.seen.available > before, "it looks who runs");
  assert.deepEqual(await b.machines.list(), ["w-1", "w-2"]);
  await prepared;
  await eventually(() =>
    assert.deepEqual(
      again.calls("stop").map(({ body }) => body.workerId),
      ["w-2"],
    ),
  );
  again.event("exited", "w-1", { of: { workerId: "w-1", code: 1, signal: null, reason: "it ended" } });
  await eventually(() =>
    assert.deepEqual(
      b.seen.exits.map(({ workerId }) => workerId),
      ["w-1"],
    ),
  );
  await b.machines.start(spec("w-3", "ep-b"));
  assert.deepEqual(started(again), ["w-3"], "its images are prepared there too");
});

test("The end of a worker is told again while it is refused, and by whoever has the machines next", async (t) => {
  const { known, platform } = world(t, "a");
  known.owners.set("ep-b", "b");
  const [a, b] = [platform("a"), platform("b")];
  const agent = machine(a);
  const stopped = (of: Agent) => of.calls("stop").map(({ body }) => body.workerId);
  const end = await link(t, b, a);
  await b.machines.prepare(image("ep-b"), () => {});
  for (const id of ["w-1", "w-2", "w-3"]) await b.machines.start(spec(id, "ep-b"));
  // It is known a little later elsewhere whose it is.
  known.owners.set("ep-b", "c");
  await b.machines.stop("w-1", 0);
  await b.machines.capacity(); // Answered behind it.
  assert.deepEqual(stopped(agent), []);
  known.owners.set("ep-b", "b");
  await eventually(() => assert.deepEqual(stopped(agent), ["w-1"]));
  end.destroy();
  await eventually(async () => assert.equal(await b.machines.list(), undefined));
  await b.machines.stop("w-2", 0);
  known.first = "b";
  b.machines.becomeFirst();
  const again = machine(b);
  const workers = ["w-2", "w-3"].map((worker) => ({ worker, share: { vcpus: 1, memoryGb: 2, gpus: [] } }));
  again.state({ workers });
  await eventually(() => assert.deepEqual(stopped(again), ["w-2"]));
});
