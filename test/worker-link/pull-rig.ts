/** The gateway's routes for workers that pull, with the worker link, a queue and a store behind them. The test plays the workers. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import type { TestContext } from "node:test";
import { hashSecret } from "../../src/domain/api-key.ts";
import { ALL_MINE } from "../../src/domain/own-endpoints.ts";
import { createGateway } from "../../src/gateway/server.ts";
import type { NewJob } from "../../src/queue/queue.ts";
import { openSqliteQueue } from "../../src/queue/sqlite-queue.ts";
import { createKeyChecker } from "../../src/store/key-check.ts";
import { openPlatformDatabase } from "../../src/store/platform-database.ts";
import { openSqliteStore } from "../../src/store/sqlite-store.ts";
import type { Endpoint, Worker } from "../../src/store/store.ts";
import type { LinkHooks } from "../../src/worker-link/link-hooks.ts";
import { WorkerLink } from "../../src/worker-link/worker-link.ts";
import { newEndpoint, newWorker } from "../conformance/store.ts";
import { QUIET_HOOKS } from "./quiet-hooks.ts";

export interface Answer {
  readonly status: number;
  readonly text: string;
  // biome-ignore lint/suspicious/noExplicitAny: a test looks into any answer
  readonly json: any;
}

/** Questions are held for `pullHoldMs`: by default longer than any test takes, so one that is open waits for what the test does. */
export async function openPull(
  t: TestContext,
  hooks: Partial<LinkHooks> = {},
  settings: Partial<Endpoint> = {},
  pullHoldMs = 60_000,
) {
  const dir = mkdtempSync(path.join(tmpdir(), "svc-pull-"));
  const database = openPlatformDatabase(dir, "normal");
  const store = await openSqliteStore(database);
  const queue = await openSqliteQueue({ database, blobDir: path.join(dir, "blobs"), clock: Date.now });
  /** Added to the time. */
  let laterMs = 0;
  const open = async () => {
    const link = new WorkerLink({
      store,
      endpoints: store.endpoints,
      isMine: ALL_MINE,
      queue,
      hooks: { ...QUIET_HOOKS, platformUrl: async () => "", launcherConnected: () => false, ...hooks },
      now: () => performance.now() + laterMs,
      pullHoldMs,
    });
    await link.listen(path.join(dir, "p.sock"));
    const gateway = createGateway({
      queue,
      endpoints: store.endpoints,
      endpointNamed: async () => undefined,
      keys: createKeyChecker(store, Date.now),
      forwarder: link,
      pull: link.pull,
      workers: {
        counts: () => ({ idle: 0, initializing: 0, ready: 0, running: 0, throttled: 0, unhealthy: 0 }),
        health: () => ({ state: "READY", reason: "", progress: [] }),
      },
      newId: () => crypto.randomUUID(),
      now: Date.now,
      settings: { domain: "", requestTimeoutMs: 5000 },
      fallback: (_req, res) => res.end(),
      log: { error: (message, fields) => t.diagnostic(`${message} ${JSON.stringify(fields)}`) },
    });
    const { port } = await gateway.listen("127.0.0.1", 0);
    return { link, gateway, port };
  };
  let running = await open();
  const close = async () => {
    await running.gateway.close(0);
    await running.link.close();
  };
  t.after(async () => {
    await close();
    await queue.close();
    await store.close();
    database.close();
    rmSync(dir, { recursive: true, force: true });
  });
  const addEndpoint = async (changes: Partial<Endpoint> = {}) => {
    const endpoint = newEndpoint(null, { ...settings, ...changes });
    await store.endpoints.insert(endpoint);
    return endpoint;
  };
  const endpoint = await addEndpoint();

  const submit = async (input: unknown, changes: Partial<NewJob> = {}) => {
    const id = `${crypto.randomUUID()}-u1`;
    await queue.enqueue({
      id,
      endpointId: endpoint.id,
      input: Buffer.from(JSON.stringify(input)),
      method: "",
      webhook: "",
      idempotencyKey: "",
      lowPriority: false,
      executionTimeoutMs: 60_000,
      ttlMs: 3_600_000,
      retentionMs: 3_600_000,
      ...changes,
    });
    return id;
  };

  /** A worker as the protocol has it; `at` names another worker or endpoint in the path. */
  const join = async (row: Partial<Worker> = {}, of = endpoint) => {
    const worker = newWorker(of.id, { buildId: "", createdAt: Date.now(), ...row });
    const token = `svcw_${worker.id}`;
    await store.workers.insert({ ...worker, tokenHash: hashSecret(token) });
    const send = async (
      route: string,
      { query = "", job = "", body, at = worker.id, key = token, endpointId = of.id, signal }: Sent = {},
    ): Promise<Answer> => {
      const where = `/v2/${endpointId}/${route}/${at}${job === "" ? "" : `/${job}`}?gpu=x%20y${query}`;
      const response = await fetch(`http://127.0.0.1:${running.port}${where}`, {
        method: body === undefined ? "GET" : "POST",
        headers: { authorization: key, "content-type": "application/x-www-form-urlencoded" },
        body: typeof body === "string" || body === undefined ? body : JSON.stringify(body),
        signal,
      });
      const text = await response.text();
      return { status: response.status, text, json: response.status === 200 ? JSON.parse(text) : undefined };
    };
    return {
      id: worker.id,
      token,
      send,
      take: (more: Sent = {}) => send("job-take", more),
      done: (job: string, body: unknown, more: Sent = {}) =>
        send("job-done", { job, body, query: "&isStream=false", ...more }),
      ping: (...jobs: string[]) => send("ping", { query: jobs.length > 0 ? `&job_id=${jobs.join("%2C")}` : "" }),
    };
  };

  return {
    endpoint,
    addEndpoint,
    queue,
    store,
    submit,
    join,
    port: () => running.port,
    link: () => running.link,
    gateway: () => running.gateway,
    /** The clock of silences and graces goes on by so much. */
    later: (ms: number) => {
      laterMs += ms;
      running.link.pull.sweep(false);
    },
    /** The platform ends, and another begins on the same data. */
    restart: async () => {
      await close();
      running = await open();
    },
  };
}

interface Sent {
  readonly query?: string;
  readonly job?: string;
  readonly body?: unknown;
  readonly at?: string;
  readonly key?: string;
  readonly endpointId?: string;
  readonly signal?: AbortSignal;
}
