/** Several machines behind one driver, with agents that are played frame by frame. */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import type { Share } from "../../src/domain/capacity.ts";
import { CPU_IMAGE } from "../../src/domain/endpoint.ts";
import { SvcError } from "../../src/domain/errors.ts";
import { HOST_FRAME, type HostState } from "../../src/domain/host-protocol.ts";
import { HOST_DOUBT_MS, HOST_SILENCE_MAX_MS, HOST_TOLD_PER_MINUTE_MAX } from "../../src/domain/limits.ts";
import { asIfMade, type Fleet, type HostMachine, imageKey, placeAmong, wholeOf } from "../../src/domain/placement.ts";
import { FRAME } from "../../src/domain/worker-protocol.ts";
import { CapacityLedger } from "../../src/drivers/capacity.ts";
import { HostsDriver } from "../../src/drivers/hosts/hosts-driver.ts";
import type { KnownHost } from "../../src/drivers/hosts/known-host.ts";
import type { LocalDriver, WorkerExit, WorkerImage, WorkerSpec } from "../../src/drivers/worker-driver.ts";
import { MachineMeter } from "../../src/telemetry/machine-use.ts";
import { eventually } from "../eventually.ts";
import { Agent, MACHINE } from "./played-agent.ts";

const IMAGE = {
  endpointId: "ep1",
  endpointName: "e",
  buildId: "b1",
  sourceLayer: "a".repeat(64),
  imageName: CPU_IMAGE,
  volumes: [],
} as unknown as WorkerImage;
const spec = (workerId: string, changes: Partial<WorkerSpec> = {}): WorkerSpec =>
  ({
    workerId,
    revision: "r1",
    image: IMAGE,
    instanceIds: "cpu3c-1-2",
    gpuIds: "",
    gpuPreference: [],
    gpuCount: 1,
    beyondCapacity: false,
    ...changes,
  }) as WorkerSpec;
const row = (id: string, changes: Partial<KnownHost> = {}): KnownHost => {
  return {
    id,
    name: id,
    labels: [],
    driver: "process",
    version: "0",
    sharedVolumes: false,
    draining: false,
    pod: "",
    holder: "",
    ...changes,
  };
};
const SHARE: Share = { vcpus: 1, memoryGb: 2, gpus: [] };

function open(
  t: TestContext,
  {
    runsHere = true,
    prepare = async () => {},
    potential,
  }: { runsHere?: boolean; prepare?: () => Promise<void>; potential?: () => readonly HostMachine[] } = {},
) {
  const seen = {
    exits: [] as WorkerExit[],
    printed: [] as string[],
    told: [] as string[],
    available: 0,
    drained: [] as string[],
    local: [] as string[],
  };
  const connected = new Set<string>();
  const ledger = new CapacityLedger(
    { cpuOvercommit: 1, memoryOvercommit: 1, emulateGpu: false, emulatedGpus: [] },
    [],
    { vcpus: 1, memoryGb: 8 },
  );
  let isPaused = false;
  const local = {
    open: async () => {},
    close: async () => {},
    prepare,
    start: (one: WorkerSpec) => {
      if (isPaused) return Promise.reject(new SvcError("STARTS_PAUSED", "The launcher is away."));
      return ledger.withShare(one, () => void seen.local.push(one.workerId));
    },
    stop: async () => {},
    list: async () => [...ledger.capacity.shares.keys()],
    vouched: async () => [],
    onExit: () => {},
    retire: async () => {},
    removeUnused: async () => {},
    cannotGive: () => ["no"],
  } as unknown as LocalDriver;
  const nothing = () => {};
  const driver = new HostsDriver({
    local,
    capacity: ledger.capacity,
    labels: [],
    runsHere,
    hooks: {
      bootFailed: nothing,
      log: (id, stream, text) => void seen.printed.push(`${id} ${stream} ${text}`),
      programPrinted: nothing,
      started: nothing,
      available: () => void seen.available++,
      told: (line) => void seen.told.push(line),
    },
    needed: async (image) => ({ image, layers: [{ digest: IMAGE.sourceLayer, bytes: 1, ticket: "t" }] }),
    isConnected: (id) => connected.has(id),
    connected: () => connected,
    drain: (ids) => void seen.drained.push(...ids),
    ...(potential && { potential }),
  });
  driver.onExit((exit) => void seen.exits.push(exit));
  t.after(() => driver.close({ stopAll: false }));
  const join = (id: string, changes: Partial<KnownHost> = {}, state: Partial<HostState> = {}) => {
    const agent = new Agent();
    driver.attach(row(id, changes), agent);
    agent.state(state);
    return agent;
  };
  return { driver, seen, join, connected, pause: () => (isPaused = true) };
}
const everywhere = (rig: ReturnType<typeof open>) =>
  eventually(() => assert.ok(rig.driver.hosts.every((host) => host.isPrepared(imageKey(IMAGE)))));
