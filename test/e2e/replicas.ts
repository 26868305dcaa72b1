/** Several platforms on one database and one bucket, each a process with a data directory of its own. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { copyFileSync, mkdirSync, mkdtempSync, readFileSync } from "node:fs";
import { type AddressInfo, connect, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import path from "node:path";
import { Transform } from "node:stream";
import { text } from "node:stream/consumers";
import type { TestContext } from "node:test";
import { setTimeout as delay } from "node:timers/promises";
import { eventually } from "../eventually.ts";
import { freePort } from "../free-port.ts";
import { findPostgres, type PostgresServer, startPostgres } from "../postgres.ts";
import { COMPILED } from "../program.ts";
import { removeFolder } from "../remove-folder.ts";
import { findS3, type S3Server, startS3 } from "../s3.ts";
import { type Answer, project, startPlatform, svc, type TestPlatform } from "./platform.ts";
import { type PlatformProcess, startPlatformProcess } from "./platform-process.ts";

/** Between the calls of each caller of a load: without it they take the processor from what is done to the platforms meanwhile. */
export const breath = () => delay(50);

export interface ReplicaServers {
  readonly postgres: PostgresServer;
  readonly s3: S3Server;
  stop(): Promise<void>;
}

export async function startServers(): Promise<ReplicaServers> {
  const [postgres, s3] = [await findPostgres(), await findS3()];
  const database = await startPostgres((postgres as { bin: string }).bin);
  const bucket = await startS3((s3 as { program: string }).program);
  return {
    postgres: database,
    s3: bucket,
    stop: async () => {
      await Promise.all([database.stop(), bucket.stop()]);
    },
  };
}

type Direction = "there" | "back";

/** A way to a port that can be cut: what is open is reset, and what comes is refused. Bytes can be late, too, or go nowhere for a while. */
export class TcpWay {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #isCut = false;
  #delayMs = 0;
  #stallsAt: string | undefined;
  readonly #stalls: Record<Direction, PromiseWithResolvers<void> | undefined> = { there: undefined, back: undefined };
  readonly port: number;
  /** Where it leads. */
  readonly to: number;

