/**
 * Who a connection says it is, and whether it may come in.
 *
 *   HELLO ──▶ known token? ──▶ what it still holds (resume.ts) ──▶ WELCOME ──▶ its frames (session-frames.ts)
 *                └──▶ REFUSED
 */
import { hashSecret } from "../domain/api-key.ts";
import { WORKER_DRAIN_GRACE_MS } from "../domain/limits.ts";
import { isLiveName } from "../domain/names.ts";
import { FRAME, type HelloHead, PROTOCOL_VERSION, type WelcomeHead } from "../domain/worker-protocol.ts";
import type { Frame } from "../lib/frames.ts";
import type { JobProgress, JobReader, Queue } from "../queue/queue.ts";
import type { Endpoint, Store, Worker } from "../store/store.ts";
import type { Connection } from "./connection.ts";
import type { LinkHooks } from "./link-hooks.ts";
import { refuse } from "./reception.ts";
import { resume } from "./resume.ts";
import type { WorkerSession } from "./session.ts";
import type { Sessions } from "./sessions.ts";

interface GreetingDeps {
  readonly store: Store;
  readonly endpoints: { find(id: string): Endpoint | undefined | Promise<Endpoint | undefined> };
  readonly queue: Queue & JobProgress & JobReader;
  readonly hooks: LinkHooks;
  readonly sessions: Sessions;
  readonly onFrame: (session: WorkerSession, frame: Frame) => void;
}

export class Greeting {
  readonly #deps: GreetingDeps;

  constructor(deps: GreetingDeps) {
    this.#deps = deps;
  }

  hello(connection: Connection, hello: HelloHead): void {
    if (hello.role === "launcher") void this.#launcher(connection, hello);
    else void this.#worker(connection, hello);
  }

  async #launcher(connection: Connection, hello: HelloHead): Promise<void> {
    connection.onFrame = () => {};
    if (await this.#deps.hooks.launcherConnected(hello.token, connection)) welcome(connection);
    else refuse(connection, "unknown launcher");
  }

  async #worker(connection: Connection, hello: HelloHead): Promise<void> {
    const { store, endpoints, hooks, sessions, onFrame } = this.#deps;
    // Frames that come while the token is looked up wait for their turn.
    const early: Frame[] = [];
    connection.onFrame = (frame) => early.push(frame);
    const worker = await store.workers.findByToken(hashSecret(hello.token));
    const endpoint = worker && (await endpoints.find(worker.endpointId));
    if (worker === undefined || endpoint === undefined) return refuse(connection, "unknown worker");
    const replaced = isLiveName(endpoint.name) && worker.revision !== endpoint.revision;
    if (replaced && !hello.unacknowledged?.length) return refuse(connection, "replaced by a new revision");
    const platformUrl = connection.isLocal ? await hooks.platformUrl() : undefined;
    const session = await this.#session(connection, worker, endpoint, hello);
    connection.onFrame = (frame) => onFrame(session, frame);
    const onClose = connection.onClose;
    connection.onClose = () => {
      onClose();
      sessions.broke(session, connection);
    };
    welcome(connection, platformUrl);
    if (replaced) session.drain(WORKER_DRAIN_GRACE_MS);
    for (const frame of early) onFrame(session, frame);
  }

  /** The worker's session: the one it had before a break, or a new one holding what it says it still has. */
  async #session(
    connection: Connection,
    worker: Worker,
    endpoint: Endpoint,
    { unacknowledged = [] }: HelloHead,
  ): Promise<WorkerSession> {
    const { sessions, hooks, queue } = this.#deps;
    let session = sessions.find(worker.id);
    sessions.cameBack(worker.id);
    if (session === undefined) {
      session = sessions.open(worker, endpoint, connection);
      if (isLiveName(endpoint.name)) {
        const of = { workerId: worker.id, endpointId: endpoint.id };
        session.onProgress = (jobId, text) => hooks.log({ ...of, jobId, stream: "progress", text });
      }
      if (unacknowledged.length === 0 && worker.state === "STARTING") return session;
    } else session.connection = connection;
    await resume(session, queue, unacknowledged);
    return session;
  }
}

function welcome(connection: Connection, platformUrl?: string): void {
  connection.trust();
  const head: WelcomeHead = { protocol: PROTOCOL_VERSION, platformUrl };
  connection.send(FRAME.WELCOME, 0, head);
}
