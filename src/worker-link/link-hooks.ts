/** What the rest of the platform is told by the worker link; wired in compose.ts. */
import type { Socket } from "node:net";
import type { EndpointHealth } from "../domain/worker.ts";
import type { BootFailure } from "../domain/worker-protocol.ts";
import type { LoggedLine } from "../logs/log-store.ts";
import type { Worker } from "../store/store.ts";
import type { Connection } from "./connection.ts";
import type { HostDoor } from "./host-greeting.ts";

export interface WorkersOfComing {
  ofToken(tokenHash: string): Worker | undefined;
  has(workerId: string): boolean;
  /** It could get work. False: it is none of them, or no more. */
  ready(workerId: string): boolean;
  exited(workerId: string): void;
}

export interface LinkHooks {
  workerReady(worker: Worker): void;
  workerGone(workerId: string, endpointId: string): void;
  /** A worker has finished all it had. */
  workerIdle(): void;
  bootFailed(workerId: string, failure: BootFailure): void;
  /** It ignored a cancel or was not ready in time: it must be killed. */
  workerStuck(workerId: string, reason: string): void;
  /** One that pulls its jobs asked for its end, once it has finished what it has. */
  workerLeaves(workerId: string, reason: string): void;
  /** Its program is to be told to end, and may go on for `graceMs` with what it has begun. */
  workerEnds(workerId: string, graceMs: number): void;
  /** It starts on code that has been replaced since, and will be refused: its exit is no failure. */
  workerReplaced(workerId: string): Promise<unknown>;
  /** A request waits and no worker is free. */
  requestWaiting(endpointId: string): void;
  /** A job goes to a worker. Returns the traceparent for its function, when it is traced. */
  jobHandedOut?(jobId: string): string | undefined;
  /** Where it may go on when there is no room for it at the moment. */
  log(line: LoggedLine): Promise<unknown> | undefined;
  health(endpointId: string): EndpointHealth | Promise<EndpointHealth>;
  /** Base URL of the platform's HTTP side as workers of this machine reach it. */
  platformUrl(): Promise<string>;
  /** Workers whose launcher answers now and says that their processes live. */
  aliveWorkers(): Promise<readonly string[]>;
  /** Something of ours went wrong that nobody waits for. */
  failed(what: string, error: unknown): void;
  /** The launcher dialled in; `secret` is what it proves itself with. Returns false to refuse it. */
  launcherConnected(secret: string, connection: Connection): boolean | Promise<boolean>;
  /**
   * A way to the platform that has this endpoint; undefined asks for the one that has the hosts. Undefined: it is this one. Rejects when
   * nobody is known to have it. Absent: there is no other.
   */
  readonly elsewhere?: ((endpointId: string | undefined) => Promise<Socket> | undefined) | undefined;
  /** Workers whose endpoints are not this platform's yet. Absent: there are none. */
  readonly ahead?: WorkersOfComing | undefined;
  /** Absent: no machine can join. */
  readonly hosts?: HostDoor | undefined;
}
