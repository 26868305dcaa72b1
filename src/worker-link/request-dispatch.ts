/**
 * Requests of load-balanced endpoints: no queue on disk, a waiting line in memory. A request goes to the ready
 * worker that has the least to do, or waits until one is free or its time is over.
 */
import { SvcError } from "../domain/errors.ts";
import type { LoadBalancedRequest, LoadBalancedResponse } from "../domain/request.ts";
import type { EndpointHealth } from "../domain/worker.ts";
import { FRAME, MORE } from "../domain/worker-protocol.ts";
import { getOrInsert } from "../lib/get-or-insert.ts";
import type { Own } from "../lib/own.ts";
import type { Connection } from "./connection.ts";
import { type PendingRequest, RequestWork } from "./request-work.ts";
import type { WorkerSession } from "./session.ts";

interface DispatchHooks {
  sessionsOf(endpointId: string): Iterable<WorkerSession>;
  /** No worker was free. */
  onWaiting(endpointId: string): void;
  health(endpointId: string): EndpointHealth | Promise<EndpointHealth>;
  own: Own;
}

export class RequestDispatch {
  readonly #waiting = new Map<string, Set<PendingRequest>>();
  /** Of those that wait. */
  readonly #timers = new WeakMap<PendingRequest, NodeJS.Timeout>();
  readonly #hooks: DispatchHooks;

  constructor(hooks: DispatchHooks) {
    this.#hooks = hooks;
  }

  waitingFor(endpointId: string): number {
    return this.#waiting.get(endpointId)?.size ?? 0;
  }

  /** How long the one that waits longest has waited, in milliseconds; 0 when none waits. */
  oldestWaitMs(endpointId: string): number {
    const [oldest] = this.#waiting.get(endpointId) ?? [];
    return oldest === undefined ? 0 : performance.now() - oldest.arrivedAt;
  }

  async forward(request: LoadBalancedRequest): Promise<LoadBalancedResponse> {
    // Nobody would be told of it any more.
    if (request.departure.hasGone) throw new SvcError("WORKER_LOST", "The caller has gone.");
    return new Promise((resolve, reject) => {
      this.#place({ request, arrivedAt: performance.now(), resolve, reject });
    });
  }

  /** A worker of the endpoint has room: those who wait go first. */
  serve(session: WorkerSession): void {
    const waiting = this.#waiting.get(session.endpoint.id);
    if (waiting === undefined) return;
    for (const pending of waiting) {
      if (session.free <= 0) return;
      this.#leave(pending);
      this.#start(session, pending);
    }
  }

  /** Answers everyone who waits for the endpoint, e.g. because its workers cannot boot. */
  failAll(endpointId: string, error: SvcError): void {
    for (const pending of this.#waiting.get(endpointId) ?? []) {
      this.#leave(pending);
      pending.reject(error);
    }
  }

  /** Endpoints for which somebody waits. */
  get waitedFor(): readonly string[] {
    return [...this.#waiting.keys()];
  }

  close(): void {
    const error = new SvcError("SHUTTING_DOWN", "The platform is shutting down.", { help: "Try again in a moment." });
    for (const endpointId of [...this.#waiting.keys()]) this.failAll(endpointId, error);
  }

  readonly #place = (pending: PendingRequest): void => {
    const session = this.#leastBusy(pending.request.endpointId);
    if (session !== undefined) this.#start(session, pending);
    else this.#wait(pending);
  };

  #start(session: WorkerSession, pending: PendingRequest): void {
    const { connection } = session;
    const work = new RequestWork(session, pending, this.#place);
    session.add(work);
    const { id, method, path, query, headers, body, publicRoutes, handedOut } = pending.request;
    handedOut?.();
    const head = { id, method, path, query, headers, timeoutMs: work.timeoutMs, publicRoutes };
    if (Buffer.isBuffer(body)) connection.send(FRAME.REQUEST, work.channel, head, body);
    else {
      connection.send(FRAME.REQUEST, work.channel, head, undefined, MORE);
      this.#hooks.own("sending a request's body", sendBody(session, work, connection, body));
    }
  }

  #leastBusy(endpointId: string): WorkerSession | undefined {
    let best: WorkerSession | undefined;
    for (const session of this.#hooks.sessionsOf(endpointId)) {
      if (session.free > 0 && (best === undefined || session.works.size < best.works.size)) best = session;
    }
    return best;
  }

  #wait(pending: PendingRequest): void {
    const { request } = pending;
    getOrInsert(this.#waiting, request.endpointId, () => new Set()).add(pending);
    const timer = setTimeout(() => this.#hooks.own("ending a request", this.#expire(pending)), request.timeoutMs);
    request.departure.onGone = () => {
      this.#leave(pending);
      pending.reject(new SvcError("WORKER_LOST", "The caller has gone."));
    };
    this.#timers.set(pending, timer);
    this.#hooks.onWaiting(request.endpointId);
  }

  #leave(pending: PendingRequest): void {
    clearTimeout(this.#timers.get(pending));
    const { endpointId, departure } = pending.request;
    departure.onGone = () => {};
    const waiting = this.#waiting.get(endpointId);
    waiting?.delete(pending);
    if (waiting?.size === 0) this.#waiting.delete(endpointId);
  }

  async #expire(pending: PendingRequest): Promise<void> {
    this.#leave(pending);
    const { endpointId, timeoutMs } = pending.request;
    // Whatever becomes of the reason, the caller is answered.
    const health = await Promise.resolve(this.#hooks.health(endpointId)).catch(() => ({ reason: "", state: "" }));
    const why =
      health.reason !== "" ? ` ${health.reason}` : health.state === "PREPARING" ? " It is still being prepared." : "";
    pending.reject(
      new SvcError("WORKER_WAIT_TIMEOUT", `No worker of the endpoint was free within ${timeoutMs} ms.${why}`, {
        help: "Try again, or look at `svc status`.",
      }),
    );
  }
}

/** The parts of `body` are freed when they have left. */
async function sendBody(
  session: WorkerSession,
  work: RequestWork,
  connection: Connection,
  body: AsyncIterable<Buffer>,
) {
  try {
    for await (const chunk of body) {
      if (!(await work.uploadRoom(chunk.length))) return;
      const isOwn = chunk.length === chunk.buffer.byteLength;
      connection.send(FRAME.BODY, work.channel, undefined, chunk, MORE, isOwn);
      await connection.drained();
    }
    connection.send(FRAME.BODY, work.channel);
  } catch {
    session.end(work, "disconnected"); // The caller broke off in the middle of the body.
  }
}
