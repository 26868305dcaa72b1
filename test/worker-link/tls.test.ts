import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { type AddressInfo, connect as connectPlain, createServer } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { type Duplex, pipeline } from "node:stream";
import { after, afterEach, before, describe, type TestContext, test } from "node:test";
import { connect, type TLSSocket } from "node:tls";
import { hashSecret, newSecret } from "../../src/domain/api-key.ts";
import { LINK_GREETING_MAX_BYTES } from "../../src/domain/limits.ts";
import { ALL_MINE } from "../../src/domain/own-endpoints.ts";
import { type ExitedHead, FRAME, PROTOCOL_VERSION, type WelcomeHead } from "../../src/domain/worker-protocol.ts";
import { Interpreters } from "../../src/drivers/interpreter.ts";
import { encodeFrame, type Frame, FrameReader, parseHead } from "../../src/lib/frames.ts";
import { runProcess } from "../../src/lib/run-process.ts";
import { fingerprint, selfSignedCertificate } from "../../src/lib/self-signed-certificate.ts";
import { openSqliteQueue } from "../../src/queue/sqlite-queue.ts";
import { openPlatformDatabase } from "../../src/store/platform-database.ts";
import { openSqliteStore } from "../../src/store/sqlite-store.ts";
import type { Connection } from "../../src/worker-link/connection.ts";
import { WorkerLink } from "../../src/worker-link/worker-link.ts";
import { newEndpoint, newWorker } from "../conformance/store.ts";
import { eventually } from "../eventually.ts";
import { QUIET_HOOKS } from "./quiet-hooks.ts";

const PYTHON_SOURCE = path.resolve(import.meta.dirname, "../../python/src");
const LAUNCHER_SECRET = "the launcher's secret";

/** A start or frame that never comes fails its test by then, and ends what the test started. */
const EACH_MAX_MS = 60_000;
const dialled = new Set<TLSSocket>();

