/** Sends one request and reads the whole answer: by fetch, and again while the platform cannot be reached. */
import {
  CLIENT_ANSWER_MAX_MS,
  CLIENT_RETRY_PAUSE_MAX_MS,
  CLIENT_RETRY_PAUSE_MS,
  CLIENT_SLOWEST_CHARS_PER_MS,
} from "../domain/limits.ts";
import { type Platform, unreachable } from "./answer-error.ts";

interface SendInit {
  readonly method: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string;
  readonly signal?: AbortSignal;
  /** How long the platform itself may hold the answer. */
  readonly heldMs?: number;
}

interface Answer {
  readonly status: number;
  readonly text: string;
  /** Of the header Retry-After. */
  readonly retryAfterS?: number;
}

/** Rejects with PLATFORM_UNREACHABLE, or the signal's reason; any status is an answer. */
export type Send = (platform: Platform, url: string, init: SendInit) => Promise<Answer>;

export function sendByFetch(fetchFunction: typeof fetch): Send {
  return async (platform, url, { method, headers, body, signal }) => {
    try {
      const all = { ...headers, ...keyHeader(platform) };
      const response = await fetchFunction(url, { method, headers: all, body, signal });
      const retryAfterS = Number(response.headers.get("retry-after") ?? Number.NaN);
      return { status: response.status, text: await response.text(), retryAfterS };
    } catch (error) {
      if (signal?.aborted) throw signal.reason;
      throw unreachable(platform.url, error);
    }
  };
}

/** For requests that may be repeated. A platform that never answered (`reached`) is not waited for: its address may be wrong. */
export function patient(send: Send, patienceMs: number, reached = false): Send {
  return async (platform, url, init) => {
    let givesUpAt: number | undefined;
    for (let pauseMs = CLIENT_RETRY_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, CLIENT_RETRY_PAUSE_MAX_MS)) {
      let answer: Answer | undefined;
      let problem: unknown;
      try {
        answer = await once(send, platform, url, init);
        reached = true;
        if (!isPassing(answer.status)) return answer;
      } catch (error) {
        if (init.signal?.aborted || !reached) throw error;
        problem = error;
      }
      givesUpAt ??= performance.now() + patienceMs;
      const waitMs = answer?.retryAfterS ? answer.retryAfterS * 1000 : pauseMs;
      if (performance.now() + waitMs <= givesUpAt) await pause(waitMs, init.signal);
      else if (answer !== undefined) return answer;
      else throw problem;
    }
  };
}

/** A connection that died without a word is given up some time after its answer was due. */
function once(send: Send, platform: Platform, url: string, init: SendInit): Promise<Answer> {
  const uploadMs = (init.body?.length ?? 0) / CLIENT_SLOWEST_CHARS_PER_MS;
  const due = AbortSignal.timeout((init.heldMs ?? 0) + CLIENT_ANSWER_MAX_MS + Math.ceil(uploadMs));
  const signal = init.signal === undefined ? due : AbortSignal.any([init.signal, due]);
  return send(platform, url, { ...init, signal }).catch((error: unknown) => {
    throw due.aborted && !init.signal?.aborted ? unreachable(platform.url, new Error("no answer")) : error;
  });
}

/** Too many calls, or the platform (or a proxy before it) is away for a moment. */
function isPassing(status: number): boolean {
  return status === 429 || status === 502 || status === 503 || status === 504;
}

function pause(ms: number, signal: AbortSignal | undefined): Promise<void> {
  return new Promise((resolve, reject) => {
    signal?.throwIfAborted();
    const onAbort = () => {
      clearTimeout(timer);
      reject(signal!.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", onAbort);
      resolve();
    }, ms);
    signal?.addEventListener("abort", onAbort, { once: true });
  });
}

export function keyHeader({ apiKey }: Platform): Record<string, string> {
  return apiKey === undefined ? {} : { authorization: `Bearer ${apiKey}` };
}
