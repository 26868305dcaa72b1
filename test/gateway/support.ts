/**
 * A real gateway on a free port, its queue, and workers that live in the test. In runs with gateways (run.ts) a link stands between
 * gateway and queue.
 */

import { mkdtemp, rm } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { connect, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import type { Principal } from "../../src/domain/api-key.ts";
import { defaultSettings, type EndpointKind } from "../../src/domain/endpoint.ts";
import type { LoadBalancedRequest, LoadBalancedResponse, RequestForwarder } from "../../src/domain/request.ts";
import type { GatewayDeps, GatewaySettings } from "../../src/gateway/context.ts";
import { createGateway, type Gateway } from "../../src/gateway/server.ts";
import type { AskedOf } from "../../src/gateway-link/asked.ts";
import { openSqlite } from "../../src/lib/sqlite.ts";
import type { ClaimedJob, JobQueue, Outcome } from "../../src/queue/queue.ts";
import { openSqliteQueue } from "../../src/queue/sqlite-queue.ts";
import type { Endpoint } from "../../src/store/store.ts";
import { type Linked, linkGateway } from "../gateway-link/rig.ts";

export const KEY = "svc_the-key-of-the-tests";
export const WORKER_TOKEN = "svcw_a-worker-of-staging";

const PRINCIPALS = new Map<string, Principal>([
  [KEY, { kind: "key", id: "k-1", scopes: ["admin"], environmentId: null }],
  ["svc_invoke-only", { kind: "key", id: "k-2", scopes: ["invoke"], environmentId: null }],
  ["svc_read-only", { kind: "key", id: "k-3", scopes: ["read"], environmentId: null }],
  [WORKER_TOKEN, { kind: "worker", id: "w-9", scopes: ["invoke"], environmentId: "env-staging" }],
]);

export type Forward = (request: LoadBalancedRequest) => Promise<LoadBalancedResponse>;

export interface Platform {
  readonly gateway: Gateway;
  /** The link's ends, where there is one. */
  readonly linked: Linked | undefined;
  readonly queue: JobQueue;
  readonly port: number;
  readonly url: string;
  /** What was logged as an error. */
  readonly logged: string[];
  /** POST with the key and a JSON body. */
  post(path: string, body?: unknown, headers?: Record<string, string>): Promise<Answer>;
  get(path: string, headers?: Record<string, string>): Promise<Answer>;
  /** Lets a worker do the jobs of an endpoint until the test ends. */
  work(handle: (job: ClaimedJob) => Promise<Outcome> | Outcome, endpointId?: string): void;
}

export interface Answer {
  readonly status: number;
  readonly headers: Headers;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: tests look into it
  readonly json: any;
}

interface Options {
  readonly settings?: Partial<GatewaySettings>;
  readonly forward?: Forward;
  readonly bootOf?: RequestForwarder["bootOf"];
  readonly deps?: Partial<GatewayDeps>;
  /** Jobs of one endpoint that may wait. */
  readonly queuedMax?: number;
  /** Bytes of one job's chunks that wait or are kept. */
  readonly streamKeptMax?: number;
  readonly fallback?: (req: IncomingMessage, res: ServerResponse) => void;
  /** At the owner's end of the link. */
  readonly makeReady?: AskedOf["makeReady"];
  /** There is a link between gateway and queue. */
  readonly link?: boolean;
}

/** Endpoints: "jobs" (queue), "other" (queue), "web" (load-balanced); all of env-production. */
export async function startPlatform(t: TestContext, options: Options = {}): Promise<Platform> {
  const directory = await mkdtemp(join(tmpdir(), "svc-gateway-"));
  const database = openSqlite(join(directory, "platform.db"), "normal");
  const { queuedMax, streamKeptMax } = options;
  const bounds = {
    ...(queuedMax === undefined ? {} : { queuedMax }),
    ...(streamKeptMax === undefined ? {} : { streamKeptMax }),
  };
  const queue = await openSqliteQueue({ database, blobDir: join(directory, "blobs"), clock: Date.now, bounds });
  const endpoints = new Map(
    [endpoint("jobs", "queue"), endpoint("other", "queue"), endpoint("web", "load-balanced")].map((e) => [e.id, e]),
  );
  const logged: string[] = [];
  const deps: GatewayDeps = {
    queue,
    endpoints: { find: (id) => endpoints.get(id) },
    endpointNamed: async ({ app, environment, endpoint: name }) =>
      app === "shop" && environment === "production" ? endpoints.get(name) : undefined,
    keys: { check: (secret) => PRINCIPALS.get(secret) },
    forwarder: {
      forward: options.forward ?? (() => Promise.reject(new Error("no forwarder in this test"))),
      bootOf: options.bootOf,
    },
    workers: {
      counts: () => ({ idle: 1, initializing: 0, ready: 2, running: 1, throttled: 0, unhealthy: 0 }),
      health: () => ({ state: "READY", reason: "", progress: [] }),
    },
    newId: () => crypto.randomUUID(),
    now: () => Date.now(),
    settings: { domain: "", requestTimeoutMs: 5000, ...options.settings },
    fallback: options.fallback ?? ((_req, res) => res.end("fallback")),
    log: { error: (message, fields) => logged.push(`${message} ${JSON.stringify(fields)}`) },
    ...options.deps,
  };
  const isLinked = options.link === true || process.env.SVC_TEST_GATEWAYS !== undefined;
  const linked = isLinked ? await linkGateway(deps, [...PRINCIPALS.keys()], options.makeReady) : undefined;
  const gateway = linked?.gateway ?? createGateway(deps);
  const { port } = await gateway.listen("127.0.0.1", 0);
  const stop = new AbortController();
  t.after(async () => {
    stop.abort();
    await (linked ?? { close: () => gateway.close(0) }).close();
    await queue.close();
    database.close();
    await rm(directory, { recursive: true });
  });
  const url = `http://127.0.0.1:${port}`;
  const send = async (method: string, path: string, headers: Record<string, string>, body?: unknown) => {
    const response = await fetch(url + path, {
      method,
      headers: { authorization: `Bearer ${KEY}`, ...(body === undefined ? {} : JSON_TYPE), ...headers },
      ...(body === undefined ? {} : { body: typeof body === "string" ? body : JSON.stringify(body) }),
    });
    const text = await response.text();
    return { status: response.status, headers: response.headers, text, json: parsed(text) };
  };
  return {
    gateway,
    linked,
    queue,
    port,
    url,
    logged,
    post: (path, body = {}, headers = {}) => send("POST", path, headers, body),
    get: (path, headers = {}) => send("GET", path, headers),
    work: (handle, endpointId = "jobs") => void workLoop(queue, endpointId, handle, stop.signal),
  };
}

const JSON_TYPE = { "content-type": "application/json" };

export function endpoint(id: string, kind: EndpointKind): Endpoint {
  return {
    ...defaultSettings(kind),
    id,
    name: `the-${id}`,
    kind,
    environmentId: "env-production",
    buildId: null,
    templateId: "",
    env: {},
    revision: "r1",
    reason: "",
    schedule: "",
    createdAt: 0,
    updatedAt: 0,
  };
}

async function workLoop(
  queue: JobQueue,
  endpointId: string,
  handle: (job: ClaimedJob) => Promise<Outcome> | Outcome,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    const jobs = await queue.claim(endpointId, "w-1", 8, signal);
    for (const job of jobs) void Promise.resolve(handle(job)).then((outcome) => queue.finish(job, outcome));
  }
}