describe("the worker link over TLS", { timeout: 6 * EACH_MAX_MS }, () => {
  const certificate = selfSignedCertificate("svc worker link");
  const pin = fingerprint(certificate.cert);
  const exits = new Map<string, (head: ExitedHead) => void>();
  let dir: string;
  let port: number;
  let close = async () => {};
  let launcher: Connection | undefined;
  let launcherCame = Promise.withResolvers<Connection>();
  let store: Awaited<ReturnType<typeof openSqliteStore>>;
  let queue: Awaited<ReturnType<typeof openSqliteQueue>>;
  let handler: string;
  let python: string;

  before(async () => {
    dir = mkdtempSync(path.join(tmpdir(), "svc-tls-"));
    const database = openPlatformDatabase(dir, "normal");
    store = await openSqliteStore(database);
    queue = await openSqliteQueue({ database, blobDir: path.join(dir, "blobs"), clock: Date.now });
    handler = workerCode(dir);
    python = (await new Interpreters(undefined).default()).path;
    const link = new WorkerLink({
      store,
      endpoints: store.endpoints,
      isMine: ALL_MINE,
      queue,
      hooks: {
        ...QUIET_HOOKS,
        platformUrl: () => Promise.reject(new Error("it is for workers of this machine")),
        launcherConnected: (secret, connection) => {
          if (secret !== LAUNCHER_SECRET) return false;
          launcher = connection;
          connection.onFrame = (frame: Frame) => {
            const head = parseHead<ExitedHead>(frame);
            if (frame.type === FRAME.EXITED) exits.get(head.worker)?.(head);
          };
          launcherCame.resolve(connection);
          return true;
        },
        hosts: {
          hosts: store.hosts,
          platformId: async () => "p",
          runsOn: { platform: "linux", arch: "x64", isMusl: false },
          newId: () => "h-1",
          clock: Date.now,
          attach: () => {},
          told: () => {},
        },
      },
    });
    await link.listen(path.join(dir, "p.sock"));
    port = await link.listenTls({ host: "127.0.0.1", port: 0, ...certificate });
    // Who wants a port that another has hears by which setting it is named.
    const again = link.listenTls({ host: "127.0.0.1", port, ...certificate });
    await assert.rejects(again, { code: "PORT_IN_USE", help: /SVC_WORKER_LISTEN/ });
    close = async () => {
      launcher?.close();
      await link.close();
      await queue.close();
      await store.close();
      database.close();
      rmSync(dir, { recursive: true, force: true });
    };
  });
  after(() => close());

  afterEach(() => {
    for (const socket of dialled) socket.destroy();
    dialled.clear();
  });

  const address = (known = pin) => `tls://127.0.0.1:${port}#${known}`;

  /** A launcher as another machine would run it: what it knows of the platform is an address. */
  function launch(t: TestContext, socket: string, token = LAUNCHER_SECRET) {
    const child = spawn(python, ["-I", "-S", path.join(PYTHON_SOURCE, "svc/_runtime/launcher.py")], {
      stdio: ["pipe", "ignore", "pipe"],
    });
    const exited = once(child, "exit");
    child.stdin.end(`${JSON.stringify({ socket, token, id: "launcher", reconnectMs: 400 })}\n`);
    let said = "";
    child.stderr.setEncoding("utf8").on("data", (text: string) => {
      said += text;
    });
    t.after(async () => {
      child.kill("SIGKILL");
      await exited;
    });
    return { exited, said: () => said };
  }

  function start(worker: string, token: string, changes: object = {}): Promise<ExitedHead> {
    launcher!.send(FRAME.START, 0, {
      worker,
      token,
      zygote: `e:${worker}`,
      python,
      boot: "SVCBOOT",
      handler,
      paths: [path.join(dir, "src")],
      endpoint: { id: "e", name: "hello", app: "a", environment: "production", kind: "queue" },
      env: {},
      concurrency: 1,
      socket: address(),
      tempDir: path.join(dir, "tmp", worker),
      reconnectMs: 400,
      isolation: "none",
      hidden: [],
      ...changes,
    });
    return new Promise((resolve) => exits.set(worker, resolve));
  }

  test("a launcher and its workers of another machine dial in by TLS and run jobs of any size", {
    timeout: EACH_MAX_MS,
  }, async (t) => {
    launcherCame = Promise.withResolvers();
    launch(t, address());
    await launcherCame.promise;
    const endpoint = newEndpoint(null);
    await store.endpoints.insert(endpoint);
    for (const [id, concurrency, boot] of [
      ["w-blocking", 1, "SVCBOOT"],
      ["w-threads", 3, "SVCBOOT"],
      ["w-spawned", 1, "OFF"],
    ] as const) {
      await store.workers.insert(newWorker(endpoint.id, { id, tokenHash: hashSecret(`token of ${id}`) }));
      const exited = start(id, `token of ${id}`, { concurrency, boot });
      for (const bytes of [1, 100_000, 3_000_000]) {
        const jobs = Array.from({ length: bytes > 100_000 ? 1 : 20 }, () => `${id}-${Math.random()}`);
        for (const job of jobs) await queue.enqueue(newJob(job, endpoint.id, { text: "é".repeat(bytes / 2) }));
        for (const job of jobs) {
          const done = await queue.wait(job, 20_000);
          assert.deepEqual([done?.state, done?.error], ["COMPLETED", ""], `${id} ${bytes}`);
          assert.equal(JSON.parse(Buffer.from(done!.output!).toString()).length, Math.floor(bytes / 2));
        }
      }
      launcher!.send(FRAME.STOP, 0, { worker: id, graceMs: 5000 });
      assert.equal((await exited).code, 0);
    }
  });

  test("a spare of a host dials before it is a worker, and one whose link was closed dials again", {
    timeout: EACH_MAX_MS,
  }, async (t) => {
    launcherCame = Promise.withResolvers();
    launch(t, address());
    await launcherCame.promise;
    const agent = await dial(port);
    const { secret, hash } = newSecret("joinToken");
    const row = { id: "t", tokenHash: hash, name: "", reusable: false, expiresAt: null, createdAt: 0 };
    await store.hosts.createToken({ ...row, usedAt: null, revokedAt: null, createdBy: "k" });
    const facts = { name: "gpu-1", version: "1", platform: "linux", arch: "x64", libc: "", driver: "process" as const };
    const host = { ...facts, labels: [], sharedVolumes: false, clock: Date.now() };
    const welcome = nextFrame(agent);
    agent.write(Buffer.concat(encodeFrame(FRAME.HELLO, 0, { protocol: 1, role: "host", token: secret, host })));
    const { ahead } = parseHead<WelcomeHead>(await welcome).host!;
    const way = await countedWay(t, port);
    const endpoint = newEndpoint(null);
    await store.endpoints.insert(endpoint);
    const runs = async (worker: string) => {
      await store.workers.insert(newWorker(endpoint.id, { id: worker, tokenHash: hashSecret(`token of ${worker}`) }));
      const exited = start(worker, `token of ${worker}`, { zygote: "e:ahead", socket: `${way.address}#${pin}`, ahead });
      await queue.enqueue(newJob(worker, endpoint.id, { text: "x" }));
      assert.equal((await queue.wait(worker, 20_000))?.state, "COMPLETED");
      launcher!.send(FRAME.STOP, 0, { worker, graceMs: 5000 });
      await exited;
    };
    await runs("w-first");
    await way.came(2); // Its own link, and the spare's.
    way.setOpen(false);
    await runs("w-ahead");
    way.setOpen(true);
    await runs("w-forked");
    await way.came(4);
    agent.destroy(); // What waits is closed with it.
    await way.went(4);
    await runs("w-again");
  });

  test("a worker tells its token to no other platform than the one whose certificate it knows", {
    timeout: EACH_MAX_MS,
  }, async (t) => {
    launcherCame = Promise.withResolvers();
    launch(t, address());
    await launcherCame.promise;
    const other = selfSignedCertificate("svc worker link");
    const exited = await start("w-misled", "a token", { socket: address(fingerprint(other.cert)) });
    assert.notEqual(exited.code, 0);
    // Without a fingerprint the machine's authorities must vouch for the certificate.
    assert.notEqual((await start("w-trusting", "a token", { socket: `tls://127.0.0.1:${port}` })).code, 0);
  });

  test("a pinned certificate needs no authorities: they are not read, and forks share what was made once", {
    timeout: EACH_MAX_MS,
  }, async () => {
    const script = `
from svc._runtime.link.tls import context_for
pinned = context_for("ab")
assert pinned is context_for("cd") and not pinned.get_ca_certs() and pinned.cert_store_stats()["x509"] == 0
assert context_for("").check_hostname and context_for("").verify_mode.name == "CERT_REQUIRED"
`;
    const { code, stderr } = await runProcess(python, ["-c", script], { env: { PYTHONPATH: PYTHON_SOURCE } });
    assert.equal(code, 0, stderr);
  });

  test("a wrong token is refused: of a worker, and of a launcher", { timeout: EACH_MAX_MS }, async (t) => {
    const launched = launch(t, address(), "not the secret");
    await launched.exited;
    const socket = await dial(port);
    socket.write(hello("not a token"));
    const [frame] = await frames(socket);
    assert.equal(frame?.type, FRAME.REFUSED);
    assert.deepEqual(parseHead(frame!), { reason: "unknown worker" });
  });

  test("plain text, older TLS, a flood before HELLO and anything but HELLO are closed", {
    timeout: EACH_MAX_MS,
  }, async () => {
    const plain = connectPlain(port, "127.0.0.1");
    plain.on("error", () => {}).resume();
    plain.write(hello("a token"));
    await new Promise((resolve) => plain.once("close", resolve));

    const old = connect({ port, host: "127.0.0.1", rejectUnauthorized: false, maxVersion: "TLSv1.2" });
    await assert.rejects(once(old, "secureConnect"));

    for (const bytes of [
      Buffer.concat(encodeFrame(FRAME.PING, 0)),
      hello("x".repeat(60_000), LINK_GREETING_MAX_BYTES),
    ]) {
      const socket = await dial(port);
      socket.write(bytes);
      assert.deepEqual(await frames(socket), []);
    }
  });
});

