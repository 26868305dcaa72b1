/** A control plane over real HTTP, on a real store and queue, and the real artifact directory. */
import { createHash, randomBytes, randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import type { ArtifactStore } from "../../src/artifacts/artifact-store.ts";
import { openDiskArtifactStore } from "../../src/artifacts/disk-artifact-store.ts";
import type { ControlPlaneConfig, ControlPlaneDeps, WorkerPort } from "../../src/control-plane/context.ts";
import { ensureFirstKey } from "../../src/control-plane/keys.ts";
import { createControlPlane } from "../../src/control-plane/server.ts";
import { hashSecret, newSecret } from "../../src/domain/api-key.ts";
import type { Share } from "../../src/domain/capacity.ts";
import type { LiveHost } from "../../src/domain/host.ts";
import { type HistoryDatabase, openHistory } from "../../src/history/history-database.ts";
import type { RecordStore } from "../../src/history/record-store.ts";
import type { SeriesStore } from "../../src/history/series-store.ts";
import { SqliteRecords } from "../../src/history/sqlite-records.ts";
import { SqliteSeries } from "../../src/history/sqlite-series.ts";
import { SEAL_KEY_BYTES, SealedText } from "../../src/lib/sealed-text.ts";
import type { JobQueue } from "../../src/queue/queue.ts";
import { openVolumesDisk } from "../../src/server/volumes.ts";
import { createKeyChecker } from "../../src/store/key-check.ts";
import type { Store } from "../../src/store/store.ts";
import { EventHub } from "../../src/telemetry/event-hub.ts";
import { DiskVolumes } from "../../src/volumes/disk-volumes.ts";
import { VolumeSizes } from "../../src/volumes/volume-sizes.ts";
import { dropServersOf } from "../servers.ts";
import { openStores, type TestStores } from "./stores.ts";

export interface GraphQLAnswer {
  readonly status: number;
  // biome-ignore lint/suspicious/noExplicitAny: a test reads any field of any answer
  readonly data: any;
  readonly errors: readonly { message: string; extensions: { code: string } }[] | undefined;
  readonly headers: Headers;
}

export interface TestPlatform {
  readonly url: string;
  /** Its data directory. */
  readonly dir: string;
  /** Secret of the first key. */
  readonly adminKey: string;
  readonly store: Store;
  readonly database: Pick<TestStores, "isPostgres" | "sql">;
  readonly queue: JobQueue;
  readonly logs: TestStores["logs"];
  /** The clock of the logs, where it is set. */
  readonly logTime: { at: number | undefined };
  readonly artifacts: ArtifactStore;
  readonly series: SeriesStore;
  readonly records: RecordStore;
  readonly history: HistoryDatabase;
  readonly events: EventHub;
  readonly metrics: { access: ControlPlaneDeps["metrics"]["access"] };
  /** What /readyz gives as reasons. */
  readonly notReady: string[];
  readonly closing: AbortController;
  /** What workers have of the machine, by their ids. */
  readonly shares: Map<string, Share>;
  /** Of tickets for layers. */
  readonly ticketKey: Uint8Array;
  /** Machines that joined, as their agents said. */
  readonly hosts: LiveHost[];
  readonly workerPort: { is: WorkerPort | undefined };
  /** Everything that was logged, as text. */
  readonly logged: string[];
  /** Sends a document with the admin key, or with `key`. */
  ask(query: string, variables?: object, key?: string): Promise<GraphQLAnswer>;
  upload(bytes: Buffer): Promise<string>;
}

export async function startPlatform(
  t: TestContext,
  config: Partial<ControlPlaneConfig> = {},
  cannotGive: ControlPlaneDeps["cannotGive"] = () => [],
  /** `store`: in place of its own; whoever opened it closes it. */
  given: { readonly store?: Store; readonly adminKey?: string | undefined } = {},
): Promise<TestPlatform> {
  const dir = await mkdtemp(join(tmpdir(), "svc-control-plane-"));
  const logTime = { at: undefined as number | undefined };
  const stores = await openStores(dir, () => logTime.at ?? Date.now());
  const { queue } = stores;
  const store = given.store ?? stores.store;
  const artifacts = await openDiskArtifactStore(join(dir, "layers"));
  const adminKey = given.adminKey ?? (await ensureFirstKey(store))!;
  const logged: string[] = [];
  const seal = new SealedText(randomBytes(SEAL_KEY_BYTES));
  let url = "";
  const volumesDir = join(dir, "volumes");
  const volumesDisk = openVolumesDisk(volumesDir, () => {});
  const volumes = new DiskVolumes({
    disk: volumesDisk,
    sizes: new VolumeSizes(volumesDisk, () => {}),
    make: ({ app, environment, name }) => mkdir(join(volumesDir, app, environment, name), { recursive: true }),
  });
  const say = (line: string) => void logged.push(line);
  const history = openHistory(join(dir, "history.db"), { info: say, error: say }, (opened) => opened);
  const series = new SqliteSeries(history);
  const events = new EventHub();
  const metrics = {
    access: "key" as ControlPlaneDeps["metrics"]["access"],
    read: async () => ({ contentType: "text/plain; version=0.0.4", text: "up 1\n" }),
  };
  const notReady: string[] = [];
  const closing = new AbortController();
  const records = new SqliteRecords(history);
  const shares = new Map<string, Share>();
  const ticketKey = randomBytes(32);
  const hosts: LiveHost[] = [];
  const workerPort = { is: { host: "", port: 8788, fingerprint: "ab".repeat(32) } as WorkerPort | undefined };
  const controlPlane = createControlPlane({
    notices: () => [],
    series,
    events,
    metrics,
    notReady: async () => notReady,
    closing: closing.signal,
    records,
    load: () => ({ waitingRequests: 0, running: 0 }),
    machine: {
      capacity: async () => ({
        hardware: { vcpus: 2, memoryGb: 4 },
        vcpus: 16,
        memoryGb: 8,
        gpus: [],
        emulatesGpu: false,
        shares,
      }),
      used: async () => ({ vcpus: 1, memoryGb: 2, gpus: [{ index: 0, busy: 0.5, memoryGb: 3 }] }),
      disk: async () => ({ freeBytes: 1, totalBytes: 2 }),
    },
    volumes,
    volumesChanged: () => {},
    testAlert: async ({ url }) => `no answer of ${url}`,
    logs: stores.logs,
    logins: stores.logins,
    store,
    artifacts,
    keys: createKeyChecker(store, Date.now),
    workers: {
      counts: () => ({ idle: 0, initializing: 0, ready: 0, running: 0, throttled: 0, unhealthy: 0 }),
      health: () => ({ state: "READY", reason: "", progress: [] }),
      seen: (_id, ids) => {
        const start = { how: "spawn", reason: "a thread is alive", limits: "cgroup1", isolation: "landlock" } as const;
        return Object.fromEntries(ids.map((id) => [id, { start }]));
      },
      waitingForRoom: () => [],
      decisions: () => [{ at: 1, start: 1, stop: 0, reason: "1 waiting", times: 2 }],
    },
    cannotGive,
    emulatesGpu: (gpuIds) => gpuIds === "ANY",
    seal,
    openConsole: () => "code",
    signingKey: randomBytes(32),
    ticketKeys: [ticketKey],
    hosts: { hosts: () => hosts, hostOf: () => undefined },
    workerPort: () => workerPort.is,
    jobs: queue,
    config: { publicUrl: () => url, domain: "", workerQuota: 30, ...config },
    clock: Date.now,
    now: () => performance.now(),
    random: randomBytes,
    own: (what, promise) => void promise.catch((error) => logged.push(`${what}: ${error}`)),
    log: { error: (message, cause) => void logged.push(`${message} ${cause instanceof Error ? cause.stack : cause}`) },
  });
  const server = createServer(controlPlane).listen(0, "127.0.0.1");
  await once(server, "listening");
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  t.after(async () => {
    server.close();
    server.closeAllConnections();
    await stores.close();
    await dropServersOf(dir);
    await history.close();
    await rm(dir, { recursive: true, force: true });
  });

  return {
    url,
    dir,
    series,
    records,
    history,
    events,
    metrics,
    notReady,
    closing,
    shares,
    ticketKey,
    hosts,
    workerPort,
    adminKey,
    store,
    database: stores,
    queue,
    logs: stores.logs,
    logTime,
    artifacts,
    logged,
    async ask(query, variables, key = adminKey) {
      const response = await fetch(`${url}/graphql?api_key=${key}`, {
        method: "POST",
        headers: { "content-type": "application/json" },
        body: JSON.stringify({ query, variables }),
      });
      const { data, errors } = (await response.json()) as GraphQLAnswer;
      return { status: response.status, data, errors, headers: response.headers };
    },
    async upload(bytes) {
      const digest = createHash("sha256").update(bytes).digest("hex");
      const response = await fetch(`${url}/layers/${digest}`, {
        method: "PUT",
        headers: { authorization: `Bearer ${adminKey}` },
        body: new Uint8Array(bytes),
      });
      if (response.status !== 200) throw new Error(await response.text());
      return digest;
    },
  };
}

/** A worker of an endpoint, as the autoscaler would record it. Resolves the worker's token. */
export async function addWorker(store: Store, endpointId: string): Promise<string> {
  const endpoint = (await store.endpoints.find(endpointId))!;
  const { secret } = newSecret("worker");
  await store.workers.insert({
    id: `w-${randomBytes(4).toString("hex")}`,
    endpointId,
    buildId: endpoint.buildId ?? "",
    revision: endpoint.revision,
    state: "READY",
    tokenHash: hashSecret(secret),
    createdAt: Date.now(),
    readyAt: Date.now(),
    reason: "",
  });
  return secret;
}

/** A queued job of an endpoint. Resolves its id. */
export async function addJob(queue: JobQueue, endpointId: string): Promise<string> {
  const { id } = await queue.enqueue({
    id: `${randomUUID()}-l1`,
    endpointId,
    input: Buffer.from("{}"),
    method: "",
    webhook: "",
    idempotencyKey: "",
    lowPriority: false,
    executionTimeoutMs: 600_000,
    ttlMs: 86_400_000,
    retentionMs: 60_000,
  });
  return id;
}
