import assert from "node:assert/strict";
import { test } from "node:test";
import { type ExitedHead, FRAME, type StartHead } from "../../src/domain/worker-protocol.ts";
import { type LauncherChannel, LauncherLink } from "../../src/drivers/launcher-link.ts";
import { encodeFrame, FrameReader } from "../../src/lib/frames.ts";

class Channel implements LauncherChannel {
  readonly isOpen = true;
  readonly sent: { type: number; head: object | undefined; body: Uint8Array | undefined }[] = [];
  onFrame: LauncherChannel["onFrame"] = () => {};
  onClose: LauncherChannel["onClose"] = () => {};

  send(type: number, _channel: number, head?: object, body?: Uint8Array): void {
    this.sent.push({ type, head, body });
  }

  /** The launcher says this. */
  says(type: number, head: object): void {
    const [frame] = new FrameReader(1_000_000).push(Buffer.concat(encodeFrame(type, 0, head)));
    this.onFrame(frame!);
  }
}

function linked() {
  const exits: ExitedHead[] = [];
  const survived: string[] = [];
  let available = 0;
  const link = new LauncherLink({
    survived: (worker) => survived.push(worker),
    started: () => {},
    exited: (head) => exits.push(head),
    bootFailed: () => {},
    log: () => {},
    available: () => {
      available += 1;
    },
  });
  const channel = new Channel();
  link.attach(channel);
  return { link, channel, exits, survived, available: () => available };
}

const start = (worker: string, env: Record<string, string> = {}) => ({ worker, env }) as unknown as StartHead;
const share = { vcpus: 1, memoryGb: 1, gpus: [] };

test("Who runs is known once the launcher has said it, not before", async () => {
  const { link, channel, survived, available } = linked();
  assert.equal(link.isKnown, false);
  channel.says(FRAME.WORKERS, { workers: [{ worker: "w-1", pid: 1, share }] });
  await link.connected();
  assert.deepEqual([link.isKnown, [...link.alive], survived, available()], [true, ["w-1"], ["w-1"], 1]);
});

test("A worker whose START got lost with the link is counted out without blame; those that ended keep their own reason", () => {
  const { link, channel, exits } = linked();
  channel.says(FRAME.WORKERS, { workers: [] });
  for (const worker of ["ended", "lost", "runs"]) link.startWorker(start(worker));
  channel.onClose();
  assert.equal(link.isUp, false);
  const again = new Channel();
  link.attach(again);
  again.says(FRAME.EXITED, { worker: "ended", code: 3, signal: null, reason: "exited with code 3" });
  again.says(FRAME.WORKERS, { workers: [{ worker: "runs", pid: 1, share }] });
  assert.deepEqual(
    exits.map(({ worker, cause }) => [worker, cause]),
    [
      ["ended", undefined],
      ["lost", "machine"],
    ],
  );
  assert.deepEqual([...link.alive], ["runs"]);
});

test("No worker is started before the launcher has said who runs: that list, sent before, would count it out", () => {
  const { link, channel, exits } = linked();
  assert.throws(() => link.startWorker(start("early")));
  channel.says(FRAME.WORKERS, { workers: [] });
  link.startWorker(start("w-1"));
  const again = new Channel();
  link.attach(again);
  assert.equal(link.isReady, false);
  assert.throws(() => link.startWorker(start("early")));
  again.says(FRAME.WORKERS, { workers: [{ worker: "w-1", pid: 1, share }] });
  link.startWorker(start("w-2"));
  assert.deepEqual([exits, [...link.alive]], [[], ["w-1", "w-2"]]);
  again.onClose();
  assert.equal(link.isReady, false);
});

test("A launcher that is gone takes its workers along: all are counted out without blame", () => {
  const { link, channel, exits } = linked();
  channel.says(FRAME.WORKERS, { workers: [] });
  for (const worker of ["w-1", "w-2"]) link.startWorker(start(worker));
  channel.onClose();
  link.expectAnother("its launcher was killed by SIGKILL");
  assert.deepEqual(
    exits.map(({ worker, cause, reason }) => [worker, cause, reason]),
    [
      ["w-1", "machine", "its launcher was killed by SIGKILL"],
      ["w-2", "machine", "its launcher was killed by SIGKILL"],
    ],
  );
  assert.deepEqual([link.alive.size, link.isKnown], [0, true]);
});

test("A start without a launcher is refused and leaves no worker behind", () => {
  const { link, channel } = linked();
  channel.onClose();
  assert.throws(() => link.startWorker(start("w-1")));
  assert.equal(link.alive.size, 0);
});

test("A worker that is to end while its launcher is away ends when that is back; one that ended meanwhile is nobody's any more", () => {
  const { link, channel } = linked();
  // Before the launcher has come for the first time, nobody knows who runs.
  channel.onClose();
  link.stopWorker("of-before", 300);
  const again = new Channel();
  link.attach(again);
  again.says(FRAME.WORKERS, { workers: [{ worker: "of-before", pid: 1, share }] });
  for (const worker of ["runs", "ended"]) link.startWorker(start(worker));
  again.onClose();
  for (const worker of ["runs", "ended", "unknown"]) link.stopWorker(worker, 0);
  const third = new Channel();
  link.attach(third);
  third.says(FRAME.WORKERS, { workers: [{ worker: "runs", pid: 2, share }] });
  const stops = [again, third].map(({ sent }) =>
    sent.filter(({ type }) => type === FRAME.STOP).map(({ head }) => head),
  );
  assert.deepEqual(stops, [[{ worker: "of-before", graceMs: 300 }], [{ worker: "runs", graceMs: 0 }]]);
});

test("An older connection that closes late does not cut off the newer one", () => {
  const { link, channel } = linked();
  link.attach(new Channel());
  channel.onClose();
  assert.equal(link.isUp, true);
});

test("Variables of many bytes travel beside the head", () => {
  const { link, channel } = linked();
  channel.says(FRAME.WORKERS, { workers: [] });
  link.startWorker(start("small", { A: "x" }));
  link.startWorker(start("large", { A: "x".repeat(65_000) }));
  const [small, large] = channel.sent;
  assert.deepEqual([small!.head, small!.body], [{ worker: "small", env: { A: "x" } }, undefined]);
  assert.deepEqual(large!.head, { worker: "large" });
  assert.equal(JSON.parse(Buffer.from(large!.body!).toString()).A.length, 65_000);
});
