/**
 * The platform's end of the worker protocol (docs/reference/protocol.md): what workers and the launcher, who dial in, get
 * and send. A worker that breaks off has a moment to come back before its jobs are given to another.
 *
 *   connection ──HELLO──▶ known token? ──CREDIT──▶ session: claims jobs, takes requests ──GOODBYE / close──▶ gone
 */
import { hashSecret } from "../domain/api-key.ts";
import { SvcError } from "../domain/errors.ts";
import {
  LEASE_RENEW_MS,
  LINK_PING_MS,
  LINK_RETURN_MS,
  LINK_SILENCE_MAX_MS,
  LINK_SWEEP_MS,
  PREFETCH_EXECUTION_MAX_MS,
  WORKER_BOOT_TIMEOUT_MS,
  WORKER_DRAIN_GRACE_MS,
} from "../domain/limits.ts";
import { isLiveName } from "../domain/names.ts";
import type { LoadBalancedRequest, LoadBalancedResponse, RequestForwarder } from "../domain/request.ts";
import type { EndpointHealth, EndpointSample, WorkerBoot } from "../domain/worker.ts";
import {
  type BootFailure,
  type CreditHead,
  FRAME,
  type HelloHead,
  PROTOCOL_VERSION,
  type WelcomeHead,
} from "../domain/worker-protocol.ts";
import { type Frame, parseHead } from "../lib/frames.ts";
import { getOrInsert } from "../lib/get-or-insert.ts";
import type { JobProgress, JobQueue, JobReader, Queue } from "../queue/queue.ts";
import type { Endpoint, Store, Worker } from "../store/store.ts";
import type { Connection } from "./connection.ts";
import { EndpointLoad } from "./endpoint-load.ts";
import { dispatchJobs } from "./job-dispatch.ts";
import { JobWork } from "./job-work.ts";
import { Reception, refuse, type TlsListen } from "./reception.ts";
import { RequestDispatch } from "./request-dispatch.ts";
import { WorkerSession } from "./session.ts";

export interface LogLine {
  readonly workerId: string;
  readonly endpointId: string;
  readonly jobId: string;
  /** progress: an update that a job of a live endpoint reported. */
  readonly stream: "stdout" | "stderr" | "progress";
  readonly text: string;
}

/** What the rest of the platform is told; wired in compose.ts. */
export interface LinkHooks {
  workerReady(worker: Worker): void;
  workerGone(workerId: string, endpointId: string): void;
  /** A worker has finished all it had. */
  workerIdle(): void;
  bootFailed(workerId: string, failure: BootFailure): void;
  /** It ignored a cancel or went silent: it must be killed. */
  workerStuck(workerId: string, reason: string): void;
  /** A request waits and no worker is free. */
  requestWaiting(endpointId: string): void;
  log(line: LogLine): void;
  health(endpointId: string): EndpointHealth | Promise<EndpointHealth>;
  /** Base URL of the platform's HTTP side as workers of this machine reach it. */
  platformUrl(): Promise<string>;
  /** The launcher dialled in; `secret` is what it proves itself with. Returns false to refuse it. */
  launcherConnected(secret: string, connection: Connection): boolean | Promise<boolean>;
}

interface LinkDeps {
  readonly store: Store;
  readonly endpoints: { find(id: string): Endpoint | undefined | Promise<Endpoint | undefined> };
  readonly queue: Queue & JobProgress & JobReader & Pick<JobQueue, "events">;
  readonly hooks: LinkHooks;
}

export class WorkerLink implements RequestForwarder {
  readonly #deps: LinkDeps;
  readonly #reception = new Reception((connection, hello) => this.#onHello(connection, hello));
  readonly #sessions = new Map<string, WorkerSession>();
  readonly #byEndpoint = new Map<string, Set<WorkerSession>>();
  readonly #loads = new Map<string, EndpointLoad>();
  readonly #requests: RequestDispatch;
  readonly #returnTimers = new Map<string, NodeJS.Timeout>();
  #timers: NodeJS.Timeout[] = [];

