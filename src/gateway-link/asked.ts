/** What gateways ask of the owner, and what they tell it. */
import { z } from "zod";
import type { Principal } from "../domain/api-key.ts";
import { SvcError } from "../domain/errors.ts";
import { AHEAD_ENDPOINTS_MAX, AHEAD_ID_MAX_CHARS, INLINE_BODY_MAX_BYTES } from "../domain/limits.ts";
import type { EndedRequest, RequestForwarder } from "../domain/request.ts";
import type { TracedEndpoint, Traces } from "../domain/traces.ts";
import type { AheadWish, WorkerView } from "../domain/worker.ts";
import type { EndpointFinder } from "../gateway/context.ts";
import type { EndpointName } from "../gateway/named-endpoint.ts";
import type { OpenPeerCalls } from "../gateway/peer-calls.ts";
import type { PublicRateTaker } from "../gateway/public-rate.ts";
import type { RateClass, RateTaker } from "../gateway/rate-limits.ts";
import { FrameError } from "../lib/frames.ts";
import type { Own } from "../lib/own.ts";
import type { CallerJobs, Job } from "../queue/queue.ts";
import { CALLED_FIELDS, type CalledEndpoint } from "../store/store.ts";
import { jobValue, type NewJobValue } from "./job-values.ts";
import { type FollowWish, isManagedQuestion, type Managed } from "./managed.ts";

/** A key or a token, as far as a gateway checks it. */
export interface KnownSecret {
  readonly principal: Principal;
  readonly expiresAt: number | null;
  readonly usedAt: number | null;
}

export interface AskedOf {
  /** Undefined: this platform has all endpoints, and nobody asks. */
  readonly managed?: Managed | undefined;
  /** A shard may be this platform's to take. */
  readonly looks?: () => void;
  /** Shards with these endpoints come here soon. Resolves how many of the workers are ready, when no more can be. */
  readonly makeReady?: (wishes: readonly AheadWish[]) => Promise<number>;
  readonly jobs: CallerJobs;
  readonly endpoints: EndpointFinder;
  readonly endpointNamed: (name: EndpointName) => Promise<CalledEndpoint | undefined>;
  readonly keys: {
    find(hash: string): Promise<KnownSecret | undefined>;
    findSigner(signer: string): Promise<KnownSecret | undefined>;
    touch(keyId: string, usedAt: number): Promise<void>;
  };
  readonly forwarder: RequestForwarder;
  readonly workers: Pick<WorkerView, "counts">;
  readonly sourceOf: (buildId: string) => string | undefined | Promise<string | undefined>;
  readonly rates: RateTaker | undefined;
  readonly publicRate: PublicRateTaker;
  readonly peers: OpenPeerCalls;
  readonly traces: Pick<Traces, "jobSubmitted" | "jobDropped"> | undefined;
  readonly requestEnded: ((request: EndedRequest) => void) | undefined;
  readonly own: Own;
  /** Undefined: what is known here of keys is what is stored. */
  readonly isSure?: (() => boolean) | undefined;
}

export interface Answer {
  readonly value: object;
  readonly parts?: readonly Uint8Array[];
}

/** Whoever waits for an answer. Most get it before there is anything to wait for: then there is no signal either, which costs as much as a short question. */
export class Asker {
  #hasGone = false;
  #controller: AbortController | undefined;