  private constructor(server: Server, to: number) {
    this.#server = server;
    this.port = (server.address() as AddressInfo).port;
    this.to = to;
    server.on("connection", (socket) => this.#pass(socket));
  }

  /** `to`: by default nobody listens there yet. */
  static async open(t: TestContext, to?: number): Promise<TcpWay> {
    const server = createServer({ allowHalfOpen: true });
    server.listen(0, "127.0.0.1");
    await once(server, "listening");
    const way = new TcpWay(server, to ?? (await freePort()));
    t.after(() => {
      way.cut();
      way.#server.close();
    });
    return way;
  }

  cut(): void {
    this.#isCut = true;
    for (const socket of this.#sockets) socket.destroy();
  }

  /** Bytes take so long, each way. */
  delay(ms: number): void {
    this.#delayMs = ms;
  }

  /** Bytes of the direction arrive when it is mended; connections stay. */
  stall(direction: Direction): void {
    this.#stalls[direction] ??= Promise.withResolvers();
  }

  /** Bytes there with this text in them are held up, and all behind them, until it is mended. */
  stallAt(text: string): void {
    this.#stallsAt = text;
  }

  mend(): void {
    this.#isCut = false;
    this.#stallsAt = undefined;
    for (const direction of ["there", "back"] as const) {
      this.#stalls[direction]?.resolve();
      this.#stalls[direction] = undefined;
    }
  }

  #late(direction: Direction): Transform {
    let before: Promise<unknown> = Promise.resolve();
    const late = new Transform({
      transform: (chunk: Buffer, _encoding, done) => {
        if (direction === "there" && this.#stallsAt !== undefined && chunk.includes(this.#stallsAt))
          this.stall(direction);
        const arrives = Promise.all([before, this.#delayMs > 0 ? delay(this.#delayMs) : undefined]);
        before = arrives.then(() => this.#stalls[direction]?.promise).then(() => late.push(chunk));
        done();
      },
      flush: (done) => void before.then(() => done()),
    });
    return late;
  }

  #pass(socket: Socket): void {
    if (this.#isCut) {
      socket.destroy();
      return;
    }
    const other = connect({ port: this.to, host: "127.0.0.1", allowHalfOpen: true });
    for (const [one, peer, direction] of [
      [socket, other, "there"],
      [other, socket, "back"],
    ] as const) {
      this.#sockets.add(one);
      one.on("error", () => one.destroy());
      one.on("close", () => {
        this.#sockets.delete(one);
        peer.destroy();
      });
      one.pipe(this.#late(direction)).pipe(peer);
    }
  }
}

/** As a load balancer does: what comes is passed to whichever of them listens. */
export async function leadsTo(t: TestContext, platforms: readonly { readonly url: string }[]): Promise<string> {
  const sockets = new Set<Socket>();
  const pass = (from: Socket, [to, ...others]: readonly { readonly url: string }[]) => {
    if (to === undefined) return from.destroy();
    const onward = connect(Number(new URL(to.url).port), "127.0.0.1");
    onward.once("connect", () => {
      onward.off("error", next);
      for (const [one, peer] of [
        [from, onward],
        [onward, from],
      ] as const) {
        sockets.add(one);
        one.on("error", () => one.destroy());
        one.on("close", () => peer.destroy());
        one.pipe(peer);
      }
    });
    const next = () => pass(from, others);
    onward.once("error", next);
  };
  const server = createServer((socket) => pass(socket, platforms));
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  t.after(() => {
    for (const socket of sockets) socket.destroy();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

export interface Second extends PlatformProcess {
  readonly dataDir: string;
  /** What it logged. */
  readonly said: readonly string[];
}

export interface Replicas {
  /** Has the database at first. */
  readonly first: TestPlatform;
  /** Another one on the same database, with the same keys; resolves when it takes calls. */
  another(env?: Record<string, string>): Promise<Second>;
  /** With the key of the first, whoever is called. */
  call(
    platform: { readonly url: string },
    path: string,
    options?: Parameters<TestPlatform["call"]>[1],
  ): Promise<Answer>;
  /** Deploys through the first; resolves the paths of the endpoints by their names. */
  deploy(worker: string): Promise<Record<string, string>>;
  /** As `svc platform status` says it. */
  status(dataDir: string): Promise<{ readonly replicas?: readonly ReplicaStatus[]; readonly [name: string]: unknown }>;
}

export interface ReplicaStatus {
  readonly id: string;
  readonly url: string;
  readonly owns: boolean;
  /** Where they are shared. */
  readonly shards: number;
  readonly silentMs: number;
}

/** Who is there, as the platform of that data directory tells the CLI; nobody when it does not say. For those who ask until something holds. */
export async function seenBy(dataDir: string): Promise<readonly ReplicaStatus[]> {
  try {
    const { replicas } = JSON.parse(readFileSync(path.join(dataDir, "platform.json"), "utf8")) as { replicas: string };
    return JSON.parse(await text(connect(replicas))).replicas;
  } catch {
    return [];
  }
}

export async function startReplicas(
  t: TestContext,
  { postgres, s3 }: ReplicaServers,
  database: string,
  given: Record<string, string> = {},
): Promise<Replicas> {
  const url = await postgres.database(database);
  const env = { SVC_DATABASE_URL: url, ...s3.env, SVC_S3_PREFIX: `${database}/`, ...given };
  const first = await startPlatform(t, env);
  return {
    first,
    async another(more = {}) {
      const dir = mkdtempSync(path.join(tmpdir(), "svc-e2e-"));
      const dataDir = path.join(dir, "data");
      mkdirSync(dataDir, { mode: 0o700 });
      copyFileSync(path.join(first.dataDir, "secret.key"), path.join(dataDir, "secret.key"));
      const said: string[] = [];
      let started: PlatformProcess | undefined;
      // The folder goes last: a platform that still stops writes to it.
      t.after(async () => {
        await started?.end("SIGQUIT");
        await removeFolder(dir);
      });
      const running = await startPlatformProcess({
        dataDir,
        env: {
          ...{ PATH: process.env.PATH, HOME: process.env.HOME, ...COMPILED, SVC_EMULATE_GPU: "1" },
          ...{ SVC_WORKER_PATHS: first.shared, ...env, ...more },
        },
        onLogLine: (line) => said.push(line),
      });
      started = running;
      return { ...running, dataDir, said };
    },
    call: (platform, at, options) => first.call(new URL(at, platform.url).href, options),
    async deploy(worker) {
      const { code, stderr } = await first.svc(["deploy"], { cwd: project(t, { "worker.py": worker }) });
      assert.equal(code, 0, stderr);
      const endpoints = await first.endpoints();
      return Object.fromEntries(endpoints.map(({ name, url: at }) => [name, new URL(at).pathname]));
    },
    async status(dataDir) {
      return JSON.parse((await svc(["platform", "status", "--json", "--data-dir", dataDir])).stdout);
    },
  };
}

/** Resolves when calls through it reach the owner. */
export function isReady({ call }: Replicas, platform: { readonly url: string }): Promise<void> {
  return eventually(async () => {
    const { status, text } = await call(platform, "/readyz", { key: null });
    assert.equal(status, 200, text);
  });
}

/** The management API, which whoever has the database answers; by a connection of its own. */
export async function listsEndpoints({ call }: Replicas, platform: { readonly url: string }): Promise<void> {
  const body = { query: "{ myself { endpoints { name } } }" };
  const { json, text } = await call(platform, "/graphql", { body, headers: { connection: "close" } });
  assert.ok(json?.data?.myself.endpoints.length > 0, text);
}
