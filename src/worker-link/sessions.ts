/** The workers that are connected, or broke off a moment ago and may come back before their jobs are given to another. */
import { LINK_RETURN_MS } from "../domain/limits.ts";
import type { EndpointSample } from "../domain/worker.ts";
import { getOrInsert } from "../lib/get-or-insert.ts";
import type { Own } from "../lib/own.ts";
import type { Endpoint, Worker } from "../store/store.ts";
import type { Connection } from "./connection.ts";
import { EndpointLoad } from "./endpoint-load.ts";
import type { LinkHooks } from "./link-hooks.ts";
import { LinkRate } from "./link-rate.ts";
import { WorkerSession } from "./session.ts";

type SessionsHooks = Pick<LinkHooks, "workerGone" | "aliveWorkers">;

const LINK_CLOSED = "its connection closed";

export class Sessions {
  readonly #byWorker = new Map<string, WorkerSession>();
  /** Those that have said CREDIT. */
  readonly #byEndpoint = new Map<string, Set<WorkerSession>>();
  readonly #loads = new Map<string, EndpointLoad>();
  readonly #returnTimers = new Map<string, NodeJS.Timeout>();
  #isClosed = false;
  readonly #hooks: SessionsHooks;
  readonly #own: Own;

  readonly #now: () => number;

  constructor(hooks: SessionsHooks, own: Own, now: () => number) {
    this.#hooks = hooks;
    this.#now = now;
    this.#own = own;
  }

  find(workerId: string): WorkerSession | undefined {
    return this.#byWorker.get(workerId);
  }

  has(session: WorkerSession): boolean {
    return this.#byWorker.get(session.worker.id) === session;
  }

  all(): Iterable<WorkerSession> {
    return this.#byWorker.values();
  }

  readyOf(endpointId: string): Iterable<WorkerSession> {
    return this.#byEndpoint.get(endpointId) ?? [];
  }

  sample(endpointId: string): Omit<EndpointSample, "waitingRequests"> {
    const now = performance.now();
    let running = 0;
    const workers = [...this.readyOf(endpointId)].map((session) => {
      running += session.works.size;
      const busy = session.works.size > 0;
      return { id: session.worker.id, ready: session.isReady, busy, idleMs: busy ? 0 : now - session.idleSince };
    });
    return { running, averageExecMs: this.#loads.get(endpointId)?.averageExecMs, workers };
  }

  open(worker: Worker, endpoint: Endpoint, connection: Connection): WorkerSession {
    const load = getOrInsert(this.#loads, endpoint.id, () => new EndpointLoad());
    const session = new WorkerSession(worker, endpoint, load, connection, this.#own, new LinkRate(this.#now));
    this.#byWorker.set(worker.id, session);
    return session;
  }

  becameReady(session: WorkerSession): void {
    getOrInsert(this.#byEndpoint, session.endpoint.id, () => new Set()).add(session);
  }

  cameBack(workerId: string): void {
    clearTimeout(this.#returnTimers.get(workerId));
    this.#returnTimers.delete(workerId);
  }

  /** `connection` closed: when it was the session's newest, the worker has a moment to come back. */
  broke(session: WorkerSession, connection: Connection): void {
    if (!this.#isAway(session, connection)) return;
    if (session.works.size > 0 || session.isResuming) this.#waitFor(session, connection);
    else this.forget(session, LINK_CLOSED);
  }

  #isAway(session: WorkerSession, connection: Connection): boolean {
    return !this.#isClosed && session.connection === connection && this.has(session);
  }

  #waitFor(session: WorkerSession, connection: Connection): void {
    const look = () => this.#own("looking after a worker that is away", this.#lookAfter(session, connection));
    this.#returnTimers.set(session.worker.id, setTimeout(look, LINK_RETURN_MS));
  }

  /**
   * A function that holds up its process keeps it from dialling in: what such a worker has begun stays its own as long as its
   * launcher counts it as alive. What it has not begun need not wait for that. Nobody could send the answer of a request.
   */
  async #lookAfter(session: WorkerSession, connection: Connection): Promise<void> {
    const isVouchedFor = connection.isLocal && session.endpoint.kind === "queue" && (await this.#lives(session));
    if (!this.#isAway(session, connection)) return;
    if (isVouchedFor) session.handBackWaiting(LINK_CLOSED);
    if (isVouchedFor && session.works.size > 0) this.#waitFor(session, connection);
    else this.forget(session, LINK_CLOSED);
  }

  async #lives({ worker }: WorkerSession): Promise<boolean> {
    const alive = await this.#hooks.aliveWorkers().catch((): string[] => []);
    return alive.includes(worker.id);
  }

  forget(session: WorkerSession, reason: string, cause?: "machine"): void {
    const { id } = session.worker;
    if (!this.has(session)) return;
    this.cameBack(id);
    this.#byWorker.delete(id);
    this.#byEndpoint.get(session.endpoint.id)?.delete(session);
    if (session.works.size > 0) session.load.workerLost(performance.now());
    session.connection.destroy();
    session.loseAll(reason, cause);
    this.#hooks.workerGone(id, session.endpoint.id);
  }

  /** From now on nobody is given up: they go on and come back to the next platform. */
  close(): void {
    this.#isClosed = true;
    for (const timer of this.#returnTimers.values()) clearTimeout(timer);
    for (const session of this.all()) session.intake.abort();
  }
}
