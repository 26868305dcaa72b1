/** Agents of hosts at the door, played frame by frame, with the store's real tokens. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { type TestContext, test } from "node:test";
import { hashSecret, newSecret } from "../../src/domain/api-key.ts";
import { HOST_FRAME, type HostHello } from "../../src/domain/host-protocol.ts";
import { HOST_AHEAD_MAX, LINK_BURST_BYTES, LINK_RATE_BYTES_PER_S } from "../../src/domain/limits.ts";
import { FRAME, type WelcomeHead } from "../../src/domain/worker-protocol.ts";
import { encodeFrame, type Frame, parseHead } from "../../src/lib/frames.ts";
import type { HostRow, HostTokenRow } from "../../src/store/hosts.ts";
import type { Connection } from "../../src/worker-link/connection.ts";
import type { HostDoor } from "../../src/worker-link/host-greeting.ts";
import { eventually } from "../eventually.ts";
import { openLink, type Peer } from "./link-rig.ts";

const HELLO: HostHello = {
  ...{ name: "gpu-1", version: "1.0.0", platform: "linux", arch: "x64", libc: "glibc 2.36", driver: "process" },
  ...{ labels: ["big"], sharedVolumes: false, clock: Date.now() },
};

async function openDoor(t: TestContext, now?: () => number, more: Partial<HostDoor> = {}) {
  const seen = { came: [] as HostRow[], frames: [] as Frame[], told: [] as string[] };
  let ids = 0;
  const door: HostDoor = {
    hosts: {
      join: (...args) => rig.store.hosts.join(...args),
      admit: (host) => rig.store.hosts.admit(host),
      findBySecret: (hash) => rig.store.hosts.findBySecret(hash),
      seen: (...args) => rig.store.hosts.seen(...args),
    },
    platformId: async () => "this-platform",
    runsOn: { platform: "linux", arch: "x64", isMusl: false },
    newId: () => `h-${++ids}`,
    clock: Date.now,
    attach: (row, connection: Connection) => {
      seen.came.push(row);
      connection.onFrame = (frame) => {
        seen.frames.push(frame);
        if (frame.type === FRAME.PING) connection.send(FRAME.PONG, 0);
      };
    },
    told: (line) => void seen.told.push(line),
    ...more,
  };
  const rig = await openLink(t, {}, { hosts: door }, now);
  const newToken = async (changes: Partial<HostTokenRow> = {}) => {
    const { secret, hash } = newSecret("joinToken");
    const row = { id: hash.slice(0, 8), tokenHash: hash, name: "", reusable: false, expiresAt: null, createdAt: 0 };
    await rig.store.hosts.createToken({ ...row, usedAt: null, revokedAt: null, createdBy: "k", ...changes });
    return secret;
  };
  const hello = async (token: string, changes: Partial<HostHello> = {}): Promise<Peer> => {
    const peer = await rig.dial();
    peer.hello(token, { role: "host", host: { ...HELLO, clock: Date.now(), ...changes } });
    return peer;
  };
  const welcomed = async (peer: Peer) => parseHead<WelcomeHead>(await peer.next(FRAME.WELCOME)).host!;
  const refused = async (peer: Peer) => {
    const { reason } = parseHead<{ reason: string }>(await peer.next(FRAME.REFUSED));
    await peer.closed;
    return reason;
  };
  return { ...rig, seen, newToken, hello, welcomed, refused };
}

test("A token lets a machine in once and gives it a secret, which lets it in from then on", async (t) => {
  const { newToken, hello, welcomed, refused, seen, store } = await openDoor(t);
  const token = await newToken();
  const first = await hello(token, { sharedVolumes: true });
  const { hostId, secret, platformId } = await welcomed(first);
  assert.equal(platformId, "this-platform");
  assert.ok(secret?.startsWith("svchs_"));
  const [row] = await store.hosts.list();
  assert.deepEqual([row!.name, row!.labels, row!.secretHash], ["gpu-1", ["big"], hashSecret(secret ?? "")]);
  assert.match(await refused(await hello(token, { name: "gpu-2" })), /good for one/);
  first.socket.destroy();
  await first.closed;
  const again = await welcomed(await hello(secret ?? "", { labels: ["small"] }));
  assert.deepEqual([again.hostId, again.secret], [hostId, undefined]);
  assert.deepEqual(
    seen.came.map(({ id, labels }) => [id, labels]),
    [
      [hostId, ["big"]],
      [hostId, ["small"]],
    ],
  );
});

test("Who has no good token, another name, or a machine that builds do not run on is refused in words, and its token stays good", async (t) => {
  const { newToken, hello, welcomed, refused } = await openDoor(t);
  assert.match(await refused(await hello("svch_made-up")), /knows no such token/);
  assert.match(await refused(await hello(await newToken({ expiresAt: 1 }))), /expired/);
  assert.match(await refused(await hello(await newToken({ revokedAt: 1 }))), /revoked/);
  assert.match(await refused(await hello(await newToken({ name: "other" }))), /another name/);
  const token = await newToken();
  assert.match(
    await refused(await hello(token, { arch: "arm64" })),
    /are for linux x64, and this machine is linux arm64/,
  );
  assert.match(await refused(await hello(token, { libc: "musl 1.2" })), /this machine is linux x64 with musl/);
  // Containers bring their own.
  assert.match(await refused(await hello("svch_other", { libc: "musl 1.2", driver: "docker" })), /no such token/);
  await welcomed(await hello(token));
  assert.match(await refused(await hello(await newToken())), /another host has this name/);
});

test("A Pod that proves itself joins under its own name and labels, whatever its agent says; one that does not is told why", async (t) => {
  const podOf: HostDoor["podOf"] = async (token) => {
    if (token === "a.pods.token") return { name: "svc-small-1", uid: "uid-1", holder: "", labels: ["small"] };
    return token.includes(".") ? "its token is for somebody else" : undefined;
  };
  const { newToken, hello, welcomed, refused, seen, store } = await openDoor(t, undefined, { podOf });
  const first = await hello("a.pods.token", { name: "platform", labels: ["gpu-h100"] });
  const { secret = "" } = await welcomed(first);
  const [row] = await store.hosts.list();
  assert.deepEqual([row!.name, row!.labels, row!.pod, row!.holder], ["svc-small-1", ["small"], "uid-1", ""]);
  first.socket.destroy();
  await first.closed;
  await welcomed(await hello(secret, { labels: ["gpu-h100"] }));
  assert.deepEqual(seen.came.at(-1)!.labels, ["small"]);
  assert.match(await refused(await hello("another.pods.token")), /for somebody else/);
  await welcomed(await hello(await newToken(), { name: "a-machine" }));
  assert.equal((await store.hosts.list()).find(({ name }) => name === "a-machine")!.pod, "");
});

test("Of two agents with one secret the second stays outside while the first answers, and gets in when it does not", async (t) => {
  const { newToken, hello, welcomed, refused } = await openDoor(t);
  const first = await hello(await newToken());
  const { secret = "" } = await welcomed(first);
  first.send(HOST_FRAME.STATE, 0);
  const answering = first.next(FRAME.PING).then(() => first.send(FRAME.PONG, 0));
  assert.match(await refused(await hello(secret)), /another agent of this host is connected/);
  await answering;
  first.socket.pause();
  await welcomed(await hello(secret)); // The first says nothing now.
});

test("A removed host is refused, and a clock that is far off is told", async (t) => {
  const { newToken, hello, welcomed, refused, seen, store } = await openDoor(t);
  const peer = await hello(await newToken(), { clock: Date.now() + 3_600_000 });
  const { hostId, secret = "" } = await welcomed(peer);
  assert.match(seen.told.join(), /clock of the machine gpu-1 differs/);
  await store.hosts.remove(hostId);
  assert.match(await refused(await hello(secret)), /knows no such token and no such host/);
});

test("An agent that floods the platform is not read from until it is within its rate, and nothing of it is lost", async (t) => {
  let now = 0;
  const { newToken, hello, welcomed, seen, join } = await openDoor(t, () => now);
  const flooder = await hello(await newToken());
  await welcomed(flooder);
  const text = Buffer.alloc(60_000, "x");
  const line = Buffer.concat(encodeFrame(HOST_FRAME.EVENT, 0, { event: "log", workerId: "w", stream: "stdout" }, text));
  const count = Math.ceil((2 * LINK_BURST_BYTES) / text.length);
  const poured = (async () => {
    for (let n = 0; n < count; n++) if (!flooder.socket.write(line)) await once(flooder.socket, "drain");
  })();
  await eventually(() => assert.ok(seen.frames.length * text.length > 0.9 * LINK_BURST_BYTES));
  await join();
  assert.ok(seen.frames.length < count, "it is held up");
  await eventually(() => {
    now += (LINK_BURST_BYTES * 1_000) / LINK_RATE_BYTES_PER_S;
    assert.equal(seen.frames.length, count);
  });
  await poured;
});

test("A link of a host waits for its worker beyond the time of greeters, and as long as its agent's link is open", async (t) => {
  const { newToken, hello, welcomed, dial, addWorker } = await openDoor(t);
  const agent = await hello(await newToken());
  const { ahead = "" } = await welcomed(agent);
  const waits = async (ticket: string) => {
    const peer = await dial();
    peer.hello(ticket, { role: "ahead" });
    return peer;
  };
  const first = await waits(ahead);
  const second = await waits(ahead);
  const silent = await dial();
  await silent.closed;
  assert.ok(!first.socket.destroyed && !second.socket.destroyed);

  const worker = await addWorker();
  first.hello(worker.token);
  await first.next(FRAME.WELCOME);
  agent.socket.destroy();
  await second.closed;
  assert.ok(!first.socket.destroyed, "it is a worker's now");
  await (await waits(ahead)).closed; // The ticket was the agent's link's.
});

test("A ticket is good for waiting alone, for so many links at once", async (t) => {
  const { newToken, hello, welcomed, refused, dial, addWorker } = await openDoor(t);
  const { ahead = "" } = await welcomed(await hello(await newToken()));
  const waits = async (ticket: string) => {
    const peer = await dial();
    peer.hello(ticket, { role: "ahead" });
    return peer;
  };
  await (await waits("made-up")).closed;
  const asWorker = await dial();
  asWorker.hello(ahead);
  assert.equal(await refused(asWorker), "unknown worker");
  assert.match(await refused(await hello(ahead)), /knows no such token/);

  const peers = await Promise.all(Array.from({ length: HOST_AHEAD_MAX + 1 }, () => waits(ahead)));
  await Promise.race(peers.map(({ closed }) => closed));
  const [first, second, ...others] = peers.filter(({ socket }) => !socket.destroyed);
  assert.equal(others.length, HOST_AHEAD_MAX - 2);
  first!.send(FRAME.PING, 0); // Nothing but HELLO may be said.
  await first!.closed;
  const worker = await addWorker();
  second!.hello(worker.token);
  await second!.next(FRAME.WELCOME);
});

test("A platform that no machine can join says so", async (t) => {
  const rig = await openLink(t);
  const peer = await rig.dial();
  peer.hello("svch_x", { role: "host", host: HELLO });
  assert.match(
    parseHead<{ reason: string }>(await peer.next(FRAME.REFUSED)).reason,
    /no machine can join this platform/,
  );
});
