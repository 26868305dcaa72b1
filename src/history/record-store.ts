/** Where records of what happened are kept: requests, errors by their kind, decisions. docs/reference/history.md says how long. */
import type { ErrorKind } from "../domain/error-kind.ts";
import type { ScalingDecision } from "../domain/worker.ts";

/** A load-balanced request that is over. */
export interface RecordedRequest {
  readonly endpointId: string;
  /** As the function sees it; "" when no worker answered. */
  readonly id: string;
  readonly method: string;
  /** As the code has it. */
  readonly route: string;
  /** Without a query. */
  readonly path: string;
  readonly status: number;
  /** When it was over, milliseconds since the epoch. */
  readonly at: number;
  readonly waitMs: number | null;
  readonly runMs: number | null;
  readonly totalMs: number;
  readonly workerId: string | null;
  readonly coldStart: boolean | null;
}

export interface RecordedDecision extends ScalingDecision {
  readonly endpointId: string;
}

export interface ErrorGroup extends ErrorKind {
  readonly endpointId: string;
  readonly count: number;
  readonly firstAt: number;
  readonly lastAt: number;
  /** Null for errors of requests. */
  readonly lastJobId: string | null;
}

/** Rows are numbered as they come: a page names the number it ends before, or `page` where rows are of several platforms. */
export type Numbered<R> = R & { readonly n: number; readonly page?: string };

export interface RecordFilter {
  readonly endpointIds: readonly string[];
  /** Milliseconds since the epoch, both ends included. */
  readonly from?: number;
  readonly to?: number;
}

export interface RequestFilter extends RecordFilter {
  readonly route?: string;
  /** 2xx, or a status. */
  readonly status?: string;
  readonly idStart?: string;
}

/** What is handed in is written soon, or left out when the disk does not take it. */
export interface RecordStore {
  /** False: so many of this second wait that another of this status is left out. */
  takesRequest(status: number): boolean;
  requestEnded(request: RecordedRequest): void;
  /** `kind` is asked for when it is written; undefined: it is not known any more. */
  failed(failure: Failure): void;
  /** `times` above 1: the one before, once more. */
  decided(endpointId: string, decision: ScalingDecision): void;
  /** The newest of an endpoint, oldest first. */
  recentDecisions(endpointId: string, count: number): ScalingDecision[];
  /** Newest first; those before number `before`. */
  requests(filter: RequestFilter, first: number, before?: number): Promise<Numbered<RecordedRequest>[]>;
  decisions(filter: RecordFilter, first: number, before?: number): Promise<Numbered<RecordedDecision>[]>;
  /** Those that came last first. Counted by the hour: an hour that the time touches counts whole. */
  errorGroups(filter: RecordFilter, first: number): Promise<ErrorGroup[]>;
  endpointIds(): Promise<string[]>;
  forget(endpointId: string): Promise<void>;
}

export interface Failure {
  readonly endpointId: string;
  readonly at: number;
  readonly jobId: string | null;
  readonly kind: () => ErrorKind | undefined | Promise<ErrorKind | undefined>;
}
