/** Calls of an agent that wait for their answers: by id, bounded in number, each with a time limit. */
import { ERROR_CATALOGUE, type ErrorCode, SvcError } from "../../domain/errors.ts";
import {
  type AnswerHead,
  HOST_FRAME,
  type HostCall,
  type LendCall,
  type ReportHead,
} from "../../domain/host-protocol.ts";
import {
  HOST_ANSWER_MAX_BYTES,
  HOST_CALL_MAX_MS,
  HOST_CALLS_MAX,
  HOST_PREPARE_SILENCE_MAX_MS,
  HOST_START_MAX_MS,
} from "../../domain/limits.ts";

interface Asked {
  readonly call: HostCall | LendCall;
  readonly resolve: (body: unknown) => void;
  readonly reject: (error: SvcError) => void;
  readonly report: ((line: string) => void) | undefined;
  readonly late: NodeJS.Timeout;
}

interface Way {
  send(type: number, channel: number, head?: object, body?: Uint8Array): void;
}

const LIMITS: Partial<Record<HostCall | LendCall, number>> = {
  prepare: HOST_PREPARE_SILENCE_MAX_MS,
  start: HOST_START_MAX_MS,
};
export class HostCalls {
  readonly #who: () => string;
  readonly #answerMaxBytes: number;
  readonly #asked = new Map<number, Asked>();
  #last = 0;

  /** Who is asked, for messages: "The machine one". */
  constructor(who: () => string, answerMaxBytes = HOST_ANSWER_MAX_BYTES) {
    this.#who = who;
    this.#answerMaxBytes = answerMaxBytes;
  }

  /** Throws STARTS_PAUSED when no answer comes, and what the agent answers. The question leaves in this turn. */
  ask(way: Way, call: HostCall | LendCall, body?: object, report?: (line: string) => void): Promise<unknown> {
    if (this.#asked.size >= HOST_CALLS_MAX) return Promise.reject(this.#paused("has too many calls under way"));
    const id = ++this.#last;
    const { promise, resolve, reject } = Promise.withResolvers<unknown>();
    const late = setTimeout(() => {
      this.#asked.delete(id);
      reject(this.#paused("did not answer in time"));
    }, LIMITS[call] ?? HOST_CALL_MAX_MS).unref();
    this.#asked.set(id, { call, resolve, reject, report, late });
    way.send(HOST_FRAME.ASK, 0, { id, call }, body && Buffer.from(JSON.stringify(body)));
    return promise;
  }

  /** What was not asked, or is answered too late, is of no interest. */
  answered({ id, error }: AnswerHead, body: Buffer): void {
    const asked = this.#asked.get(id);
    if (asked === undefined) return;
    this.#asked.delete(id);
    clearTimeout(asked.late);
    if (error !== undefined) {
      const { message, help } = error;
      const code = Object.hasOwn(ERROR_CATALOGUE, error.code) ? (error.code as ErrorCode) : "STARTS_PAUSED";
      asked.reject(new SvcError(code, message, { help }));
      return;
    }
    try {
      if (body.length > this.#answerMaxBytes) throw new Error("its answer is too large");
      asked.resolve(body.length === 0 ? {} : JSON.parse(body.toString("utf8")));
    } catch {
      asked.reject(this.#paused("gave an answer that cannot be read"));
    }
  }

  reported({ id, line }: ReportHead): void {
    const asked = this.#asked.get(id);
    asked?.late.refresh();
    asked?.report?.(line);
  }

  /** The link is gone: nobody will answer. */
  broke(): void {
    const all = [...this.#asked.values()];
    this.#asked.clear();
    for (const { reject, late } of all) {
      clearTimeout(late);
      reject(this.away());
    }
  }

  away(): SvcError {
    return this.#paused("is away");
  }

  #paused(why: string): SvcError {
    return new SvcError("STARTS_PAUSED", `${this.#who()} ${why}.`);
  }
}
