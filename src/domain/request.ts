/** A request to a load-balanced endpoint on its way from the gateway to a worker, and the answer on its way back. */

import type { Readable } from "node:stream";
import type { WorkerBoot } from "./worker.ts";

export type HeaderList = readonly (readonly [name: string, value: string])[];

export interface LoadBalancedRequest {
  readonly id: string;
  readonly endpointId: string;
  readonly method: string;
  /** Path below the endpoint's URL, as it was sent (still percent-encoded), starting with "/". */
  readonly path: string;
  /** Without "?"; "" when there is none. */
  readonly query: string;
  readonly headers: HeaderList;
  /** Whole when it was short, else streamed. */
  readonly body: Buffer | Readable;
  readonly timeoutMs: number;
  /** The caller has no key: the worker runs one of these routes, each a line `METHOD /path`, or refuses. */
  readonly publicRoutes?: string;
  /** When the caller has gone the function is cancelled. */
  readonly departure: Departure;
  /** Called each time that it goes to a worker, just before. */
  readonly handedOut?: () => void;
}

/** Whether the caller has gone. There is one for each request, so it has one listener where an AbortSignal has a list. */
export class Departure {
  hasGone = false;
  /** Whoever has the request in hand: it is called once, and not for what was before. */
  onGone = () => {};

  gone(): void {
    if (this.hasGone) return;
    this.hasGone = true;
    this.onGone();
  }
}

export interface LoadBalancedResponse {
  readonly status: number;
  readonly headers: HeaderList;
  /** Whole, or streamed as the function yields. */
  readonly body: Buffer | Readable;
  readonly workerId: string;
  readonly timing: RequestTiming;
}

/** Milliseconds; boot and import are 0 when a ready worker took the request. */
export interface RequestTiming {
  readonly queueMs: number;
  readonly bootMs: number;
  readonly importMs: number;
  readonly execMs: number;
}

/**
 * Hands a request to a worker, waiting for one when none is free.
 * Throws WORKER_WAIT_TIMEOUT (no worker in time; the message says why), REQUEST_TIMEOUT, WORKER_LOST, BOOT_FAILED,
 * SHUTTING_DOWN.
 */
export interface RequestForwarder {
  forward(request: LoadBalancedRequest): Promise<LoadBalancedResponse>;
  /** What bringing the worker up took; undefined once it is gone. */
  bootOf?(workerId: string): WorkerBoot | undefined;
}

/** A load-balanced request that is over, one way or another, after its caller was let in. */
export interface EndedRequest {
  readonly endpoint: { readonly id: string; readonly name: string; readonly buildId: string | null };
  readonly method: string;
  /** Below the endpoint's URL, as it was sent. */
  readonly path: string;
  /** Of the answer; 499 when the caller had gone before there was one. */
  readonly status: number;
  /** Milliseconds from its head's arrival to its end. */
  readonly totalMs: number;
  /** Undefined when no worker answered. */
  readonly served: ServedRequest | undefined;
}

export interface ServedRequest {
  /** As the function sees it. */
  readonly id: string;
  readonly workerId: string;
  readonly timing: RequestTiming;
}
