/** The port where platforms on one database dial each other: who gets in, and what strangers can do there. */
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { type AddressInfo, connect as connectTcp, createServer as createTcpServer, type Socket } from "node:net";
import { type TestContext, test } from "node:test";
import { type ConnectionOptions, connect, createServer } from "node:tls";
import { LINK_GREETERS_MAX } from "../../src/domain/limits.ts";
import {
  dialReplica,
  REPLICA_PROTOCOLS,
  ReplicaDoor,
  type ReplicaProtocol,
} from "../../src/gateway-link/replica-door.ts";
import { selfSignedCertificate } from "../../src/lib/self-signed-certificate.ts";
import { eventually } from "../eventually.ts";

const OURS = selfSignedCertificate("svc replica link");
const HOST = "127.0.0.1";

async function open(t: TestContext) {
  const accepted: ReplicaProtocol[] = [];
  const heard: string[] = [];
  const door = new ReplicaDoor(OURS, (socket, protocol) => {
    accepted.push(protocol);
    socket.on("data", (bytes) => {
      heard.push(bytes.toString());
      socket.write("you said it");
    });
  });
  const port = await door.listen({ host: HOST, port: 0 });
  t.after(() => door.close());
  return { door, accepted, heard, port };
}

/** Resolves when the other end, or this one, has closed it. */
async function closed(socket: Socket): Promise<void> {
  socket.on("error", () => {});
  socket.resume();
  if (!socket.closed) await new Promise((resolve) => socket.once("close", resolve));
}

test("Both ends have the same key: they agree on what they speak, and bytes go both ways", async (t) => {
  const { accepted, heard, port } = await open(t);
  for (const protocol of ["link", "calls"] as const) {
    const socket = await dialReplica({ host: HOST, port }, OURS, protocol);
    socket.write(`hello ${protocol}`);
    assert.equal((await once(socket, "data"))[0].toString(), "you said it");
    socket.destroy();
  }
  assert.deepEqual(
    [accepted, heard],
    [
      ["link", "calls"],
      ["hello link", "hello calls"],
    ],
  );
});

test("Whoever has dialled is let in, or gone, when it is said that all are greeted", async (t) => {
  const { door, accepted, port } = await open(t);
  await door.greeted();
  const silent = connectTcp(port, HOST);
  await once(silent, "connect");
  // Both have come: it is in TLS that the other end of this one is there first.
  const dialled = await dialReplica({ host: HOST, port }, OURS, "calls");
  let isGreeted = false;
  const greeted = door.greeted().then(() => {
    isGreeted = true;
  });
  await eventually(() => assert.deepEqual(accepted, ["calls"]));
  assert.equal(isGreeted, false, "one has said nothing yet");
  silent.destroy();
  await greeted;
  const next = await dialReplica({ host: HOST, port }, OURS, "link");
  await door.greeted();
  assert.deepEqual(accepted, ["calls", "link"]);
  for (const socket of [dialled, next]) socket.destroy();
});

test("Who has no key, another key, another protocol or an older TLS is not let in, and says nothing to anybody", async (t) => {
  const { accepted, heard, port } = await open(t);
  const other = selfSignedCertificate("svc replica link");
  const ALPNProtocols = [REPLICA_PROTOCOLS.link];
  const strangers: Record<string, ConnectionOptions> = {
    "no certificate": { ALPNProtocols },
    "a certificate of its own, of the same name": { ALPNProtocols, ...other },
    "no protocol": { ...OURS },
    "another protocol": { ...OURS, ALPNProtocols: ["http/1.1"] },
    "TLS 1.2": { ...OURS, ALPNProtocols, maxVersion: "TLSv1.2" },
  };
  for (const [who, options] of Object.entries(strangers)) {
    const socket = connect({ ...options, host: HOST, port, rejectUnauthorized: false });
    socket.on("secureConnect", () => socket.write(Buffer.alloc(1_000_000)));
    await closed(socket);
    assert.deepEqual([accepted, heard], [[], []], who);
  }
  // The certificate alone is known to whoever listens on the way; its key is not.
  assert.throws(() => connect({ cert: OURS.cert, key: other.key, host: HOST, port, rejectUnauthorized: false }));
});

