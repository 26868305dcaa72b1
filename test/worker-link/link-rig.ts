/** A worker link with a real queue and store behind it, and workers that are played frame by frame: much here is a matter of order. */
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import type { Readable } from "node:stream";
import type { TestContext } from "node:test";
import { hashSecret } from "../../src/domain/api-key.ts";
import { FRAME_MAX_BYTES } from "../../src/domain/limits.ts";
import { ALL_MINE, type IsMine } from "../../src/domain/own-endpoints.ts";
import { Departure } from "../../src/domain/request.ts";
import { FRAME, type HelloHead, PROTOCOL_VERSION } from "../../src/domain/worker-protocol.ts";
import { encodeFrame, type Frame, FrameReader } from "../../src/lib/frames.ts";
import { openSqliteQueue } from "../../src/queue/sqlite-queue.ts";
import { openPlatformDatabase } from "../../src/store/platform-database.ts";
import { openSqliteStore } from "../../src/store/sqlite-store.ts";
import type { Endpoint, Worker } from "../../src/store/store.ts";
import type { LinkHooks } from "../../src/worker-link/link-hooks.ts";
import { WorkerLink } from "../../src/worker-link/worker-link.ts";
import { newEndpoint, newWorker } from "../conformance/store.ts";
import { QUIET_HOOKS } from "./quiet-hooks.ts";

/** One connection to the link, with nothing between the test and its bytes. */
export class Peer {
  readonly socket: Socket;
  readonly closed: Promise<unknown>;
  /** What came and was not asked for yet. */
  readonly seen: Frame[] = [];
  readonly #reader = new FrameReader(FRAME_MAX_BYTES);
  #look = () => {};

  constructor(socket: Socket) {
    this.socket = socket;
    socket.on("error", () => {});
    socket.on("data", (chunk: Buffer) => {
      this.seen.push(...this.#reader.push(chunk));
      this.#look();
    });
    this.closed = new Promise((resolve) => socket.once("close", resolve));
  }

  send(type: number, channel: number, head?: object | string, body?: Uint8Array, flags?: number): void {
    for (const bytes of encodeFrame(type, channel, head, body, flags)) this.socket.write(bytes);
  }

  /** The next frame of a type; those before it stay. */
  next(type: number): Promise<Frame> {
    return new Promise((resolve, reject) => {
      const look = () => {
        const found = this.seen.findIndex((frame) => frame.type === type);
        if (found !== -1) resolve(this.seen.splice(found, 1)[0]!);
      };
      this.#look = look;
      this.closed.then(() => reject(new Error(`closed before a frame of type ${type}`)));
      look();
    });
  }

  hello(token: string, more: Partial<HelloHead> = {}): void {
    this.send(FRAME.HELLO, 0, {
      protocol: PROTOCOL_VERSION,
      role: "worker",
      token,
      pid: 1,
      unacknowledged: [],
      ...more,
    });
  }
}

const REST: LinkHooks = {
  ...QUIET_HOOKS,
  platformUrl: async () => "http://127.0.0.1:1",
  launcherConnected: () => false,
};

/** Opens a link; the test's end closes it, and all that dialled in. */
export async function openLink(
  t: TestContext,
  settings: Partial<Endpoint> = {},
  hooks: Partial<LinkHooks> = {},
  now?: () => number,
  isMine: IsMine = ALL_MINE,
) {
  const dir = mkdtempSync(path.join(tmpdir(), "svc-link-"));
  const database = openPlatformDatabase(dir, "normal");
  const store = await openSqliteStore(database);
  const queue = await openSqliteQueue({ database, blobDir: path.join(dir, "blobs"), clock: Date.now });
  const newLink = () =>
    new WorkerLink({
      store,
      endpoints: store.endpoints,
      isMine,
      queue,
      hooks: { ...REST, ...hooks },
      now,
    });
  let link = newLink();
  const socketPath = path.join(dir, "p.sock");
  await link.listen(socketPath);
  const endpoint = newEndpoint(null, settings);
  await store.endpoints.insert(endpoint);
  const peers: Peer[] = [];
  t.after(async () => {
    for (const { socket } of peers) socket.destroy();
    await link.close();
    await queue.close();
    await store.close();
    database.close();
    rmSync(dir, { recursive: true, force: true });
  });

  const dial = async () => {
    const socket = connect(socketPath);
    await once(socket, "connect");
    const peer = new Peer(socket);
    peers.push(peer);
    return peer;
  };
  /** The row of a worker; its token is `token <id>`. */
  const addWorker = async (row: Partial<Worker> = {}) => {
    const worker = newWorker(endpoint.id, row);
    const token = `token ${worker.id}`;
    await store.workers.insert({ ...worker, tokenHash: hashSecret(token) });
    return { id: worker.id, token };
  };
  /** A worker with one slot that is welcome; `window` is that of its uploads. */
  const join = async (row: Partial<Worker> = {}, window?: number) => {
    const worker = await addWorker(row);
    const peer = await dial();
    peer.hello(worker.token);
    peer.send(FRAME.CREDIT, 0, { slots: 1, window });
    await peer.next(FRAME.WELCOME);
    return { ...worker, peer };
  };
  const request = (body: Buffer | Readable, departure = new Departure()) =>
    link.forward({
      id: "r1",
      endpointId: endpoint.id,
      method: "POST",
      path: "/",
      query: "",
      headers: [],
      body,
      timeoutMs: 30_000,
      departure,
    });
  /** The platform ends, and another begins on the same data. */
  const restart = async () => {
    await link.close();
    link = newLink();
    await link.listen(socketPath);
  };
  return { endpoint, queue, store, link: () => link, socketPath, dial, addWorker, join, request, restart };
}
