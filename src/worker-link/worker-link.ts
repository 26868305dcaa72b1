/**
 * The platform's end of the worker protocol (docs/reference/protocol.md): what workers and the launcher, who dial in, get
 * and send. Here stands what the rest of the platform asks of it.
 *
 *   connection ──HELLO──▶ greeting.ts ──▶ session-frames.ts ──CREDIT──▶ claims jobs, takes requests ──GOODBYE / close──▶ gone
 *                                                  meanwhile: upkeep.ts; all of them: sessions.ts
 */
import type { Socket } from "node:net";
import { SvcError } from "../domain/errors.ts";
import {
  LEASE_RENEW_MS,
  LINK_LAST_WORDS_MAX_MS,
  LINK_PING_MS,
  LINK_SWEEP_MS,
  PULL_HOLD_MS,
  STANDSTILL_MS,
  WORKER_DRAIN_GRACE_MS,
} from "../domain/limits.ts";
import { type IsMine, movedAway } from "../domain/own-endpoints.ts";
import type { LoadBalancedRequest, LoadBalancedResponse, RequestForwarder } from "../domain/request.ts";
import type { EndpointSample, WorkerBoot } from "../domain/worker.ts";
import type { BootFailure } from "../domain/worker-protocol.ts";
import type { Own } from "../lib/own.ts";
import { Standstill } from "../lib/standstill.ts";
import type { JobProgress, JobQueue, JobReader, Queue } from "../queue/queue.ts";
import type { Endpoint, Store, Worker } from "../store/store.ts";
import { Greeting } from "./greeting.ts";
import { JobWork } from "./job-work.ts";
import type { LinkHooks } from "./link-hooks.ts";
import { PullWorkers } from "./pull/pull-workers.ts";
import { Reception, type TlsListen } from "./reception.ts";
import { RequestDispatch } from "./request-dispatch.ts";
import type { WorkerSession } from "./session.ts";
import { SessionFrames } from "./session-frames.ts";
import { Sessions } from "./sessions.ts";
import { isSilent, ping, renewLeases, sweep } from "./upkeep.ts";

interface LinkDeps {
  readonly store: Store;
  readonly endpoints: { find(id: string): Endpoint | undefined | Promise<Endpoint | undefined> };
  readonly isMine: IsMine;
  readonly queue: Queue & JobProgress & JobReader & Pick<JobQueue, "events">;
  readonly hooks: LinkHooks;
  /** Milliseconds of a monotonic clock: how much a worker may say, how long one that pulls may be silent. */
  readonly now?: () => number;
  /** So long the question of a worker that pulls is held open; default PULL_HOLD_MS. */
  readonly pullHoldMs?: number;
}

export class WorkerLink implements RequestForwarder {
  readonly #deps: LinkDeps;
  readonly #own: Own;
  readonly #sessions: Sessions;
  readonly #requests: RequestDispatch;
  readonly #reception: Reception;
  readonly #frames: SessionFrames;
  /** Workers that pull their jobs over HTTP. */
  readonly pull: PullWorkers;
  #timers: NodeJS.Timeout[] = [];