/** A function that gives back what it got. Returns the handler's path. */
function workerCode(dir: string): string {
  mkdirSync(path.join(dir, "src"));
  writeFileSync(path.join(dir, "src", "echo.py"), "def run(text):\n    return text\n");
  const file = path.join(dir, "handler.py");
  const functions = '[{"module": "echo", "name": "run", "kind": "function"}]';
  const call = `load_endpoint(name="hello", kind="queue", functions=${functions}, routes={})`;
  writeFileSync(file, `from svc._runtime.loader import load_endpoint\nendpoint = ${call}\n`);
  return file;
}

function newJob(id: string, endpointId: string, input: object) {
  return {
    id,
    endpointId,
    input: Buffer.from(JSON.stringify(input)),
    method: "",
    webhook: "",
    lowPriority: false,
    executionTimeoutMs: 60_000,
    ttlMs: 600_000,
    retentionMs: 60_000,
    idempotencyKey: "",
  };
}

function hello(token: string, bodyBytes = 0): Buffer {
  const head = { protocol: PROTOCOL_VERSION, role: "worker", token, worker: "w", pid: 1, unacknowledged: [] };
  return Buffer.concat(encodeFrame(FRAME.HELLO, 0, head, Buffer.alloc(bodyBytes)));
}

async function dial(port: number): Promise<TLSSocket> {
  const socket = connect({ port, host: "127.0.0.1", rejectUnauthorized: false });
  dialled.add(socket);
  await once(socket, "secureConnect");
  return socket;
}

async function nextFrame(socket: TLSSocket): Promise<Frame> {
  const reader = new FrameReader(1e6);
  for await (const chunk of socket.iterator({ destroyOnReturn: false })) {
    const [frame] = [...reader.push(chunk as Buffer)];
    if (frame !== undefined) return frame;
  }
  throw new Error("closed");
}

/** A way to the port that counts who takes it, and can be closed to those who come. */
async function countedWay(t: TestContext, port: number) {
  const seen = { isOpen: true, came: 0, went: 0 };
  const sockets = new Set<Duplex>();
  const server = createServer((socket) => {
    if (!seen.isOpen) return socket.destroy();
    seen.came++;
    const onward = connectPlain(port, "127.0.0.1");
    for (const end of [socket, onward]) {
      sockets.add(end);
      end.on("error", () => {});
    }
    socket.on("close", () => seen.went++);
    pipeline(socket, onward, socket, () => {});
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    server.close();
    for (const socket of sockets) socket.destroy();
  });
  const until = (what: "came" | "went") => (count: number) => eventually(() => assert.equal(seen[what], count));
  return {
    address: `tls://127.0.0.1:${(server.address() as AddressInfo).port}`,
    came: until("came"),
    went: until("went"),
    setOpen: (isOpen: boolean) => Object.assign(seen, { isOpen }),
  };
}

/** What comes until the other side closes. */
async function frames(socket: TLSSocket): Promise<Frame[]> {
  const reader = new FrameReader(1e6);
  const found: Frame[] = [];
  socket.on("data", (chunk: Buffer) => found.push(...reader.push(chunk))).on("error", () => {});
  await new Promise((resolve) => socket.once("close", resolve));
  return found;
}