const prepared = (rig: ReturnType<typeof open>) => rig.driver.prepare(IMAGE, () => {});

test("A worker that the platform's machine has no room for starts on a host, with the share that was booked", async (t) => {
  const rig = open(t);
  const agent = rig.join("a");
  await prepared(rig);
  await everywhere(rig);
  for (const id of ["w1", "w2", "w3"]) await rig.driver.start(spec(id));
  const starts = agent.calls("start").map(({ body }) => body as { spec: WorkerSpec; share: Share });
  assert.deepEqual([rig.seen.local.length, starts.length], [1, 2]);
  assert.deepEqual(starts[0]!.share, SHARE);
  const { shares, machines } = await rig.driver.capacity();
  assert.deepEqual([...shares.values()].map(({ host = "" }) => host).sort(), ["", "a", "a"]);
  assert.equal(machines?.length, 2);
  assert.deepEqual((await rig.driver.list())?.sort(), ["w1", "w2", "w3"]);
  for (const id of ["w4", "w5"]) await rig.driver.start(spec(id));
  await assert.rejects(rig.driver.start(spec("w6")), {
    code: "NO_CAPACITY",
    message: /None of 2 machines has room: .*a: a worker needs/,
  });
});

test("What needs containers is asked of machines that have them alone, and elsewhere the reason is kept", async (t) => {
  const rig = open(t, { runsHere: false });
  const [plain, box] = [rig.join("plain"), rig.join("box", { driver: "docker" })];
  for (const [n, wish] of [
    { imageName: "acme/own:1" },
    { imageSteps: [{ apt: ["ffmpeg"] }] },
    { serverPort: 8000 },
    { imageName: "acme/own:1", buildId: "", sourceLayer: "", pulls: "image" },
  ].entries()) {
    const image = { ...IMAGE, endpointId: `own-${n}`, ...wish } as WorkerImage;
    await rig.driver.prepare(image, () => {});
    await rig.driver.start(spec(`w${n}`, { image }));
    assert.equal(box.calls("start").length, n + 1);
  }
  assert.deepEqual([plain.calls("prepare").length, box.calls("prepare").length], [0, 4]);
  const image = { ...IMAGE, endpointId: "own-0", imageName: "acme/own:1" } as WorkerImage;
  box.destroy();
  await assert.rejects(rig.driver.start(spec("late", { image })), {
    code: "NO_CAPACITY",
    message: /plain: it cannot be prepared there \(image="acme\/own:1" needs containers.*; box: it is away/,
  });
  box.answers = () => ({ error: { code: "IMAGE_MISSING", message: "It cannot be pulled." } });
  box.isOpen = true;
  rig.driver.attach(row("box", { driver: "docker" }), box);
  box.state();
  const other = { ...IMAGE, endpointId: "other", imageName: "acme/own:2" } as WorkerImage;
  await assert.rejects(
    rig.driver.prepare(other, () => {}),
    /cannot be pulled/,
    "what can be mended is said first",
  );
});

test("A call or an event that the other end does not know ends no link", async (t) => {
  const rig = open(t);
  const agent = rig.join("a");
  agent.event("somethingNew", "w1", { of: { more: 1 } });
  await prepared(rig);
  await everywhere(rig);
  assert.ok(agent.isOpen);
});

test("A preparation is done with the first machine that is ready, and fails when all have failed", async (t) => {
  const rig = open(t, { prepare: () => Promise.reject(new SvcError("INVALID_SETTING", "No such Python here.")) });
  await assert.rejects(prepared(rig), /No such Python here/);
  const agent = rig.join("a");
  await everywhere(rig);
  const [ask] = agent.calls("prepare");
  assert.deepEqual(ask!.body.layers, [{ digest: IMAGE.sourceLayer, bytes: 1, ticket: "t" }]);
  await prepared(rig);
  await rig.driver.start(spec("w1"));
  assert.equal(agent.calls("start").length, 1);
});

test("While the launcher here is away, or an agent refuses, another machine starts the worker", async (t) => {
  const rig = open(t);
  const [a, b] = [rig.join("a"), rig.join("b")];
  await prepared(rig);
  await everywhere(rig);
  rig.pause();
  a.answers = (call) => (call === "start" ? { error: { code: "NO_CAPACITY", message: "It takes no more." } } : {});
  await rig.driver.start(spec("w1"));
  assert.deepEqual([...(await rig.driver.capacity()).shares.values()], [{ ...SHARE, host: "b" }]);
  b.destroy();
  await assert.rejects(rig.driver.start(spec("w2")), { code: "STARTS_PAUSED" });
});

test("Without workers on the platform's own machine all run on hosts; with none there is no room, in words", async (t) => {
  const rig = open(t, { runsHere: false });
  await assert.rejects(prepared(rig), { code: "NO_CAPACITY", message: /No machine takes workers/ });
  const agent = rig.join("a");
  await prepared(rig);
  await rig.driver.start(spec("w1"));
  assert.equal(agent.calls("start").length, 1);
  assert.deepEqual(rig.driver.cannotGive({} as never), []);
});

test("An agent is heard about its own workers alone: not others', not unknown ones, not those counted on another machine", async (t) => {
  const rig = open(t, { runsHere: false });
  const [a, b] = [rig.join("a"), rig.join("b")];
  await prepared(rig);
  await everywhere(rig);
  await rig.driver.start(spec("w1", { onHost: "a" }));
  const exit = { workerId: "w1", code: 0, signal: null, reason: "gone" };
  b.event("exited", "w1", { of: exit });
  b.event("log", "w1", { stream: "stdout", text: "false" });
  b.state({ workers: [{ worker: "w1", share: SHARE }], ended: [exit] });
  b.event("exited", "w9", { of: { ...exit, workerId: "w1" } });
  assert.deepEqual([rig.seen.exits, rig.seen.printed], [[], []]);
  assert.equal((await rig.driver.capacity()).shares.get("w1")?.host, "a");
  a.event("log", "w1", { stream: "stdout", text: "mine" });
  a.event("exited", "w1", { of: { ...exit, workerId: "another" } });
  assert.deepEqual(rig.seen.printed, ["w1 stdout mine"]);
  assert.deepEqual(
    rig.seen.exits.map(({ workerId }) => workerId),
    ["w1"],
  );
  assert.equal((await rig.driver.capacity()).shares.size, 0);
});

test("What breaks the protocol is thrown, and lines about itself are bounded", (t) => {
  const rig = open(t);
  const agent = rig.join("a");
  for (let n = 0; n < 3 * HOST_TOLD_PER_MINUTE_MAX; n++)
    agent.event("told", "", { of: { line: `line ${n}`, facts: {} } });
  assert.equal(rig.seen.told.length, HOST_TOLD_PER_MINUTE_MAX);
  assert.throws(() => agent.say(HOST_FRAME.STATE, {}, { machine: {} }), { name: "FrameError" });
  assert.throws(() => agent.say(FRAME.JOB, {}), { name: "FrameError" });
  const early = new Agent();
  rig.driver.attach(row("b"), early);
  assert.throws(() => early.event("log", "w1"), /EVENT before STATE/);
});

test("What is in use of a host is as its agent said last, and not known while it is away; nonsense ends the link", async (t) => {
  const rig = open(t);
  const agent = rig.join("a");
  const inUse = async () => {
    const { machines = [] } = (await rig.driver.capacity()) as Fleet;
    return machines.find(({ id }) => id === "a")?.inUse;
  };
  assert.equal(await inUse(), undefined);
  const use = { vcpus: 1.5, memoryGb: 3, gpus: [{ index: 0, busy: 0.5, memoryGb: null }] };
  agent.event("used", "", { of: use });
  assert.deepEqual(await inUse(), use);
  const { vcpus, memory, gpus } = new MachineMeter().read(await rig.driver.capacity(), []);
  assert.ok(vcpus.used >= 1.5 && memory.used >= 3);
  assert.deepEqual(gpus.measured, [{ ...use.gpus[0], host: "a" }]);
  for (const wrong of [
    {},
    { ...use, vcpus: -1 },
    { ...use, memoryGb: "3" },
    { ...use, gpus: Array(99).fill(use.gpus[0]) },
  ]) {
    assert.throws(() => agent.event("used", "", { of: wrong }), { name: "FrameError" });
  }
  agent.destroy();
  assert.equal(await inUse(), undefined);
});

test("A host that comes back says which workers run: missing ones are counted out, ends that were asked for meanwhile happen", async (t) => {
  const rig = open(t, { runsHere: false });
  const agent = rig.join("a");
  await prepared(rig);
  for (const id of ["w1", "w2", "w3"]) await rig.driver.start(spec(id));
  agent.destroy();
  await rig.driver.stop("w1", 7);
  await assert.rejects(rig.driver.start(spec("w4")), { code: "NO_CAPACITY", message: /a: it is away/ });
  assert.deepEqual((await rig.driver.list())?.sort(), ["w1", "w2", "w3"]);
  const ended = [{ workerId: "w3", code: 1, signal: null, reason: "exited with code 1" }];
  const back = rig.join(
    "a",
    {},
    {
      workers: [
        { worker: "w1", share: SHARE },
        { worker: "w8", share: SHARE },
      ],
      ended,
    },
  );
  assert.deepEqual(
    rig.seen.exits.map(({ workerId, cause = "" }) => `${workerId} ${cause}`),
    ["w3 ", "w2 machine"],
  );
  assert.deepEqual(
    back.calls("stop").map(({ body }) => body),
    [{ workerId: "w1", graceMs: 7 }],
  );
  assert.deepEqual((await rig.driver.list())?.sort(), ["w1", "w8"], "nobody knows w8: who reconciles stops it");
});

test("A start that broke off with the link is made on another machine, and ended where it came up nevertheless", async (t) => {
  const rig = open(t, { runsHere: false });
  const [a, b] = [rig.join("a"), rig.join("b")];
  await prepared(rig);
  await everywhere(rig);
  a.answers = () => undefined;
  const started = rig.driver.start(spec("w1"));
  a.destroy();
  await started;
  assert.equal(b.calls("start").length, 1);
  const back = rig.join("a", {}, { workers: [{ worker: "w1", share: SHARE }] });
  assert.deepEqual(
    back.calls("stop").map(({ body }) => body),
    [{ workerId: "w1", graceMs: 0 }],
  );
  assert.equal(b.calls("stop").length, 0);
  assert.equal((await rig.driver.capacity()).shares.get("w1")?.host, "b");
});

test("Of a host that stays away only those workers are counted out whose own links are gone", async (t) => {
  t.mock.timers.enable({ apis: ["setInterval"] });
  let now = Math.round(performance.now());
  t.mock.method(performance, "now", () => now);
  const rig = open(t, { runsHere: false });
  const agent = rig.join("a");
  await prepared(rig);
  for (const id of ["w1", "w2"]) await rig.driver.start(spec(id));
  await rig.driver.open();
  rig.connected.add("w1");
  const pass = (ms: number) => {
    for (let passed = 0; passed < ms; passed += 1_000) {
      now += 1_000;
      t.mock.timers.tick(1_000);
    }
  };
  agent.lastHeard = now;
  pass(HOST_SILENCE_MAX_MS);
  assert.ok(agent.sent.includes(FRAME.PING) && agent.isOpen);
  assert.deepEqual(rig.seen.exits, []);
  pass(1_000);
  assert.equal(agent.isOpen, false, "it was silent for too long");
  assert.deepEqual(
    rig.seen.exits.map(({ workerId, cause }) => [workerId, cause]),
    [["w2", "silence"]],
  );
  rig.connected.clear();
  pass(1_000);
  assert.deepEqual(rig.seen.exits.length, 2);
});

test("A host that is silent gets no worker until it is heard again; one whose link broke has its time to come back", async (t) => {
  t.mock.timers.enable({ apis: ["setInterval"] });
  let now = Math.round(performance.now());
  t.mock.method(performance, "now", () => now);
  const rig = open(t, { runsHere: false });
  const agent = rig.join("a");
  await prepared(rig);
  await rig.driver.start(spec("w1"));
  await rig.driver.open();
  const pass = (ms: number) => {
    for (let passed = 0; passed < ms; passed += 1_000) {
      now += 1_000;
      t.mock.timers.tick(1_000);
    }
  };
  agent.lastHeard = now;
  const [host] = rig.driver.hosts;
  pass(HOST_DOUBT_MS);
  assert.equal(host!.silentSince, undefined);
  pass(1_000);
  assert.equal(host!.silentSince, agent.lastHeard);
  await assert.rejects(rig.driver.start(spec("w2")), { message: /a: it does not answer at present/ });
  agent.lastHeard = now;
  pass(1_000);
  await rig.driver.start(spec("w2"));
  pass(HOST_DOUBT_MS);
  agent.destroy();
  pass(HOST_SILENCE_MAX_MS);
  assert.deepEqual(rig.seen.exits, []);
  pass(1_000);
  assert.equal(rig.seen.exits.length, 2);
});

test("A host that drains, leaves or is removed gets no worker; its own finish, or are given up with it", async (t) => {
  const rig = open(t, { runsHere: false });
  const [a, b] = [rig.join("a"), rig.join("b")];
  await prepared(rig);
  await everywhere(rig);
  await rig.driver.start(spec("w1", { onHost: "a" }));
  await rig.driver.start(spec("w2", { onHost: "b" }));
  rig.driver.know(row("a", { draining: true }));
  b.event("leaving", "", { of: { graceMs: 1 } });
  assert.deepEqual(rig.seen.drained, ["w1", "w2"]);
  await assert.rejects(rig.driver.start(spec("w3")), {
    message: /a: it is being drained; b: its agent is about to end/,
  });
  rig.driver.remove("a");
  assert.ok(a.sent.includes(FRAME.REFUSED) && !a.isOpen);
  assert.deepEqual(
    rig.seen.exits.map(({ workerId, cause }) => [workerId, cause]),
    [["w1", "machine"]],
  );
});

test("After a restart nobody is given up before the hosts had their time to come back", async (t) => {
  const rig = open(t);
  rig.driver.know(row("a"));
  assert.equal(await rig.driver.list(), undefined);
  rig.join("a", {}, { workers: [{ worker: "w1", share: SHARE }] });
  assert.deepEqual(await rig.driver.list(), ["w1"]);
});

test("An answer that never comes, or comes from nobody, ends nothing but its own call", async (t) => {
  const rig = open(t, { runsHere: false });
  const agent = rig.join("a");
  await prepared(rig);
  agent.answers = () => undefined;
  const started = rig.driver.start(spec("w1"));
  agent.answer(99_999, {});
  agent.say(HOST_FRAME.REPORT, { id: 77, line: "x" });
  agent.destroy();
  await assert.rejects(started, { code: "STARTS_PAUSED", message: /a is away/ });
  assert.equal((await rig.driver.capacity()).shares.size, 0);
});

const OTHERS = { ...IMAGE, endpointId: "ep2", environmentId: "e2" } as WorkerImage;
const POD = { pod: "uid", holder: "" };
const pool = (closed: string): readonly HostMachine[] => [
  {
    ...MACHINE,
    id: "pool:small",
    name: "the pool small",
    labels: ["small"],
    sharedVolumes: false,
    closed,
    potential: true,
  },
];

test("A Pod runs and prepares nothing before it is held for somebody, and nothing of anybody else after that", async (t) => {
  const rig = open(t, { runsHere: false, potential: () => pool("it is asked for a Pod") });
  const mine = { ...IMAGE, environmentId: "e1" } as WorkerImage;
  const agent = rig.join("a", POD);
  const lines: string[] = [];
  const [waits, others] = [mine, OTHERS].map((image) => rig.driver.prepare(image, (line) => void lines.push(line)));
  assert.deepEqual(
    rig.driver.homeless.images.map(({ endpointId }) => endpointId),
    ["ep1", "ep2"],
  );
  assert.equal(agent.calls("prepare").length, 0, "no code of anybody's lies on a Pod that is nobody's");
  rig.driver.know(row("a", { ...POD, holder: "environment:e1" }));
  await waits;
  assert.deepEqual(
    agent.calls("prepare").map(({ body }) => (body.image as WorkerImage).endpointId),
    ["ep1"],
  );
  await rig.driver.start(spec("w1", { image: mine }));
  await assert.rejects(rig.driver.start(spec("w2", { image: OTHERS })), /a: it is held for another/);
  assert.deepEqual(
    rig.driver.homeless.images.map(({ endpointId }) => endpointId),
    ["ep2"],
  );
  assert.match(lines.join("\n"), /waiting for a machine: the pool small: it is asked for a Pod/);
  await rig.driver.close({ stopAll: false });
  await assert.rejects(others!, { code: "SHUTTING_DOWN" });
});

test("A Pod that is about to be deleted gets no worker, and what cannot be prepared on the only Pod is said", async (t) => {
  const rig = open(t, { runsHere: false, potential: () => pool("no Pod can be made (exceeded quota)") });
  const agent = rig.join("a", { ...POD, holder: "*" });
  await prepared(rig);
  rig.driver.hosts[0]!.isGiven = true;
  await assert.rejects(
    rig.driver.start(spec("w1")),
    /a: it is being deleted; the pool small: no Pod can be made \(exceeded quota\)/,
  );
  assert.equal(agent.calls("start").length, 0);
  const later = open(t, { runsHere: false, potential: () => pool("it is asked for a Pod") });
  const waits = prepared(later);
  const broken = new Agent();
  broken.answers = () => ({ error: { code: "INVALID_SETTING", message: "No such package." } });
  later.driver.attach(row("b", { ...POD, holder: "*" }), broken);
  broken.state();
  await assert.rejects(waits, /No such package/);
});

test("What can be made counts for nothing that is there, and for all that may come", () => {
  const [made] = pool("no");
  const fleet: Fleet = { ...MACHINE, machines: [made!] };
  assert.equal(wholeOf(fleet).vcpus, 0);
  const need = { vcpus: 1, memoryGb: 2, gpuIds: "", gpuPreference: [], gpuCount: 1 };
  assert.equal(wholeOf(asIfMade(fleet)).vcpus, MACHINE.vcpus);
  assert.ok("lack" in placeAmong(fleet, [], need));
  assert.ok(!("lack" in placeAmong(asIfMade(fleet), [], need)));
});
