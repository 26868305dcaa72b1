/**
 * Round trips per second between Node and one Python worker: jobs of a hello function through the worker protocol, with 1, 8
 * and 64 in flight, against a bare echo of as many bytes over a Unix socket. No HTTP, no queue.
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { FRAME, type HelloHead } from "../src/domain/worker-protocol.ts";
import { type Frame, parseHead } from "../src/lib/frames.ts";
import { getOrInsert } from "../src/lib/get-or-insert.ts";
import { Connection } from "../src/worker-link/connection.ts";
import { atLeast, type Bench, median } from "./bench.ts";
import { eachUs, processorTime } from "./processor-time.ts";

const IN_FLIGHT = [1, 8, 64];
const SECONDS = 1;
const INPUT = Buffer.from(JSON.stringify({ name: "x".repeat(80) }));
const PYTHON = path.resolve(import.meta.dirname, "../python/src");
const ECHO = `
import socket, sys
link = socket.socket(socket.AF_UNIX)
link.connect(sys.argv[1])
while data := link.recv(65536):
    link.sendall(data)
`;

export const bench: Bench = async ({ rounds }) => {
  const dir = mkdtempSync(path.join(tmpdir(), "svc-bench-"));
  const seen = new Map<string, number[]>();
  const note = (name: string, value: number) => getOrInsert(seen, name, () => []).push(value);
  const echo = await startEcho(dir);
  const worker = await startWorker(dir);
  try {
    for (let round = 0; round < rounds; round++) {
      for (const n of IN_FLIGHT) {
        for (const [what, peer] of Object.entries({ "jobs/s": worker, "bare echoes/s": echo })) {
          const { perSecond, us } = await peer.load(n);
          note(`${what}, ${n} in flight`, perSecond);
          for (const [part, value] of Object.entries(us)) note(`${what}, ${n} in flight: µs each, ${part}`, value);
        }
      }
    }
  } finally {
    await worker.stop();
    await echo.stop();
    rmSync(dir, { recursive: true, force: true });
  }
  const figures = Object.fromEntries([...seen].map(([name, values]) => [name, median(values)]));
  for (const n of IN_FLIGHT) {
    figures[`jobs per bare echo, ${n} in flight`] =
      figures[`jobs/s, ${n} in flight`]! / figures[`bare echoes/s, ${n} in flight`]!;
  }
  return {
    conditions: { input: `${INPUT.length} bytes`, function: "def hello(name): return name", rounds: String(rounds) },
    figures,
    bars: { "jobs per bare echo, 1 in flight": atLeast(figures["jobs per bare echo, 1 in flight"]!, 0.4) },
  };
};

interface Peer {
  /** Round trips with this many in flight, and the processor time of each on both sides. */
  load(inFlight: number): Promise<{ readonly perSecond: number; readonly us: Readonly<Record<string, number>> }>;
  stop(): Promise<void>;
}

/** Keeps `inFlight` going for the measured time; `send` starts one, and `done` is called for each that came back. */
async function measure(pid: number, inFlight: number, send: () => void, onDone: (done: () => void) => void) {
  const spent = processorTime({ node: { pids: [process.pid] }, python: { pids: [pid], tree: true } });
  let done = 0;
  let sent = 0;
  const end = performance.now() + SECONDS * 1000;
  const started = performance.now();
  const { promise, resolve } = Promise.withResolvers<void>();
  const next = () => {
    sent += 1;
    send();
  };
  onDone(() => {
    done += 1;
    if (performance.now() < end) next();
    else if (done === sent) resolve();
  });
  for (let i = 0; i < inFlight; i++) next();
  await promise;
  return { perSecond: (done / (performance.now() - started)) * 1000, us: eachUs(spent(), done) };
}

async function listen(socketPath: string, accept: (socket: Socket) => void): Promise<Server> {
  const server = createServer(accept).listen(socketPath);
  await once(server, "listening");
  return server;
}

async function startEcho(dir: string): Promise<Peer> {
  const file = path.join(dir, "echo.py");
  writeFileSync(file, ECHO);
  const socketPath = path.join(dir, "echo.sock");
  const { promise, resolve } = Promise.withResolvers<Socket>();
  const server = await listen(socketPath, resolve);
  const child = spawn("python3", ["-I", "-S", file, socketPath], { stdio: "inherit" });
  const socket = await promise;
  let back = 0;
  let onBack = () => {};
  socket.on("data", (chunk: Buffer) => {
    for (back += chunk.length; back >= INPUT.length; back -= INPUT.length) onBack();
  });
  return {
    load: (inFlight) =>
      measure(
        child.pid!,
        inFlight,
        () => socket.write(INPUT),
        (done) => {
          onBack = done;
        },
      ),
    stop: async () => {
      socket.destroy();
      if (child.exitCode === null) await once(child, "exit");
      server.close();
    },
  };
}

async function startWorker(dir: string): Promise<Peer> {
  const source = path.join(dir, "src");
  mkdirSync(source);
  writeFileSync(path.join(source, "hello_worker.py"), "def hello(name):\n    return name\n");
  const handler = path.join(dir, "handler.py");
  const functions = `[{"module": "hello_worker", "name": "hello", "kind": "function"}]`;
  writeFileSync(
    handler,
    `from svc._runtime.loader import load_endpoint\nendpoint = load_endpoint(name="hello", kind="queue", functions=${functions}, routes={})\n`,
  );
  const socketPath = path.join(dir, "platform.sock");
  const roles = { launcher: Promise.withResolvers<Connection>(), worker: Promise.withResolvers<Connection>() };
  const server = await listen(socketPath, (socket) => {
    const connection = new Connection(socket);
    connection.onFrame = (frame) => {
      if (frame.type === FRAME.HELLO) {
        connection.send(FRAME.WELCOME, 0, { protocol: 1 });
        const { role } = parseHead<HelloHead>(frame);
        if (role === "launcher") roles.launcher.resolve(connection);
      } else if (frame.type === FRAME.CREDIT) roles.worker.resolve(connection);
    };
  });
  const file = path.join(PYTHON, "svc/_runtime/launcher.py");
  const child = spawn("python3", ["-I", "-S", file], { stdio: ["pipe", "inherit", "inherit"] });
  child.stdin!.end(`${JSON.stringify({ socket: socketPath, token: "t", id: "launcher", reconnectMs: 0 })}\n`);
  const launcher = await roles.launcher.promise;
  launcher.send(FRAME.START, 0, {
    worker: "w",
    token: "t",
    zygote: "hello",
    handler,
    paths: [source],
    endpoint: { id: "e", name: "hello", environment: "bench", kind: "queue" },
    socket: socketPath,
  });
  const worker = await roles.worker.promise;
  let channel = 0;
  let onResult = () => {};
  worker.onFrame = (frame: Frame) => {
    if (frame.type !== FRAME.RESULT) return;
    worker.send(FRAME.ACK, frame.channel);
    onResult();
  };
  return {
    load: (inFlight) =>
      measure(
        child.pid!,
        inFlight,
        () => worker.send(FRAME.JOB, ++channel, `{"job":"j","fence":1,"timeoutMs":60000}`, INPUT),
        (done) => {
          onResult = done;
        },
      ),
    stop: async () => {
      launcher.send(FRAME.SHUTDOWN, 0, { graceMs: 0 });
      if (child.exitCode === null) await once(child, "exit");
      server.close();
    },
  };
}
