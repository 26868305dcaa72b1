/**
 * The rest of a platform around a driver under test: layers, capacity, and the real socket where launchers and workers
 * dial in. What happens is kept as events that a test can wait for.
 */
import assert from "node:assert/strict";
import { createHash, randomUUID } from "node:crypto";
import { chmodSync, mkdirSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import { setTimeout as delay } from "node:timers/promises";
import { gzipSync } from "node:zlib";
import tar from "tar-stream";
import type { ArtifactStore } from "../../src/artifacts/artifact-store.ts";
import { openDiskArtifactStore } from "../../src/artifacts/disk-artifact-store.ts";
import { hashSecret, newSecret } from "../../src/domain/api-key.ts";
import { CPU_IMAGE } from "../../src/domain/endpoint.ts";
import { type CreditHead, FRAME, type HelloHead, type StartedHead } from "../../src/domain/worker-protocol.ts";
import { CapacityLedger } from "../../src/drivers/capacity.ts";
import type { DriverHooks, WorkerExit, WorkerImage, WorkerSpec } from "../../src/drivers/worker-driver.ts";
import { type Frame, parseHead } from "../../src/lib/frames.ts";
import { type Certificate, selfSignedCertificate } from "../../src/lib/self-signed-certificate.ts";
import { askPython } from "../../src/python/version.ts";
import type { LocalDriver } from "../../src/server/driver.ts";
import type { Connection } from "../../src/worker-link/connection.ts";
import { Reception, refuse } from "../../src/worker-link/reception.ts";
import { removeFolder } from "../remove-folder.ts";
import { ACTIONS } from "./driver-actions.ts";

const WAIT_MS = 90_000;

/** What a driver is made of, the same for each. */
export interface DriverParts {
  readonly dataDir: string;
  readonly socketPath: string;
  readonly artifacts: ArtifactStore;
  readonly ledger: CapacityLedger;
  readonly hooks: DriverHooks;
  /** Where other machines dial in, and its certificate. */
  readonly tls: { readonly host: string; readonly port: () => number; readonly cert: string } | undefined;
}

/** A driver to whom machines come. */
interface HostGreeter {
  attachHost(connection: Connection, hello: HelloHead): void;
}

export interface Outcome {
  readonly ok: boolean;
  // biome-ignore lint/suspicious/noExplicitAny: a test looks into any answer
  readonly value: any;
}

type Happening =
  | { readonly kind: "started"; readonly worker: string; readonly head: StartedHead }
  | { readonly kind: "ready"; readonly worker: string }
  | { readonly kind: "exit"; readonly worker: string; readonly exit: WorkerExit }
  | { readonly kind: "boot-failed"; readonly worker: string; readonly message: string }
  | { readonly kind: "printed"; readonly worker: string; readonly text: string }
  | { readonly kind: "result"; readonly worker: string; readonly job: string; readonly outcome: Outcome };

export interface TestWorker {
  readonly id: string;
  /** From START to CREDIT. */
  readonly readyMs: number;
  readonly started: StartedHead;
  /** Calls `act(do, value)` in it. */
  run(action: string, value?: unknown): Promise<Outcome>;
  /** The same without waiting; the job's name, for `resultOf`. */
  begin(action: string, value?: unknown): string;
  /** Resolves the next that its function prints. */
  printed(): Promise<string>;
  exit(): Promise<WorkerExit>;
}

export class DriverPlatform {
  readonly dir: string;
  readonly dataDir: string;
  driver!: LocalDriver;
  ledger!: CapacityLedger;
  #reception!: Reception;
  #artifacts!: ArtifactStore;
  readonly #make: (parts: DriverParts) => LocalDriver;
  readonly #tokens = new Map<string, string>();
  readonly #connections = new Map<string, Connection>();
  readonly #happenings: Happening[] = [];
  readonly #watchers = new Set<() => void>();
  #channel = 0;
  readonly #certificate: Certificate | undefined;
  readonly #host: string;
  /** Stays the same over crashes: workers come back there. */
  #port = 0;

  /** `tls`: the address where it listens for other machines; "" for none. */
  constructor(make: (parts: DriverParts) => LocalDriver, tls = "") {
    this.#make = make;
    this.#host = tls;
    if (tls !== "") this.#certificate = selfSignedCertificate("svc worker link");
    this.dir = mkdtempSync(path.join(tmpdir(), "svc-driver-"));
    this.dataDir = path.join(this.dir, "data");
    mkdirSync(path.join(this.dataDir, "run"), { recursive: true, mode: 0o700 });
    chmodSync(this.dir, 0o700);
  }

  async open(limits: { vcpus?: number; memoryGb?: number } = {}, openAfterMs = 0): Promise<void> {
    const socketPath = path.join(this.dataDir, "run", "platform.sock");
    this.#artifacts = await openDiskArtifactStore(path.join(this.dataDir, "artifacts"));
    this.ledger = new CapacityLedger(
      { cpuOvercommit: 100, memoryOvercommit: 100, emulateGpu: true, emulatedGpus: [] },
      [],
    );
    this.#limit(limits);
    this.driver = this.#make({
      dataDir: this.dataDir,
      socketPath,
      artifacts: this.#artifacts,
      ledger: this.ledger,
      tls: this.#certificate && { host: this.#host, port: () => this.#port, cert: this.#certificate.cert },
      hooks: {
        started: (head) => this.#note({ kind: "started", worker: head.worker, head }),
        bootFailed: (worker, failure) => {
          const message = (failure as { error_message: string }).error_message;
          this.#note({ kind: "boot-failed", worker, message });
        },
        log: () => {},
        programPrinted: () => {},
        available: () => {},
        told: () => {},
      },
    });
    this.driver.onExit((exit) => this.#note({ kind: "exit", worker: exit.workerId, exit }));
    this.#reception = new Reception((connection, hello) => void this.#onHello(connection, hello));
    await this.#reception.listen(socketPath);
    if (this.#certificate !== undefined) {
      this.#port = await this.#reception.listenTls({ host: this.#host, port: this.#port, ...this.#certificate });
    }
    await delay(openAfterMs); // Meanwhile launchers of before dial in.
    await this.driver.open();
  }

  /** As a crash: the driver lets go, every connection breaks. */
  async crash(): Promise<void> {
    await this.driver.close({ stopAll: false });
    await this.#reception.close();
    this.#connections.clear();
    this.#happenings.length = 0;
  }

  async close(): Promise<void> {
    await this.driver.close({ stopAll: true });
    await this.#reception.close();
    await removeFolder(this.dir);
  }

  /** An endpoint with the functions of driver-actions.ts, ready to start. `extra` is put above them. */
  async image(name: string, extra = ""): Promise<WorkerImage> {
    const handler = `from svc._runtime.loader import load_endpoint
endpoint = load_endpoint(name="${name}", kind="queue", functions=[{"module": "actions", "name": "act", "kind": "function"}], routes={})
`;
    const files = { "src/actions.py": `${extra}\n${ACTIONS}`, [`handlers/${name}.py`]: handler };
    const image: WorkerImage = {
      endpointId: `id-${name}`,
      endpointName: name,
      buildId: randomUUID(),
      sourceLayer: await this.#layer(files),
      dependencyLayer: null,
      baseDependencies: [],
      pythonVersion: await localPython(),
      handler: `handlers/${name}.py`,
      imageName: CPU_IMAGE,
      systemDependencies: [],
      imageSteps: [],
      bootType: "SVCBOOT",
      volumes: [],
      cache: undefined,
    };
    await this.driver.prepare(image, () => {});
    return image;
  }

  spec(image: WorkerImage, changes: Partial<WorkerSpec> = {}): WorkerSpec {
    const { secret, hash } = newSecret("worker");
    const workerId = `w-${randomUUID().slice(0, 8)}`;
    this.#tokens.set(hash, workerId);
    return {
      workerId,
      token: secret,
      revision: "r1",
      image,
      appName: "app",
      environmentName: "production",
      kind: "queue",
      env: {},
      maxConcurrency: 1,
      instanceIds: "cpu3c-1-2",
      gpuIds: "",
      gpuPreference: [],
      gpuCount: 1,
      beyondCapacity: false,
      ...changes,
    };
  }

  /** Starts a worker and waits until it takes work. */
  async start(image: WorkerImage, changes: Partial<WorkerSpec> = {}): Promise<TestWorker> {
    const spec = this.spec(image, changes);
    const began = performance.now();
    await this.driver.start(spec);
    await this.#find("ready", spec.workerId);
    const readyMs = performance.now() - began;
    const { head } = await this.#find("started", spec.workerId);
    return this.#worker(spec.workerId, readyMs, head);
  }

  /** A worker of before a crash, back on the line. */
  async returned(id: string): Promise<TestWorker> {
    await this.#find("ready", id);
    return this.#worker(id, 0, { worker: id, pid: 0, how: "fork" });
  }

  exitOf(id: string): Promise<WorkerExit> {
    return this.#find("exit", id).then(({ exit }) => exit);
  }

  bootFailureOf(id: string): Promise<string> {
    return this.#find("boot-failed", id).then(({ message }) => message);
  }

  /** A worker that lost its link may send a result twice. */
  resultOf(id: string, job: string): Promise<Outcome> {
    return this.#find("result", id, (happening) => happening.job === job).then(({ outcome }) => outcome);
  }

  #worker(id: string, readyMs: number, started: StartedHead): TestWorker {
    const begin = (action: string, value: unknown = null) => {
      const connection = this.#connections.get(id);
      assert.ok(connection, `${id} is not connected`);
      this.#channel += 1;
      const job = `job-${this.#channel}`;
      const head = { job, fence: 1, timeoutMs: 600_000 };
      connection.send(FRAME.JOB, this.#channel, head, Buffer.from(JSON.stringify({ do: action, value })));
      return job;
    };
    return {
      id,
      readyMs,
      started,
      begin,
      run: async (action, value) => {
        return this.resultOf(id, begin(action, value));
      },
      printed: () => this.#find("printed", id).then(({ text }) => text),
      exit: () => this.exitOf(id),
    };
  }

  #limit({ vcpus, memoryGb }: { vcpus?: number; memoryGb?: number }): void {
    if (vcpus === undefined && memoryGb === undefined) return;
    const { capacity } = this.ledger;
    const taken = {
      vcpus: capacity.vcpus - (vcpus ?? capacity.vcpus),
      memoryGb: capacity.memoryGb - (memoryGb ?? capacity.memoryGb),
    };
    this.ledger.restore("others", { ...taken, gpus: [] });
  }

  async #onHello(connection: Connection, hello: HelloHead): Promise<void> {
    if (hello.role === "launcher") {
      if (await this.driver.attachLauncher(hello.token, connection)) welcome(connection);
      else refuse(connection, "unknown launcher");
      return;
    }
    if (hello.role === "host") {
      (this.driver as Partial<HostGreeter>).attachHost?.(connection, hello);
      return;
    }
    const worker = this.#tokens.get(hashSecret(hello.token));
    if (worker === undefined) {
      refuse(connection, "unknown worker");
      return;
    }
    this.#connections.set(worker, connection);
    connection.onFrame = (frame) => this.#onFrame(worker, connection, frame);
    welcome(connection);
  }

  #onFrame(worker: string, connection: Connection, frame: Frame): void {
    if (frame.type === FRAME.CREDIT && parseHead<CreditHead>(frame).slots > 0) this.#note({ kind: "ready", worker });
    if (frame.type === FRAME.BOOT_FAILED) {
      this.#note({ kind: "boot-failed", worker, message: parseHead<{ error_message: string }>(frame).error_message });
    }
    if (frame.type === FRAME.LOG) this.#note({ kind: "printed", worker, text: frame.body.toString("utf8") });
    if (frame.type !== FRAME.RESULT) return;
    connection.send(FRAME.ACK, frame.channel);
    const value = JSON.parse(frame.body.toString("utf8"));
    const { ok, job } = parseHead<{ ok: boolean; job: string }>(frame);
    this.#note({ kind: "result", worker, job, outcome: { ok, value } });
  }

  #note(happening: Happening): void {
    this.#happenings.push(happening);
    for (const watcher of this.#watchers) watcher();
  }

  /** Takes the first such event out, waiting for it. */
  async #find<K extends Happening["kind"], H = Extract<Happening, { kind: K }>>(
    kind: K,
    worker: string,
    fits: (happening: H) => boolean = () => true,
  ): Promise<H> {
    const take = () => {
      const at = this.#happenings.findIndex((one) => one.kind === kind && one.worker === worker && fits(one as H));
      return at < 0 ? undefined : (this.#happenings.splice(at, 1)[0] as H);
    };
    const { promise, resolve, reject } = Promise.withResolvers<H>();
    const look = () => {
      const found = take();
      if (found !== undefined) resolve(found);
    };
    const late = () => {
      const seen = this.#happenings.filter((one) => one.worker === worker);
      reject(new Error(`no "${kind}" of ${worker} within ${WAIT_MS} ms; it had ${JSON.stringify(seen)}`));
    };
    // The loser of a race goes on waiting, and must not keep the file from its end.
    const timer = setTimeout(late, WAIT_MS).unref();
    this.#watchers.add(look);
    look();
    try {
      return await promise;
    } finally {
      clearTimeout(timer);
      this.#watchers.delete(look);
    }
  }

  async #layer(files: Record<string, string>): Promise<string> {
    const pack = tar.pack();
    for (const [name, text] of Object.entries(files)) pack.entry({ name }, text);
    pack.finalize();
    const bytes = gzipSync(await buffer(pack));
    const digest = createHash("sha256").update(bytes).digest("hex");
    await this.#artifacts.put(digest, Readable.from([bytes]), 1_000_000);
    return digest;
  }
}

function welcome(connection: Connection): void {
  connection.trust();
  connection.send(FRAME.WELCOME, 0, { protocol: 1 });
}

async function localPython(): Promise<string> {
  const answer = await askPython("python3");
  assert.ok("version" in answer, "python3 runs");
  return answer.version;
}