  constructor(deps: LinkDeps) {
    this.#deps = deps;
    this.#requests = new RequestDispatch({
      sessionsOf: (id) => this.#byEndpoint.get(id) ?? [],
      onWaiting: (id) => deps.hooks.requestWaiting(id),
      health: (id) => deps.hooks.health(id),
    });
    deps.queue.events.jobCancelled(({ jobId, workerId }) => this.#cancel(workerId, jobId));
  }

  async listen(socketPath: string): Promise<void> {
    await this.#reception.listen(socketPath);
    this.#timers = [
      setInterval(() => this.#sweep(), LINK_SWEEP_MS),
      setInterval(() => void this.#renewLeases(), LEASE_RENEW_MS),
      setInterval(() => this.#ping(), LINK_PING_MS),
    ];
  }

  /** For workers of other machines. Resolves the port. */
  listenTls(options: TlsListen): Promise<number> {
    return this.#reception.listenTls(options);
  }

  forward(request: LoadBalancedRequest): Promise<LoadBalancedResponse> {
    return this.#requests.forward(request);
  }

  sample(endpointId: string): EndpointSample {
    const now = performance.now();
    let running = 0;
    const workers = [...(this.#byEndpoint.get(endpointId) ?? [])].map((session) => {
      running += session.works.size;
      const busy = session.works.size > 0;
      return { id: session.worker.id, ready: session.isReady, busy, idleMs: busy ? 0 : now - session.idleSince };
    });
    const averageExecMs = this.#loads.get(endpointId)?.averageExecMs;
    return { waitingRequests: this.#requests.waitingFor(endpointId), running, averageExecMs, workers };
  }

  /**
   * From now on only workers of `revision` get work. The others finish what they have begun; what waits on them goes back
   * to the queue.
   */
  switchOver(endpointId: string, revision: string): void {
    for (const session of this.#sessions.values()) {
      if (session.endpoint.id !== endpointId || session.worker.revision === revision) continue;
      if (session.endpoint.kind === "queue") session.recall(performance.now(), 0);
      session.drain(WORKER_DRAIN_GRACE_MS);
    }
  }

  /** What bringing the worker up took, in milliseconds; undefined when it is not connected or not ready. */
  bootOf(workerId: string): WorkerBoot | undefined {
    const session = this.#sessions.get(workerId);
    if (session?.credit === undefined) return undefined;
    const { bootMs = 0, importMs = 0 } = session.credit;
    return { startedAt: session.worker.createdAt, bootMs, importMs };
  }

  isConnected(workerId: string): boolean {
    return this.#sessions.get(workerId)?.connection.isOpen ?? false;
  }

  drain(workerId: string, graceMs: number): void {
    this.#sessions.get(workerId)?.drain(graceMs);
  }

  /** Those who wait for this endpoint are told why it cannot start. */
  failWaiting(endpointId: string, error: SvcError): void {
    this.#requests.failAll(endpointId, error);
  }

  /** The worker's process has ended: nothing more will come from it. */
  async workerExited(workerId: string, reason: string): Promise<void> {
    const session = this.#sessions.get(workerId);
    if (session !== undefined) this.#forget(session, reason);
    else {
      const { queue } = this.#deps;
      for (const claim of await queue.claimsOf(workerId)) await queue.release(claim, "lost", reason);
    }
  }

  /** Takes all running jobs back as they were: the platform ends its workers, which is not their fault. */
  handBackAll(): void {
    for (const session of this.#sessions.values()) {
      for (const work of session.works.values()) if (work instanceof JobWork) work.lost(false, "the platform stops");
    }
  }

  /** Lets go of the workers; they go on with their jobs and come back to the next platform. */
  async close(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer);
    for (const timer of this.#returnTimers.values()) clearTimeout(timer);
    this.#requests.close();
    for (const session of this.#sessions.values()) session.intake.abort();
    await this.#reception.close();
  }

  #onHello(connection: Connection, hello: HelloHead): void {
    if (hello.role === "launcher") void this.#helloLauncher(connection, hello);
    else void this.#helloWorker(connection, hello);
  }

  async #helloLauncher(connection: Connection, hello: HelloHead): Promise<void> {
    connection.onFrame = () => {};
    if (await this.#deps.hooks.launcherConnected(hello.token, connection)) welcome(connection);
    else refuse(connection, "unknown launcher");
  }

  async #helloWorker(connection: Connection, hello: HelloHead): Promise<void> {
    // Frames that come while the token is looked up wait for their turn.
    const early: Frame[] = [];
    connection.onFrame = (frame) => early.push(frame);
    const worker = await this.#deps.store.workers.findByToken(hashSecret(hello.token));
    const endpoint = worker && (await this.#deps.endpoints.find(worker.endpointId));
    if (worker === undefined || endpoint === undefined) return refuse(connection, "unknown worker");
    const replaced = isLiveName(endpoint.name) && worker.revision !== endpoint.revision;
    if (replaced && !hello.unacknowledged?.length) return refuse(connection, "replaced by a new revision");
    const platformUrl = connection.isLocal ? await this.#deps.hooks.platformUrl() : undefined;
    const session = await this.#resume(connection, worker, endpoint, hello);
    connection.onFrame = (frame) => this.#onFrame(session, frame);
    const onClose = connection.onClose;
    connection.onClose = () => {
      onClose();
      this.#onBreak(session, connection);
    };
    welcome(connection, platformUrl);
    if (replaced) session.drain(WORKER_DRAIN_GRACE_MS);
    for (const frame of early) this.#onFrame(session, frame);
  }

  /** The worker's session: the one it had before a break, or a new one holding what it says it still has. */
  async #resume(connection: Connection, worker: Worker, endpoint: Endpoint, hello: HelloHead): Promise<WorkerSession> {
    const held = new Map((hello.unacknowledged ?? []).map((entry) => [entry.job, entry]));
    let session = this.#sessions.get(worker.id);
    clearTimeout(this.#returnTimers.get(worker.id));
    this.#returnTimers.delete(worker.id);
    if (session === undefined) {
      session = new WorkerSession(worker, endpoint, this.#load(endpoint.id), connection);
      if (isLiveName(endpoint.name)) session.onProgress = (jobId, text) => this.#progress(worker, jobId, text);
      this.#sessions.set(worker.id, session);
      if (held.size === 0 && worker.state === "STARTING") return session;
    } else session.connection = connection;
    const { queue } = this.#deps;
    const known = new Set([...session.works.values()].map((work) => (work instanceof JobWork ? work.claim.jobId : "")));
    for (const claim of await queue.claimsOf(worker.id)) {
      const entry = held.get(claim.jobId);
      if (entry === undefined || entry.fence !== claim.fence) await queue.release(claim, "handed-back");
      else if (!known.has(claim.jobId)) await this.#adopt(session, claim.jobId, entry);
    }
    for (const entry of held.values()) session.keepChannelsUpTo(entry.channel);
    for (const work of [...session.works.values()]) {
      if (work instanceof JobWork && held.has(work.claim.jobId)) continue;
      if (!(work instanceof JobWork)) work.lost(true, "its connection broke");
      session.works.delete(work.channel);
    }
    return session;
  }

  async #adopt(session: WorkerSession, jobId: string, entry: { channel: number; fence: number }): Promise<void> {
    const job = await this.#deps.queue.find(jobId);
    if (job === undefined) return;
    const claim = { jobId, fence: entry.fence };
    const work = new JobWork(session, this.#deps.queue, entry.channel, claim, job.executionTimeoutMs);
    work.startedAt = performance.now() - (Date.now() - (job.startedAt ?? Date.now()));
    session.works.set(entry.channel, work);
  }

  #load(endpointId: string): EndpointLoad {
    return getOrInsert(this.#loads, endpointId, () => new EndpointLoad());
  }

  #onFrame(session: WorkerSession, frame: Frame): void {
    if (frame.channel !== 0 && frame.type !== FRAME.LOG) {
      const work = session.works.get(frame.channel);
      if (work === undefined) {
        // A result that nobody waits for any more: the worker may forget it.
        if (frame.type === FRAME.RESULT) session.connection.send(FRAME.ACK, frame.channel);
      } else if (work.onFrame(frame)) this.#over(session, work);
      return;
    }
    if (frame.type === FRAME.CREDIT) this.#ready(session, parseHead<CreditHead>(frame));
    else if (frame.type === FRAME.BOOT_FAILED)
      this.#deps.hooks.bootFailed(session.worker.id, parseHead<BootFailure>(frame));
    else if (frame.type === FRAME.LOG) this.#log(session, frame);
    else if (frame.type === FRAME.GOODBYE) session.left();
  }

  #over(session: WorkerSession, work: { channel: number }): void {
    session.remove(work as Parameters<WorkerSession["remove"]>[0]);
    if (session.works.size === 0) this.#deps.hooks.workerIdle();
    if (session.endpoint.kind === "load-balanced") this.#requests.serve(session);
  }

  #ready(session: WorkerSession, credit: CreditHead): void {
    const again = session.slots > 0;
    session.slots = Math.max(1, credit.slots);
    if (again) {
      session.onFree();
      return;
    }
    session.credit = credit;
    session.idleSince = performance.now();
    const { endpoint, worker } = session;
    getOrInsert(this.#byEndpoint, endpoint.id, () => new Set()).add(session);
    if (endpoint.kind === "queue") void dispatchJobs(session, this.#deps.queue);
    else {
      session.onFree = () => {};
      this.#requests.serve(session);
    }
    this.#deps.hooks.workerReady(worker);
  }

  #log(session: WorkerSession, frame: Frame): void {
    const head = parseHead<{ stream?: "stdout" | "stderr"; job?: string }>(frame);
    this.#deps.hooks.log({
      workerId: session.worker.id,
      endpointId: session.endpoint.id,
      jobId: head.job ?? "",
      stream: head.stream ?? "stdout",
      text: frame.body.toString("utf8"),
    });
  }

  #progress({ id: workerId, endpointId }: Worker, jobId: string, text: string): void {
    this.#deps.hooks.log({ workerId, endpointId, jobId, stream: "progress", text });
  }

  #onBreak(session: WorkerSession, connection: Connection): void {
    if (session.connection !== connection || this.#sessions.get(session.worker.id) !== session) return;
    const { id } = session.worker;
    const giveUp = () => this.#forget(session, "its connection closed");
    if (session.works.size === 0) giveUp();
    else this.#returnTimers.set(id, setTimeout(giveUp, LINK_RETURN_MS));
  }

  #forget(session: WorkerSession, reason: string): void {
    const { id } = session.worker;
    if (this.#sessions.get(id) !== session) return;
    clearTimeout(this.#returnTimers.get(id));
    this.#returnTimers.delete(id);
    this.#sessions.delete(id);
    this.#byEndpoint.get(session.endpoint.id)?.delete(session);
    if (session.works.size > 0) session.load.workerLost(performance.now());
    session.loseAll(reason);
    this.#deps.hooks.workerGone(id, session.endpoint.id);
  }

  #cancel(workerId: string, jobId: string): void {
    const session = this.#sessions.get(workerId);
    for (const work of session?.works.values() ?? []) {
      if (work instanceof JobWork && work.claim.jobId === jobId) session!.end(work, "cancelled");
    }
  }

  #sweep(): void {
    const now = performance.now();
    for (const session of this.#sessions.values()) {
      if (session.sweep(now)) this.#deps.hooks.workerStuck(session.worker.id, "it did not stop when it was cancelled");
      if (session.endpoint.kind === "queue") session.recall(now, PREFETCH_EXECUTION_MAX_MS);
      const booting = session.slots === 0 && Date.now() - session.worker.createdAt > WORKER_BOOT_TIMEOUT_MS;
      if (booting) this.#deps.hooks.workerStuck(session.worker.id, "it was not ready in time");
    }
  }

  async #renewLeases(): Promise<void> {
    const works: { session: WorkerSession; work: JobWork }[] = [];
    for (const session of this.#sessions.values()) {
      for (const work of session.works.values()) {
        if (work instanceof JobWork && work.endedAt === null) works.push({ session, work });
      }
    }
    if (works.length === 0) return;
    const invalid = new Set(
      (await this.#deps.queue.renew(works.map(({ work }) => work.claim))).map((claim) => claim.jobId),
    );
    for (const { session, work } of works) {
      if (invalid.has(work.claim.jobId) && session.works.get(work.channel) === work) session.end(work, "cancelled");
    }
  }

  #ping(): void {
    const now = performance.now();
    for (const { connection, slots } of this.#sessions.values()) {
      if (slots === 0) continue; // Importing: it cannot answer yet; the boot time-out watches it.
      const silentMs = now - connection.lastHeard;
      if (silentMs > LINK_SILENCE_MAX_MS) connection.close();
      else if (silentMs > LINK_PING_MS / 2) connection.send(FRAME.PING, 0);
    }
  }
}

function welcome(connection: Connection, platformUrl?: string): void {
  connection.trust();
  const head: WelcomeHead = { protocol: PROTOCOL_VERSION, platformUrl };
  connection.send(FRAME.WELCOME, 0, head);
}

export function bootError(endpointName: string, failure: BootFailure): SvcError {
  return new SvcError(
    "BOOT_FAILED",
    `Endpoint "${endpointName}" cannot start: ${failure.error_type}: ${failure.error_message}`,
    { help: failure.error_traceback },
  );
}