  constructor(deps: LinkDeps) {
    this.#deps = deps;
    const { hooks, queue, now = () => performance.now() } = deps;
    const own: Own = (what, work) => {
      work.catch((error: unknown) => hooks.failed(what, error));
    };
    this.#own = own;
    const sessions = new Sessions(hooks, own, now);
    const requests = new RequestDispatch({
      sessionsOf: (id) => sessions.readyOf(id),
      onWaiting: (id) => hooks.requestWaiting(id),
      health: (id) => hooks.health(id),
      own,
    });
    const pull = new PullWorkers({ ...deps, own, now, holdMs: deps.pullHoldMs ?? PULL_HOLD_MS });
    const frames = new SessionFrames({ sessions, requests, queue, hooks, pull });
    const greeting = new Greeting({ ...deps, sessions, now, onFrame: (session, frame) => frames.take(session, frame) });
    this.pull = pull;
    this.#frames = frames;
    this.#sessions = sessions;
    this.#requests = requests;
    this.#reception = new Reception((...greeted) => greeting.hello(...greeted));
    queue.events.jobCancelled(({ jobId, workerId }) => this.#cancel(workerId, jobId));
  }

  async listen(socketPath: string): Promise<void> {
    await this.pull.recover();
    await this.#reception.listen(socketPath);
    const sweeps = new Standstill(LINK_SWEEP_MS + STANDSTILL_MS);
    const pings = new Standstill(LINK_PING_MS + STANDSTILL_MS);
    this.#timers = [
      setInterval(() => {
        const stoodStill = sweeps.happened();
        if (!stoodStill) sweep(this.#sessions, this.#deps.hooks);
        this.pull.sweep(stoodStill);
      }, LINK_SWEEP_MS),
      setInterval(() => {
        this.#own("renewing leases", renewLeases(this.#sessions, this.#deps.queue));
        this.#own("renewing leases", this.pull.renewLeases());
      }, LEASE_RENEW_MS),
      setInterval(() => pings.happened() || this.#own("asking silent workers", this.#ping()), LINK_PING_MS),
    ];
  }

  /** For workers of other machines. Resolves the port. */
  listenTls(options: TlsListen): Promise<number> {
    return this.#reception.listenTls(options);
  }

  /** A worker, or a host, that another platform has let through. */
  accept(socket: Socket): void {
    this.#reception.accept(socket);
  }

  forward(request: LoadBalancedRequest): Promise<LoadBalancedResponse> {
    const { endpointId } = request;
    if (!this.#deps.isMine(endpointId)) return Promise.reject(movedAway(endpointId));
    return this.#requests.forward(request);
  }

  sample(endpointId: string): EndpointSample {
    const linked = this.#sessions.sample(endpointId);
    const pulling = this.pull.sample(endpointId);
    return {
      waitingRequests: this.#requests.waitingFor(endpointId),
      running: linked.running + pulling.running,
      averageExecMs: linked.averageExecMs ?? pulling.averageExecMs,
      workers: [...linked.workers, ...pulling.workers],
    };
  }

  /**
   * From now on only workers of `revision` get work. The others finish what they have begun; what waits on them goes back
   * to the queue.
   */
  switchOver(endpointId: string, revision: string): void {
    for (const session of this.#sessions.all()) {
      if (session.endpoint.id !== endpointId || session.worker.revision === revision) continue;
      if (session.endpoint.kind === "queue") session.recall(performance.now(), 0);
      session.drain(WORKER_DRAIN_GRACE_MS);
    }
    this.pull.switchOver(endpointId, revision);
  }

  /** The endpoints of workers that are here and go on, and their code, each as often as it has such workers. */
  *served(): Iterable<Pick<Worker, "endpointId" | "revision">> {
    for (const { worker, intake } of this.#sessions.all()) if (!intake.signal.aborted) yield worker;
  }

  /** A worker that was ready before its endpoint came gets work. */
  adopted(workerId: string): void {
    const session = this.#sessions.find(workerId);
    if (session !== undefined) this.#frames.begin(session);
  }

  /** What bringing the worker up took, in milliseconds; undefined when it is not connected or not ready. */
  bootOf(workerId: string): WorkerBoot | undefined {
    const session = this.#sessions.find(workerId);
    if (session?.credit === undefined || session.pulls) return this.pull.bootOf(workerId);
    const { bootMs = 0, importMs = 0 } = session.credit;
    return { startedAt: session.worker.createdAt, bootMs, importMs };
  }

  /** Jobs and requests that a connected worker has ended since it came, or since the platform started. */
  doneBy(workerId: string): number | undefined {
    return this.pull.doneBy(workerId) ?? this.#sessions.find(workerId)?.done;
  }

  /** How long the request that waits longest has waited, in milliseconds; 0 when none waits. */
  oldestWaitMs(endpointId: string): number {
    return this.#requests.oldestWaitMs(endpointId);
  }

  /** A worker was started that pulls its jobs. */
  expectPull(workerId: string): void {
    this.pull.expect(workerId);
  }

  isConnected(workerId: string): boolean {
    return this.pull.isHeard(workerId) || (this.#sessions.find(workerId)?.connection.isOpen ?? false);
  }

  /** It is connected, and not silent for so long that its link is about to be closed. */
  isHeard(workerId: string): boolean {
    if (this.pull.isHeard(workerId)) return true;
    const session = this.#sessions.find(workerId);
    return session?.connection.isOpen === true && !isSilent(session, performance.now());
  }

  /** Workers of other machines whose links are open. */
  *connectedElsewhere(): Iterable<string> {
    for (const { worker, connection } of this.#sessions.all()) {
      if (connection.isOpen && !connection.isLocal) yield worker.id;
    }
  }

  drain(workerId: string, graceMs: number): void {
    if (this.pull.isReady(workerId)) this.pull.drain(workerId);
    else this.#sessions.find(workerId)?.drain(graceMs);
  }

  /** Who waits for an endpoint that is another platform's now is sent there. */
  endpointsMoved(): void {
    for (const id of this.#requests.waitedFor) if (!this.#deps.isMine(id)) this.#requests.failAll(id, movedAway(id));
  }

  /** Those who wait for the endpoint are told why a worker of it cannot start; not when newer code may do better. */
  async failWaiting({ endpointId, revision }: Pick<Worker, "endpointId" | "revision">, error: SvcError): Promise<void> {
    const endpoint = await this.#deps.endpoints.find(endpointId);
    if (endpoint === undefined || endpoint.revision === revision) this.#requests.failAll(endpointId, error);
  }

  /**
   * The worker's process has ended. What it said last may still be on its way here: its launcher has a connection of its own.
   * Jobs that lose it by the machine's fault wait again as if they had not begun. With a silent machine they are lost: one that brings its machine
   * down must not do so for ever.
   */
  async workerExited(workerId: string, reason: string, said?: "machine" | "silence"): Promise<void> {
    this.#deps.hooks.ahead?.exited(workerId);
    const cause = this.pull.isAstray(workerId) || said === "machine" ? "machine" : undefined;
    this.pull.exited(workerId, reason, cause);
    const session = this.#sessions.find(workerId);
    if (session !== undefined && !session.pulls) {
      session.intake.abort();
      if (session.works.size > 0) await session.connection.heardOut(LINK_LAST_WORDS_MAX_MS);
      this.#sessions.forget(session, reason, cause);
      return;
    }
    if (session !== undefined) this.#sessions.forget(session, reason, cause);
    const { queue } = this.#deps;
    const how = cause === "machine" ? "handed-back" : "lost";
    for (const claim of await queue.claimsOf(workerId)) await queue.release(claim, how, reason);
  }

  /** Takes all running jobs back as they were: the platform ends its workers, which is not their fault. */
  handBackAll(): void {
    for (const session of this.#sessions.all()) handBack(session, "the platform stops");
    this.pull.handBackAll("the platform stops");
  }

  /** Lets go of the workers; they go on with their jobs and come back to the next platform. */
  async close(): Promise<void> {
    for (const timer of this.#timers) clearInterval(timer);
    this.#requests.close();
    this.#sessions.close();
    await this.#reception.close();
  }

  async #ping(): Promise<void> {
    const { hooks } = this.#deps;
    await ping(this.#sessions, hooks).catch((error: unknown) =>
      hooks.failed("silent workers were not looked at", error),
    );
  }

  #cancel(workerId: string, jobId: string): void {
    this.pull.cancel(workerId, jobId);
    const session = this.#sessions.find(workerId);
    for (const work of session?.works.values() ?? []) {
      if (work instanceof JobWork && work.claim.jobId === jobId) session!.end(work, "cancelled");
    }
  }
}

function handBack(session: WorkerSession, reason: string): void {
  for (const work of session.works.values()) if (work instanceof JobWork) work.lost(false, reason);
}

export function bootError(endpointName: string, failure: BootFailure): SvcError {
  return new SvcError(
    "BOOT_FAILED",
    `Endpoint "${endpointName}" cannot start: ${failure.error_type}: ${failure.error_message}`,
    { help: failure.error_traceback },
  );
}
