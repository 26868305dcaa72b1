/**
 * Frames of workers and launchers that no worker of ours would send. SVC_FUZZ_FRAMES sets how many, SVC_FUZZ_SEED which.
 */
import assert from "node:assert/strict";
import { type TestContext, test } from "node:test";
import { HOST_FRAME } from "../../src/domain/host-protocol.ts";
import { Departure } from "../../src/domain/request.ts";
import { FRAME, MORE } from "../../src/domain/worker-protocol.ts";
import type { HostChannel } from "../../src/drivers/hosts/known-host.ts";
import { RemoteHost } from "../../src/drivers/hosts/remote-host.ts";
import { LauncherLink } from "../../src/drivers/launcher-link.ts";
import { encodeFrame, type Frame } from "../../src/lib/frames.ts";
import { newJob } from "../conformance/queue.ts";
import { openLink, type Peer } from "./link-rig.ts";

const FRAMES = Number(process.env.SVC_FUZZ_FRAMES ?? 24_000);
const SEED = Number(process.env.SVC_FUZZ_SEED ?? 1);

/** mulberry32 */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

const KEYS = (
  "protocol role token worker pid unacknowledged slots bootMs importMs error_type error_message error_traceback ok execMs " +
  "begun status headers failed stream job bytes reason workers share code signal how limits isolation __proto__ " +
  "id call error line event workerId of machine ended missing freeDiskBytes cause head failure facts host name labels"
).split(" ");
/** As JSON text: some are no JSON, and 1e999 is read as Infinity. */
const VALUES = [
  ..."null true false 0 1 5 -1 1.5 1e999 -1e999 4294967296 2147483647 1e300 NaN Infinity undefined".split(" "),
  ...[
    '""',
    '"x"',
    '"stdout"',
    '"worker"',
    "[]",
    "[null]",
    "[[]]",
    "{}",
    '[["a","b"]]',
    '[["a",1]]',
    '[["a\\r\\nb","c"]]',
  ],
  ...['[{"channel":1,"job":"j","fence":1}]', '[{"channel":4294967295,"job":"j","fence":1}]', `"${"a".repeat(300)}"`],
];
const WHOLE_HEADS = ["", "null", "5", "[]", '"x"', "{", "\u0000", "{}", `${"[".repeat(2_000)}`, "nul"];
const BODIES = ["", "1", '{"a":1}', "null", "not json", "x".repeat(5_000)].map((text) => Buffer.from(text));
const TYPES = [...Object.values(FRAME), ...Object.values(HOST_FRAME), 0, 77, 255];

function fuzzer(random: () => number) {
  const pick = <T>(values: readonly T[]): T => values[Math.floor(random() * values.length)]!;
  const head = (): string => {
    if (random() < 0.15) return pick(WHOLE_HEADS);
    const fields = Array.from({ length: Math.floor(random() * 5) }, () => `"${pick(KEYS)}":${pick(VALUES)}`);
    return `{${fields.join(",")}}`;
  };
  const frame = (type = pick(TYPES)): Buffer => {
    const channel = pick([0, 0, 1, 1, 2, 3, 2 ** 31, 2 ** 32 - 1]);
    const bytes = Buffer.concat(encodeFrame(type, channel, head(), pick(BODIES), pick([0, 0, MORE, 255])));
    // Now and then the frame itself is broken.
    if (random() < 0.01) bytes[Math.floor(random() * Math.min(12, bytes.length))] = Math.floor(random() * 256);
    return bytes;
  };
  return { frame, head, pick };
}

/** Sends until the platform hangs up or `count` are gone. Resolves how many. */
async function throwAt(peer: Peer, count: number, frame: () => Buffer): Promise<number> {
  let sent = 0;
  for (; sent < count && !peer.socket.destroyed; sent++) {
    if (!peer.socket.write(frame())) await new Promise((resolve) => setImmediate(resolve));
    if (sent % 16 === 15) await new Promise((resolve) => setImmediate(resolve));
  }
  peer.socket.end();
  await peer.closed;
  return sent;
}

