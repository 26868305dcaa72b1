/** Frame types of the worker protocol, version 1. The meaning of each stands in docs/reference/protocol.md; those of hosts are in host-protocol.ts. */
import type { HostHello, HostWelcome } from "./host-protocol.ts";
import { VERSION } from "./version.ts";

export const PROTOCOL_VERSION = 1;
/**
 * The oldest that a platform still speaks with launchers, workers and agents: that of one version before, so that what runs goes on over
 * its upgrade. They themselves speak one version, never a newer one than their platform.
 */
export const PROTOCOL_OLDEST = 1;

/** Why a version of the protocol is not spoken by this platform, as whoever dials it is told; undefined when it is. */
export function unspoken(protocol: number): string | undefined {
  if (protocol > PROTOCOL_VERSION) {
    return `it speaks protocol ${protocol}, and this platform, svc ${VERSION}, up to ${PROTOCOL_VERSION}: upgrade the platform first, or install svc ${VERSION} there`;
  }
  if (protocol >= PROTOCOL_OLDEST) return undefined;
  return `it speaks protocol ${protocol}, and this platform, svc ${VERSION}, from ${PROTOCOL_OLDEST} on: install svc ${VERSION} there`;
}

/** Flag: further BODY frames belong to this message. */
export const MORE = 1;

export const FRAME = {
  HELLO: 1,
  WELCOME: 2,
  REFUSED: 3,
  CREDIT: 4,
  BOOT_FAILED: 5,
  JOB: 6,
  REQUEST: 7,
  BODY: 8,
  CANCEL: 9,
  PROGRESS: 10,
  CHUNK: 11,
  RESULT: 12,
  ACK: 13,
  LOG: 14,
  PING: 15,
  PONG: 16,
  DRAIN: 17,
  GOODBYE: 18,
  WINDOW: 19,
  START: 32,
  STOP: 33,
  STARTED: 34,
  EXITED: 35,
  RETIRE: 36,
  SHUTDOWN: 37,
  WORKERS: 38,
  HOLD: 39,
} as const;

/** An address of this machine, at which nobody else may listen while its platform is away. */
export type HeldAddress = readonly [ip: string, port: number];

export interface HelloHead {
  readonly protocol: number;
  /** "ahead": a link that waits to be a worker's; `token` is its host's ticket for such. */
  readonly role: "worker" | "launcher" | "host" | "ahead";
  readonly token: string;
  readonly worker?: string;
  readonly pid?: number;
  readonly unacknowledged?: readonly HeldJob[];
  /** Its program pulls its jobs over HTTP: it gets none on this link. */
  readonly pulls?: true;
  /** Of an agent. */
  readonly host?: HostHello | undefined;
}

/** A job that a worker runs, or whose result waits for its ACK. */
export interface HeldJob {
  readonly channel: number;
  readonly job: string;
  readonly fence: number;
  /** Milliseconds since the worker got it. */
  readonly heldMs?: number;
}

export interface WelcomeHead {
  readonly protocol: number;
  /** As in START, where it is now: to workers that came by the private socket. */
  readonly platformUrl?: string;
  /** To an agent. */
  readonly host?: HostWelcome | undefined;
}

export interface CreditHead {
  readonly slots: number;
  /** Of a request's streamed body: what the worker lets be on its way. Absent in workers that set no bound. */
  readonly window?: number;
  readonly bootMs?: number;
  readonly importMs?: number;
}

export interface BootFailure {
  readonly worker?: string;
  readonly error_type: string;
  readonly error_message: string;
  readonly error_traceback: string;
}

export interface LogHead {
  readonly stream?: "stdout" | "stderr";
  readonly worker?: string;
  readonly job?: string;
}

export interface JobResultHead {
  readonly ok: boolean;
  readonly execMs?: number;
  /** It was cancelled or recalled before it began. */
  readonly begun?: false;
  /** The function raised what the endpoint's retries are for. */
  readonly raised?: true;
}

export interface RequestResultHead {
  readonly status: number;
  readonly headers: [string, string][];
  readonly execMs?: number;
}

/** Head of START: everything the launcher needs to bring one worker up. */
export interface StartHead {
  readonly worker: string;
  readonly token: string;
  /** Key of the zygote that may serve it. */
  readonly zygote: string;
  readonly python: string;
  readonly boot: "SVCBOOT" | "OFF";
  readonly handler: string;
  /** In front of sys.path: source, dependencies, base layers. */
  readonly paths: readonly string[];
  readonly endpoint: {
    readonly id: string;
    readonly name: string;
    readonly app: string;
    readonly environment: string;
    readonly kind: string;
  };
  readonly env: Readonly<Record<string, string>>;
  readonly concurrency: number;
  readonly socket: string;
  /** Base URL of the platform's HTTP side as the worker reaches it, without a slash at its end. */
  readonly platformUrl: string;
  /** Machine type, for messages. */
  readonly machine: string;
  readonly memoryBytes: number;
  readonly vcpus: number;
  /** It has a real GPU: no rlimit stands in for a memory group, because CUDA reserves more than it uses. */
  readonly gpu: boolean;
  readonly tempDir: string;
  readonly reconnectMs: number;
  /** With it a spare may dial before it is a worker; on hosts. */
  readonly ahead?: string | undefined;
  /** How far it is kept from the machine: python/src/svc/_runtime/confine/isolation.py. */
  readonly isolation: "none" | "standard" | "strict";
  /** Folders in which it sees only what is its own. */
  readonly hidden: readonly string[];
  /** Folders in which it may write besides its own; "/" is everywhere: a container is its own. */
  readonly writable: readonly string[];
  /** Who the endpoint's processes run as where the launcher is root, and the group that may use the socket. */
  readonly uid?: number;
  readonly gid?: number;
  /** Folders of the machine, and where it has them. */
  readonly volumes?: readonly { readonly from: string; readonly to: string; readonly readOnly?: boolean }[];
  /** Groups that its volumes belong to. */
  readonly groups?: readonly number[];
  /** Kept by the launcher and sent back in WORKERS: what the platform wants to know again after a crash. */
  readonly share: unknown;
}

export interface WorkersHead {
  readonly workers: readonly { readonly worker: string; readonly pid: number; readonly share?: unknown }[];
  /** What the machine lacks of what keeps workers apart, in words. */
  readonly missing?: readonly string[];
  /** It has all that the tier `strict` promises. */
  readonly strict?: boolean;
}

export interface StartedHead {
  readonly worker: string;
  readonly pid: number;
  readonly how: "fork" | "spawn";
  /** Why no zygote was used. */
  readonly reason?: string;
  /** The limits in force: cgroup2, cgroup1, rlimit or none. */
  readonly limits?: string;
  /** What confines it, e.g. "landlock"; "" when nothing does. */
  readonly isolation?: string;
}

export interface ExitedHead {
  readonly worker: string;
  readonly code: number | null;
  readonly signal: string | null;
  readonly reason?: string;
  /** Through no fault of the worker: no process could be made for it, or its launcher ended. */
  readonly cause?: "machine";
}