/** The function that gives back its input. */
export function echo(job: ClaimedJob): Outcome {
  return { state: "COMPLETED", output: job.input };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** A connection of which the test writes every byte. */
export class RawConnection {
  readonly socket: Socket;
  readonly #closed: Promise<void>;
  #ended = false;
  text = "";
  #wake = () => {};

  constructor(port: number) {
    this.socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
    this.socket.on("data", (chunk) => {
      this.text += chunk.toString("latin1");
      this.#wake();
    });
    this.socket.on("error", () => {});
    this.#closed = new Promise((resolve) => {
      const done = () => {
        this.#ended = true;
        resolve();
        this.#wake();
      };
      this.socket.once("end", done).once("close", done);
    });
  }

  write(text: string): this {
    this.socket.write(text, "latin1");
    return this;
  }

  /** Everything received, once `pattern` stands in it. Fails when the connection ends before. */
  async until(pattern: RegExp): Promise<string> {
    while (!pattern.test(this.text)) {
      if (this.#ended) throw new Error(`the connection ended with: ${this.text}`);
      await new Promise<void>((resolve) => {
        this.#wake = resolve;
      });
      await Promise.resolve();
    }
    return this.text;
  }

  /** Everything received until the other side closed. */
  async untilClosed(): Promise<string> {
    await this.#closed;
    this.socket.destroy();
    return this.text;
  }
}
