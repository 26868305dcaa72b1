/** What the gateway is given, and what its steps and routes share. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { KeyChecker, Principal } from "../domain/api-key.ts";
import {
  FAILED_RETENTION_MS,
  RUN_RETENTION_MS,
  RUNSYNC_RETENTION_MS,
  RUNSYNC_WAIT_RETENTION_MS,
} from "../domain/limits.ts";
import type { PullCalls } from "../domain/pull.ts";
import type { EndedRequest, RequestForwarder, ServedRequest } from "../domain/request.ts";
import type { RequestTrace, Traces } from "../domain/traces.ts";
import type { WorkerView } from "../domain/worker.ts";
import type { ClientAddress } from "../lib/client-address.ts";
import type { CallerJobs } from "../queue/queue.ts";
import type { CalledEndpoint } from "../store/store.ts";
import type { BodyBudget } from "./body.ts";
import type { CallerWatch } from "./caller.ts";
import type { JobOwners } from "./job-owner.ts";
import type { LargeAnswers } from "./large-answers.ts";
import type { EndpointName } from "./named-endpoint.ts";
import type { OpenCall, OpenCalls, Signing } from "./open-calls.ts";
import type { OpenPeerCalls } from "./peer-calls.ts";
import type { PublicRateTaker } from "./public-rate.ts";
import type { RateLimits, RateTaker } from "./rate-limits.ts";

export interface GatewayDeps {
  readonly queue: CallerJobs;
  readonly endpoints: EndpointFinder;
  readonly endpointNamed: (name: EndpointName) => Promise<CalledEndpoint | undefined>;
  readonly keys: KeyChecker;
  readonly forwarder: RequestForwarder;
  readonly workers: WorkerView;
  /** Who answers workers that pull their jobs; without it there are none, and `elsewhere` says that the fallback is for them. */
  readonly pull?: PullCalls | "elsewhere";
  /** The source layer a build was made of; undefined when there is no such build. */
  readonly sourceOf?: (buildId: string) => string | undefined | Promise<string | undefined>;
  /** A fresh UUID: jobs and requests are named after it. */
  readonly newId: () => string;
  /** Milliseconds since the epoch. */
  readonly now: () => number;
  /** Milliseconds of a clock that is never set: rate windows. `performance.now` when it is not given. */
  readonly monotonic?: () => number;
  readonly settings: GatewaySettings;
  /** Signed URLs: their key, and who a signer is; without it there are none. */
  readonly signing?: Signing;
  /** Random bytes that stay the same over restarts: which worker handed a job in is told by them. The newest first. Default: new ones. */
  readonly ownerKeys?: readonly Uint8Array[];
  /** Answers every request that is neither a job route nor a load-balanced one. */
  readonly fallback: (req: IncomingMessage, res: ServerResponse) => void;
  readonly log: GatewayLog;
  /** Undefined: no traces are collected. */
  readonly traces?: Traces;
  /** Told of every load-balanced request that is over. */
  readonly requestEnded?: (request: EndedRequest) => void;
  /** Who counts the calls of all gateways, and where workers' open calls are known. Default: what `settings` say, in this process. */
  readonly rates?: RateTaker | undefined;
  readonly publicRate?: PublicRateTaker;
  readonly peers?: OpenPeerCalls;
  /** A connection could not be accepted. */
  readonly acceptFailed?: (error: Error) => void;
}

/** Answers at once where it can: it is asked for every call. */
export interface EndpointFinder {
  find(id: string): CalledEndpoint | undefined | Promise<CalledEndpoint | undefined>;
}

export interface GatewayLog {
  error(message: string, fields?: Readonly<Record<string, unknown>>): void;
}

export interface GatewaySettings {
  /** Load-balanced endpoints also answer on <id>.<domain>; "" for none. */
  readonly domain: string;
  /** How long a load-balanced request may wait for a worker. */
  readonly requestTimeoutMs: number;
  /** Undefined: no rate limits. */
  readonly rateLimits?: RateLimits;
  /** Calls without a key of one address to one endpoint in a window; 0: any number, which is the default. */
  readonly publicCallsMax?: number;
  /** Whose X-Forwarded-For is believed: addresses and networks. */
  readonly trustedProxies?: readonly string[];
  readonly retention?: Retention;
  readonly arrival?: Arrival;
  /** Answers above 64 KiB that are on their way together; ANSWERS_HELD_MAX_BYTES by default. */
  readonly answersMaxBytes?: number;
  /** Further ones are closed at once, and those that nothing came on make room. Default: any number. */
  readonly connectionsMax?: number;
}

/** How long results are kept, in milliseconds. */
export interface Retention {
  readonly runMs: number;
  readonly runsyncMs: number;
  /** Of a /runsync with ?wait. */
  readonly runsyncWaitMs: number;
  /** Of failed and timed-out jobs, at least. */
  readonly failedMs: number;
}

/** How long a caller may take to send its headers and its whole request, and how often that is checked. Milliseconds. */
export interface Arrival {
  readonly headersMs: number;
  readonly requestMs: number;
  readonly checkMs: number;
}

export const RETENTION_DEFAULT: Retention = {
  runMs: RUN_RETENTION_MS,
  runsyncMs: RUNSYNC_RETENTION_MS,
  runsyncWaitMs: RUNSYNC_WAIT_RETENTION_MS,
  failedMs: FAILED_RETENTION_MS,
};

export interface GatewayContext extends GatewayDeps {
  readonly retention: Retention;
  readonly rates: RateTaker | undefined;
  readonly publicRate: PublicRateTaker;
  readonly open: OpenCalls;
  readonly addresses: ClientAddress;
  readonly bodies: BodyBudget;
  readonly answers: LargeAnswers;
  /** Callers that only look (long polls): answered as soon as the platform shuts down. */
  readonly lookers: CallerWatch;
  /** Callers whose work runs: answered when the grace is over at the latest. */
  readonly callers: CallerWatch;
  readonly peers: OpenPeerCalls;
  readonly owners: JobOwners;
  /** Connections by which gateways, and other platforms, pass on what is for this one. */
  readonly passedOn: WeakSet<Socket>;
  /** The platform shuts down. */
  closing: boolean;
}

/** One call that passed the steps before its handler. */
export interface Call {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
  readonly endpoint: CalledEndpoint;
  /** Without "?". */
  readonly query: string;
  /** "" on routes that name no job. */
  readonly jobId: string;
  /** Below the endpoint's URL; only for load-balanced calls. */
  readonly path: string;
  /** Asked for under a host of the endpoint's own. */
  readonly hosted: boolean;
  /** What the caller proved itself with; never passed on. */
  readonly secret: string;
  readonly principal: Principal;
  /** Of a caller without a key. */
  readonly open?: OpenCall;
  /** Of a load-balanced call, when traces are collected. */
  trace?: RequestTrace;
  /** Of a load-balanced call, once a worker has answered. */
  served?: ServedRequest;
}