function noErrors(t: TestContext): unknown[] {
  const errors: unknown[] = [];
  const note = (error: unknown) => errors.push(error);
  process.on("unhandledRejection", note);
  t.after(() => process.off("unhandledRejection", note));
  return errors;
}

for (const kind of ["queue", "load-balanced"] as const) {
  test(`Whatever a worker of a ${kind} endpoint says, the platform goes on with the others`, async (t) => {
    const errors = noErrors(t);
    const rig = await openLink(t, { kind });
    const random = randomOf(SEED);
    const { frame } = fuzzer(random);
    t.diagnostic(`SVC_FUZZ_SEED=${SEED}`);
    const callers: Departure[] = [];
    const asked = new Set<Promise<unknown>>();
    for (let left = FRAMES / 2; left > 0; ) {
      const worker = await rig.join();
      if (kind === "queue") await rig.queue.enqueue(newJob(rig.endpoint.id));
      else {
        const caller = new Departure();
        callers.push(caller);
        const answer = rig.request(Buffer.from("{}"), caller).then(
          ({ body }) => Buffer.isBuffer(body) || body.resume(),
          () => {},
        );
        asked.add(answer);
        void answer.finally(() => asked.delete(answer));
      }
      await worker.peer.next(kind === "queue" ? FRAME.JOB : FRAME.REQUEST);
      left -= await throwAt(worker.peer, Math.min(left, 200), () => frame());
      await rig.link().workerExited(worker.id, "it was made up");
      await rig.queue.purge(rig.endpoint.id);
    }
    for (const caller of callers) caller.gone(); // Those who wait for a worker still.
    await Promise.all(asked);
    const honest = await rig.join();
    if (kind === "queue") {
      const { id } = await rig.queue.enqueue(newJob(rig.endpoint.id));
      const job = await honest.peer.next(FRAME.JOB);
      honest.peer.send(FRAME.RESULT, job.channel, { ok: true, execMs: 1 }, Buffer.from("1"));
      assert.equal((await rig.queue.wait(id, 20_000))?.state, "COMPLETED");
    } else {
      const answer = rig.request(Buffer.from("{}"));
      const { channel } = await honest.peer.next(FRAME.REQUEST);
      honest.peer.send(FRAME.RESULT, channel, { status: 200, headers: [] }, Buffer.from("1"));
      assert.equal((await answer).status, 200);
    }
    assert.deepEqual(errors, []);
  });
}

test("Whatever stands in a HELLO, the platform goes on", async (t) => {
  const errors = noErrors(t);
  const rig = await openLink(t);
  const { head, pick } = fuzzer(randomOf(SEED + 1));
  const { token } = await rig.addWorker();
  const held = ["5", "[null]", "{}", '[{"channel":0,"job":"j","fence":1}]', '[{"channel":1,"job":"j","fence":1e999}]'];
  for (let n = 0; n < Math.max(200, FRAMES / 100); n++) {
    const peer = await rig.dial();
    const known = `{"protocol":1,"role":"worker","token":"${token}","pid":1,"unacknowledged":${pick([...held, ...VALUES])}}`;
    peer.send(FRAME.HELLO, 0, n % 2 === 0 ? known : head());
    peer.socket.end();
    await peer.closed;
  }
  const worker = await rig.join();
  assert.ok(rig.link().isConnected(worker.id));
  assert.deepEqual(errors, []);
});

