/**
 * Who a connection says it is, and whether it may come in.
 *
 *   HELLO ──▶ known token? ──▶ its place is free? ──▶ WELCOME ──▶ what it still holds (resume.ts) ──▶ its frames
 *                └──▶ REFUSED        └──▶ closed
 *
 * Nothing is read from it meanwhile, so that its results find the jobs they belong to; nothing is sent to it before
 * WELCOME, because it would not listen.
 */
import { hashSecret } from "../domain/api-key.ts";
import { WORKER_DRAIN_GRACE_MS } from "../domain/limits.ts";
import { isLiveName } from "../domain/names.ts";
import type { IsMine } from "../domain/own-endpoints.ts";
import { FRAME, type HelloHead, PROTOCOL_VERSION, type WelcomeHead } from "../domain/worker-protocol.ts";
import type { Frame } from "../lib/frames.ts";
import type { JobProgress, JobReader, Queue } from "../queue/queue.ts";
import type { Endpoint, Store, Worker } from "../store/store.ts";
import type { Connection } from "./connection.ts";
import { HostGreeting } from "./host-greeting.ts";
import type { LinkHooks } from "./link-hooks.ts";
import { answers, refuse } from "./reception.ts";
import { adopt, goOn } from "./resume.ts";
import type { WorkerSession } from "./session.ts";
import type { Sessions } from "./sessions.ts";

interface GreetingDeps {
  readonly store: Store;
  readonly endpoints: { find(id: string): Endpoint | undefined | Promise<Endpoint | undefined> };
  readonly isMine: IsMine;
  readonly queue: Queue & JobProgress & JobReader;
  readonly hooks: LinkHooks;
  readonly sessions: Sessions;
  /** Milliseconds of a monotonic clock. */
  readonly now: () => number;
  /** Throws when the frame breaks the protocol. */
  readonly onFrame: (session: WorkerSession, frame: Frame) => void;
}

export class Greeting {
  readonly #deps: GreetingDeps;
  /** Workers that are being welcomed: a second HELLO waits for the end of the first. */
  readonly #turns = new Map<string, Promise<void>>();

  readonly #hosts: HostGreeting | undefined;

  constructor(deps: GreetingDeps) {
    this.#deps = deps;
    const { hosts } = deps.hooks;
    this.#hosts = hosts && new HostGreeting(hosts, deps.now);
  }

  /** `again` lets the connection say HELLO once more. */
  hello(connection: Connection, hello: HelloHead, again: () => void, frame: Frame): void {
    if (hello.role === "ahead") {
      again();
      if (!this.#hosts?.ahead.admits(connection, hello.token)) connection.destroy();
      return;
    }
    const done = this.#byRole(connection, hello, frame);
    done.catch((error: unknown) => {
      this.#deps.hooks.failed(`a ${hello.role} could not be let in`, error);
      connection.destroy();
    });
  }

  async #byRole(connection: Connection, hello: HelloHead, frame: Frame): Promise<void> {
    if (hello.role === "worker") return this.#worker(connection, hello, frame);
    if (hello.role === "launcher") return this.#launcher(connection, hello);
    if (this.#hosts === undefined) refuse(connection, "no machine can join this platform");
    else await (this.#passOn(connection, undefined, frame) ?? this.#hosts.hello(connection, hello));
  }

  /** Undefined: it belongs here. Else it is let through to another platform or, where that cannot be, closed: it dials again. */
  #passOn(
    connection: Connection,
    endpointId: string | undefined,
    frame: Frame,
    early: Frame[] = [],
  ): Promise<void> | undefined {
    const { elsewhere } = this.#deps.hooks;
    if (elsewhere === undefined || connection.isLocal) return undefined;
    const way = elsewhere(endpointId);
    if (way === undefined) return undefined;
    connection.onFrame = (next) => early.push(next);
    connection.pause();
    const passed = async () => {
      const socket = await way;
      if (connection.isOpen && !connection.isPassed) return connection.passOn(socket, [frame, ...early]);
      socket.destroy();
      connection.destroy();
    };
    return passed().catch(() => connection.destroy());
  }

  async #launcher(connection: Connection, hello: HelloHead): Promise<void> {
    connection.onFrame = () => {};
    connection.onError = (error) => this.#deps.hooks.failed("a launcher broke the worker protocol", error);
    if (await this.#deps.hooks.launcherConnected(hello.token, connection)) welcome(connection);
    else refuse(connection, "unknown launcher");
  }

  async #worker(connection: Connection, hello: HelloHead, frame: Frame): Promise<void> {
    const { store, endpoints, hooks, isMine } = this.#deps;
    const early: Frame[] = [];
    connection.onFrame = (next) => early.push(next);
    connection.pause();
    const tokenHash = hashSecret(hello.token);
    const worker = hooks.ahead?.ofToken(tokenHash) ?? (await store.workers.findByToken(tokenHash));
    const endpoint = worker && (await endpoints.find(worker.endpointId));
    if (worker === undefined || endpoint === undefined) return refuse(connection, "unknown worker");
    const passed = this.#passOn(connection, endpoint.id, frame, early);
    if (passed !== undefined) return passed;
    if (!isMine(endpoint.id) && !hooks.ahead?.has(worker.id))
      return refuse(connection, "another platform has its endpoint");
    const isReplaced = isLiveName(endpoint.name) && worker.revision !== endpoint.revision;
    if (isReplaced && !hello.unacknowledged?.length) {
      await hooks.workerReplaced(worker.id);
      return refuse(connection, "replaced by a new revision");
    }
    const platformUrl = connection.isLocal ? await hooks.platformUrl() : undefined;
    const session = await this.#inTurn(worker.id, async () => {
      if (!(await this.#isPlaceFree(worker.id, connection))) return undefined;
      return this.#letIn(connection, worker, endpoint, hello, platformUrl);
    });
    if (session === undefined) return;
    if (isReplaced) session.drain(WORKER_DRAIN_GRACE_MS);
    this.#listen(session, connection, early);
  }

