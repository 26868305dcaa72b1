/** Workers that pull their jobs over HTTP (docs/reference/pull-workers.md): what the gateway hands to the worker link. */

/** One request of such a worker, which has proved who it is. */
export interface PullCaller {
  readonly workerId: string;
  readonly endpointId: string;
  /** The connection: who sends a further request on it has read the answers before, unless it broke. */
  readonly via: { readonly errored: Error | null };
  /** Aborts when the worker has gone, or when all waiting is to end. */
  readonly signal: AbortSignal;
  /** Whether the whole answer was taken. */
  readonly answered: Promise<boolean>;
}

export interface PulledInput {
  readonly id: string;
  /** JSON text. */
  readonly input: Uint8Array;
}

export interface PullCalls {
  /**
   * Up to `count` jobs, as soon as there is one; none when the time for that is over or the worker is to leave. `holdsNone`: it
   * says that it has no job at the moment.
   */
  take(caller: PullCaller, count: number, holdsNone: boolean): Promise<readonly PulledInput[]>;
  /** Ids of jobs that it is to stop, as soon as there is one. */
  stops(caller: PullCaller): Promise<readonly string[]>;
  /** It lives, and has these jobs. */
  ping(caller: PullCaller, jobIds: readonly string[]): Promise<void>;
  /** It cannot work. */
  unhealthy(caller: PullCaller, check: string, reason: string): Promise<void>;
  /** A chunk: JSON `{"output": …}`. Throws BAD_INPUT. */
  stream(caller: PullCaller, jobId: string, body: Buffer): Promise<void>;
  /** The result or a progress update, as docs/reference/pull-workers.md has it. Resolves once it is stored. Throws BAD_INPUT. */
  done(caller: PullCaller, jobId: string, body: Buffer): Promise<void>;
  /** Its result is too large to be read. */
  tooLarge(caller: PullCaller, jobId: string, maxBytes: number): Promise<void>;
}