test("What one said who proved itself proves nothing when another says it again", async (t) => {
  const { accepted, port } = await open(t);
  const said: Buffer[] = [];
  const way = createTcpServer((socket) => {
    const door = connectTcp(port, HOST);
    for (const one of [socket, door]) one.on("error", () => {});
    socket.on("data", (bytes) => said.push(bytes));
    socket.pipe(door).pipe(socket);
  });
  way.listen(0, HOST);
  await once(way, "listening");
  t.after(() => way.close());
  const proved = await dialReplica({ host: HOST, port: (way.address() as AddressInfo).port }, OURS, "link");
  proved.write("once");
  await once(proved, "data");
  proved.destroy();
  assert.deepEqual(accepted, ["link"]);
  const again = connectTcp(port, HOST);
  for (const bytes of said) again.write(bytes);
  await closed(again);
  assert.deepEqual(accepted, ["link"]);
});

test("Bytes that are no TLS, and frames of 4 GiB, end the connection", async (t) => {
  const { accepted, port } = await open(t);
  for (const said of [
    Buffer.from("GET / HTTP/1.1\r\n\r\n"),
    Buffer.alloc(64, 0xff),
    Buffer.from([0x16, 3, 1, 0xff, 0xff]),
  ]) {
    const socket = connectTcp(port, HOST);
    socket.end(said);
    await closed(socket);
  }
  assert.deepEqual(accepted, []);
});

test("Strangers who say nothing, or little by little, are few at a time, and keep nobody out for ever", async (t) => {
  const { accepted, port } = await open(t);
  const silent = Array.from({ length: LINK_GREETERS_MAX + 20 }, () => connectTcp(port, HOST));
  for (const socket of silent) socket.on("error", () => {});
  const ended = silent.map((socket) => closed(socket));
  for (const socket of silent) socket.write(Buffer.of(0x16));
  // Those beyond the bound go at once, the others after the time for a greeting.
  await Promise.race(ended);
  await eventually(async () => {
    const socket = await dialReplica({ host: HOST, port }, OURS, "link");
    socket.write("here");
    await once(socket, "data");
    socket.destroy();
  });
  await Promise.all(ended);
  assert.deepEqual(accepted.at(-1), "link");
});

test("What answers with another certificate is told nothing", async (t) => {
  const heard: string[] = [];
  const stranger = createServer(
    { ...selfSignedCertificate("svc replica link"), ALPNProtocols: ["svc-link"] },
    (socket) => {
      socket.on("error", () => {});
      socket.on("data", (bytes) => heard.push(bytes.toString()));
    },
  );
  stranger.listen(0, HOST);
  await once(stranger, "listening");
  t.after(() => stranger.close());
  const { port } = stranger.address() as { port: number };
  await assert.rejects(dialReplica({ host: HOST, port }, OURS, "link"), {
    code: "PLATFORM_UNREACHABLE",
    message: /is no platform on the same database/,
  });
  assert.deepEqual(heard, []);
});

/** Listens, and dials the port that it is given; says its own port when both are there. */
const PLATFORM = `
import { dialReplica, ReplicaDoor } from ${JSON.stringify(new URL("../../src/gateway-link/replica-door.ts", import.meta.url))};
const { certificate, port, protocol } = JSON.parse(process.env.PLATFORM);
const door = new ReplicaDoor(certificate, (socket) => socket.resume());
const own = await door.listen({ host: "${HOST}", port: 0 });
(await dialReplica({ host: "${HOST}", port }, certificate, protocol)).resume();
console.log(own);
`;

for (const protocol of ["link", "machines"] as const) {
  test(`A ${protocol} connection closes when the platform at its other end is killed, though nothing is said on it`, async (t) => {
    const accepted: Socket[] = [];
    const door = new ReplicaDoor(OURS, (socket) => accepted.push(socket.resume()));
    t.after(() => door.close());
    const port = await door.listen({ host: HOST, port: 0 });
    const env = { ...process.env, PLATFORM: JSON.stringify({ certificate: OURS, port, protocol }) };
    const child = spawn(process.execPath, ["--input-type=module", "-e", PLATFORM], {
      env,
      stdio: ["ignore", "pipe", "inherit"],
    });
    t.after(() => child.kill("SIGKILL"));
    const [said] = await once(child.stdout, "data");
    const dialled = await dialReplica({ host: HOST, port: Number(said) }, OURS, protocol);
    await eventually(() => assert.equal(accepted.length, 1));
    const both = Promise.all([closed(dialled), closed(accepted[0]!)]);
    child.kill("SIGKILL");
    await both;
  });
}