  /** Aborted when nobody waits any more. */
  get signal(): AbortSignal {
    this.#controller ??= new AbortController();
    if (this.#hasGone) this.#controller.abort();
    return this.#controller.signal;
  }

  gone(): void {
    this.#hasGone = true;
    this.#controller?.abort();
  }
}

interface Asked {
  /** Its asker may go. */
  readonly waits?: true;
  answer(given: never, body: Buffer, deps: AskedOf, asker: Asker): Promise<Answer>;
}

interface Id {
  readonly id: string;
}

interface Wait {
  readonly timeoutMs: number;
  /** A larger output is left out: whoever waits asks for it when there is room. Gateways of the release before take any. */
  readonly outputMaxBytes?: number;
}

interface Hold {
  readonly holdMs: number;
  /** As outputMaxBytes, of one chunk. */
  readonly chunkMaxBytes?: number;
}

const DONE: Answer = { value: {} };

export const ASKED: Readonly<Record<string, Asked>> = {
  enqueue: {
    async answer({ job: { isAwaited, ...job } }: { job: NewJobValue }, input, { jobs }) {
      // Whoever waits asks again.
      const { id, created } = await jobs.enqueue({ ...job, input });
      return { value: { id, created } };
    },
  },
  call: {
    waits: true,
    async answer({ job, timeoutMs, outputMaxBytes }: { job: NewJobValue } & Wait, input, deps, asker) {
      const { id, created, job: ended } = await deps.jobs.enqueue({ ...job, input });
      const found = ended ?? (await deps.jobs.wait(id, timeoutMs, asker.signal));
      const { value, parts } = answerOf(found, deps, outputMaxBytes);
      return { value: { ...value, created }, parts };
    },
  },
  wait: {
    waits: true,
    answer: async ({ id, timeoutMs, outputMaxBytes }: Id & Wait, _body, deps, { signal }) =>
      answerOf(await deps.jobs.wait(id, timeoutMs, signal), deps, outputMaxBytes),
  },
  find: {
    answer: async ({ id, outputMaxBytes }: Id & { outputMaxBytes?: number }, _body, deps) =>
      answerOf(await deps.jobs.find(id, outputMaxBytes), deps),
  },
  findExpired: { answer: async ({ id }: Id, _body, deps) => answerOf(await deps.jobs.findExpired(id), deps) },
  cancel: { answer: async ({ id }: Id, _body, deps) => answerOf(await deps.jobs.cancel(id), deps) },
  retry: { answer: async ({ id }: Id, _body, { jobs }) => ({ value: { retried: await jobs.retry(id) } }) },
  purge: {
    answer: async ({ endpointId }: { endpointId: string }, _body, { jobs }) => ({
      value: { removed: await jobs.purge(endpointId) },
    }),
  },
  input: {
    async answer({ id, maxBytes }: Id & { maxBytes?: number }, _body, { jobs }) {
      const input = await jobs.input(id, maxBytes);
      return { value: { found: input !== undefined }, parts: input === undefined ? [] : [input] };
    },
  },
  counts: {
    answer: async ({ endpointId }: { endpointId: string }, _body, { jobs }) => ({
      value: await jobs.counts(endpointId),
    }),
  },
  list: {
    async answer(
      { endpointId, options }: { endpointId: string; options: Parameters<CallerJobs["list"]>[1] },
      _body,
      { jobs },
    ) {
      const found = await jobs.list(endpointId, options);
      const each = found.map((job) => jobValue(job, undefined, (job.output?.length ?? 0) <= INLINE_BODY_MAX_BYTES));
      return { value: { jobs: each.map(({ value }) => value) }, parts: each.flatMap(({ parts }) => parts) };
    },
  },
  takeChunks: {
    waits: true,
    answer: async ({ id, holdMs, chunkMaxBytes }: Id & Hold, _body, { jobs }, { signal }) =>
      chunksOf(await jobs.takeChunks(id, holdMs, signal, chunkMaxBytes)),
  },
  readChunks: {
    waits: true,
    answer: async ({ id, after, holdMs, chunkMaxBytes }: Id & Hold & { after: number }, _body, { jobs }, { signal }) =>
      chunksOf(await jobs.readChunks(id, after, holdMs, signal, chunkMaxBytes)),
  },
  endpoint: { answer: async ({ id }: Id, _body, { endpoints }) => endpointValue(await endpoints.find(id)) },
  endpointNamed: {
    answer: async ({ name }: { name: EndpointName }, _body, deps) => endpointValue(await deps.endpointNamed(name)),
  },
  key: {
    answer: async ({ hash }: { hash: string }, _body, { keys }) => ({ value: { known: await keys.find(hash) } }),
  },
  signer: {
    answer: async ({ signer }: { signer: string }, _body, { keys }) => ({
      value: { known: await keys.findSigner(signer) },
    }),
  },
  source: {
    answer: async ({ buildId }: { buildId: string }, _body, deps) => ({
      value: { layer: await deps.sourceOf(buildId) },
    }),
  },
  workers: {
    answer: async ({ endpointId }: { endpointId: string }, _body, { workers }) => ({
      value: await workers.counts(endpointId),
    }),
  },
  rate: {
    async answer({ endpointId, rate }: { endpointId: string; rate: RateClass }, _body, { rates }) {
      await rates?.take(endpointId, rate);
      return DONE;
    },
  },
  publicRate: {
    async answer({ endpointId, address }: { endpointId: string; address: string }, _body, { publicRate }) {
      await publicRate.take(endpointId, address);
      return DONE;
    },
  },
  makeReady: {
    async answer(given: object, _body, { makeReady }) {
      const { data } = aheadWishes.safeParse(given);
      if (data === undefined) throw new FrameError("a platform asked for workers in a way that is none");
      const { endpointIds, workers } = data;
      // One of the release before names endpoints alone: their code is made ready.
      const none = endpointIds.map((endpointId) => ({ endpointId, revision: "", workers: 0 }));
      return { value: { ready: (await makeReady?.(workers ?? none)) ?? 0 } };
    },
  },
  managed: {
    async answer({ what, given }: { what: string; given: readonly never[] }, _body, { managed }) {
      if (!isManagedQuestion(what)) throw new FrameError(`a platform asked for ${what}`);
      return { value: { answer: await (required(managed)[what] as Question)(...given) } };
    },
  },
  news: {
    waits: true,
    answer: async ({ follower, wish }: { follower: string; wish: FollowWish }, _body, { managed }, asker) => ({
      value: await required(managed).news(follower, wish, asker.signal),
    }),
  },
};

const id = z.string().max(AHEAD_ID_MAX_CHARS);
const aheadWishes = z.object({
  endpointIds: z.array(id).max(AHEAD_ENDPOINTS_MAX),
  workers: z
    .array(z.object({ endpointId: id, revision: id, workers: z.int().min(0) }))
    .max(AHEAD_ENDPOINTS_MAX)
    .optional(),
});

type Question = (...given: readonly never[]) => unknown;

function required(managed: Managed | undefined): Managed {
  if (managed === undefined) throw new SvcError("MOVED", "This platform shares no endpoints.");
  return managed;
}

type Told = (given: never, deps: AskedOf, peers: Map<number, () => void>) => void;

export const TOLD: Readonly<Record<string, Told>> = {
  requestEnded: ({ request }: { request: EndedRequest }, { requestEnded }) => requestEnded?.(request),
  // A lost note is no harm.
  keyUsed: ({ id, at }: Id & { at: number }, { keys, own }) => own("noting the use of a key", keys.touch(id, at)),
  peerEnters: ({ call, endpointId }: { call: number; endpointId: string }, deps, peers) => {
    peers.set(call, deps.peers.enter(endpointId));
  },
  peerLeaves: ({ call }: { call: number }, _deps, peers) => {
    peers.get(call)?.();
    peers.delete(call);
  },
  jobSubmitted: ({ id, endpoint, traceparent }: Id & { endpoint: TracedEndpoint; traceparent?: string }, { traces }) =>
    traces?.jobSubmitted(id, endpoint, traceparent),
  jobDropped: ({ id }: Id, { traces }) => traces?.jobDropped(id),
  look: (_given, { looks }) => looks?.(),
};

function answerOf(job: Job | undefined, { forwarder }: AskedOf, outputMaxBytes = Number.POSITIVE_INFINITY): Answer {
  if (job === undefined) return DONE;
  const boot = forwarder.bootOf?.(job.workerId);
  const outputBytes = job.output?.byteLength ?? 0;
  const isLeftOut = outputBytes > outputMaxBytes;
  const { value, parts } = jobValue(
    isLeftOut ? { ...job, leftOutBytes: outputBytes } : job,
    // Only that of a worker that was started for it is of use.
    boot !== undefined && boot.startedAt >= job.createdAt ? boot : undefined,
    !isLeftOut,
  );
  return { value: { job: value }, parts };
}

function chunksOf(found: Awaited<ReturnType<CallerJobs["takeChunks"] | CallerJobs["readChunks"]>>): Answer {
  if (found === undefined) return DONE;
  const { chunks, ...taken } = found;
  return { value: { taken, lengths: chunks.map(({ length }) => length) }, parts: chunks };
}

function endpointValue(endpoint: CalledEndpoint | undefined): Answer {
  return {
    value: { endpoint: endpoint && Object.fromEntries(CALLED_FIELDS.map((field) => [field, endpoint[field]])) },
  };
}