  async #inTurn<T>(workerId: string, act: () => Promise<T>): Promise<T> {
    const before = this.#turns.get(workerId);
    const turn = (before ?? Promise.resolve()).then(act);
    const over = turn.then(
      () => {},
      () => {},
    );
    this.#turns.set(workerId, over);
    try {
      return await turn;
    } finally {
      if (this.#turns.get(workerId) === over) this.#turns.delete(workerId);
    }
  }

  /**
   * A worker is one process. While its link is open and answers, whoever else has its token stays outside: it is closed
   * without a word, for the worker itself, back before its broken link was noticed, tries again.
   */
  async #isPlaceFree(workerId: string, connection: Connection): Promise<boolean> {
    const earlier = this.#deps.sessions.find(workerId)?.connection;
    if (earlier?.isOpen && (await answers(earlier))) connection.destroy();
    return connection.isOpen;
  }

  /** The worker's session: the one it had before a break, or a new one holding what it says it still has. */
  async #letIn(
    connection: Connection,
    worker: Worker,
    endpoint: Endpoint,
    { unacknowledged = [], pulls }: HelloHead,
    platformUrl: string | undefined,
  ): Promise<WorkerSession> {
    const { sessions, queue } = this.#deps;
    const known = sessions.find(worker.id);
    const session = known ?? this.#open(connection, worker, endpoint);
    session.pulls = pulls === true;
    if (known !== undefined) {
      sessions.cameBack(worker.id);
      const earlier = known.connection;
      known.connection = connection;
      earlier.destroy();
    }
    for (const { channel } of unacknowledged) session.keepChannelsUpTo(channel);
    const onClose = connection.onClose;
    connection.onClose = () => {
      onClose();
      sessions.broke(session, connection);
    };
    welcome(connection, platformUrl);
    session.isResuming = true;
    try {
      if (pulls) return session;
      if (known !== undefined) await goOn(session, queue, unacknowledged);
      else await adopt(session, queue, unacknowledged);
    } finally {
      session.isResuming = false;
    }
    // Its process has ended meanwhile.
    if (!sessions.has(session)) session.loseAll("its worker has ended");
    return session;
  }

  #open(connection: Connection, worker: Worker, endpoint: Endpoint): WorkerSession {
    const { sessions, hooks, endpoints } = this.#deps;
    const session = sessions.open(worker, endpoint, connection);
    session.current = () => endpoints.find(endpoint.id);
    session.traceOf = hooks.jobHandedOut;
    if (isLiveName(endpoint.name)) {
      const of = { workerId: worker.id, endpointId: endpoint.id };
      session.onProgress = (jobId, text) => session.prints(hooks.log({ ...of, jobId, stream: "progress", text }));
    }
    return session;
  }

  /** From now on its frames count. One that breaks the protocol ends it: what says such a thing is no worker of ours. */
  #listen(session: WorkerSession, connection: Connection, early: readonly Frame[]): void {
    const { hooks, sessions, onFrame } = this.#deps;
    const { id } = session.worker;
    connection.onFrame = (frame) => onFrame(session, frame);
    connection.onError = (error) => {
      const reason = `it broke the worker protocol: ${(error as Error).message}`;
      if (session.connection === connection) sessions.forget(session, reason);
      hooks.workerStuck(id, reason);
    };
    try {
      for (const frame of early) onFrame(session, frame);
    } catch (error) {
      connection.onError(error);
      connection.destroy();
    }
    connection.resume();
  }
}

function welcome(connection: Connection, platformUrl?: string): void {
  connection.trust();
  const head: WelcomeHead = { protocol: PROTOCOL_VERSION, platformUrl };
  connection.send(FRAME.WELCOME, 0, head);
}