test("Whatever a launcher says, its frame is taken or refused, and nothing else happens", () => {
  const { frame } = fuzzer(randomOf(SEED + 2));
  const known = ["WORKERS", "STARTED", "EXITED", "BOOT_FAILED", "LOG"] as const;
  const seen = { taken: 0, refused: 0 };
  const texts = (...values: unknown[]) => {
    for (const value of values) assert.equal(typeof value, "string");
  };
  const link = new LauncherLink({
    survived: (worker, share) => {
      texts(worker);
      assert.ok(Number.isFinite((share as { vcpus: number }).vcpus));
    },
    started: ({ worker, how }) => texts(worker, how),
    exited: ({ worker }) => texts(worker),
    bootFailed: (worker) => texts(worker),
    log: (worker, stream, text) => texts(worker, stream, text),
  });
  const channel = { isOpen: true, send: () => {}, onFrame: (_: Frame) => {}, onClose: () => {} };
  link.attach(channel);
  for (let n = 0; n < FRAMES / 4; n++) {
    const bytes = frame(FRAME[known[n % known.length]!]);
    const headBytes = bytes.subarray(12, 12 + bytes.readUInt16BE(6));
    const made = { type: bytes[4]!, flags: 0, channel: 0, headBytes, body: Buffer.from("text") };
    try {
      channel.onFrame(made);
      seen.taken++;
    } catch (error) {
      assert.equal((error as Error).name, "FrameError");
      seen.refused++;
    }
  }
  assert.ok(seen.taken > 0 && seen.refused > 0);
});

test("Whatever an agent says, its frame is taken or refused, and only its own workers are spoken of", async () => {
  const { frame, pick } = fuzzer(randomOf(SEED + 3));
  const size = { vcpus: 4, memoryGb: 8 };
  const machine = { ...size, hardware: size, gpus: [], emulatesGpu: false };
  const ids = ["w-own", "w-other", "", "__proto__", "w-made-up"];
  const events = ["exited", "started", "bootFailed", "log", "programPrinted", "available", "told", "leaving", "x"];
  const started = { worker: "w-other", pid: 1, how: "fork" };
  const failure = { error_type: "E", error_message: "m", error_traceback: "t" };
  const of = [
    5,
    null,
    {},
    { head: started },
    { failure },
    { line: "l", facts: [] },
    { workerId: "w-own", code: 1, signal: null, reason: "r" },
  ];
  const seen = { taken: 0, refused: 0, spoken: new Set<string>() };
  const spoken = (id: string) => void seen.spoken.add(id);
  const host = new RemoteHost(
    {
      ...{ id: "h-1", name: "one", labels: [], driver: "process", version: "0" },
      ...{ sharedVolumes: false, draining: false, pod: "", holder: "" },
    },
    {
      isElsewhere: (id) => id === "w-other",
      exited: ({ workerId }) => spoken(workerId),
      started: ({ worker }) => spoken(worker),
      bootFailed: spoken,
      printed: (_kind, id) => spoken(id),
      came: () => {},
      available: () => {},
      leaving: () => {},
      told: () => {},
    },
    new Map(),
  );
  const attach = () => {
    const made: HostChannel = {
      ...{ isOpen: true, isPaused: false, lastHeard: 0, send: () => {}, close: () => {}, destroy: () => {} },
      ...{ onFrame: (_: Frame) => {}, onClose: () => {} },
    };
    host.attach(made);
    return made;
  };
  let channel = attach();
  const say = (type: number, headBytes: Buffer, body: Buffer) => {
    try {
      channel.onFrame({ type, flags: 0, channel: 0, headBytes, body });
      seen.taken++;
    } catch (error) {
      assert.equal((error as Error).name, "FrameError");
      seen.refused++;
      channel.onClose();
      channel = attach();
    }
  };
  const json = (value: unknown) => Buffer.from(JSON.stringify(value));
  for (let n = 0; n < FRAMES / 4; n++) {
    const share = { ...size, gpus: [] };
    const workers = [
      { worker: "w-own", share },
      { worker: pick(ids), share },
    ].slice(0, pick([1, 2]));
    say(HOST_FRAME.STATE, Buffer.alloc(0), json({ machine, workers, ended: [], missing: [], freeDiskBytes: 1 }));
    const own = n % 2 === 0;
    const random = frame(pick(Object.values(HOST_FRAME)));
    const head = random.subarray(12, 12 + random.readUInt16BE(6));
    say(
      pick(Object.values(HOST_FRAME)),
      own ? json({ event: pick(events), workerId: pick(ids), of: pick(of) }) : head,
      pick(BODIES),
    );
  }
  assert.ok(seen.taken > 0 && seen.refused > 0);
  assert.ok(seen.spoken.has("w-own") && !seen.spoken.has("w-other"));
});
