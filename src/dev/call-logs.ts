/**
 * What one call printed, for the page that made it. The page gives its call an id that nobody can guess and asks by it:
 *
 *   page ──call, X-Svc-Call: ID──▶ lines of its endpoint are kept ──answer──▶ page ──GET /docs/calls/ID──▶ lines
 *
 * Lines of a job name it; those of a request are told apart by worker and time alone.
 */
import type { IncomingHttpHeaders } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import type { LogLine } from "../client/logs.ts";
import {
  CALL_LOGS_MAX_MS,
  CALL_LOGS_QUIET_MS,
  EXPLORER_CALL_LINES_KEPT,
  EXPLORER_CALL_TEXT_KEPT_CHARS,
  EXPLORER_CALLS_KEPT,
} from "../domain/limits.ts";

export const CALL_HEADER = "x-svc-call";

/** Oldest first. */
export interface CallLines {
  readonly lines: readonly { readonly stream: LogLine["stream"]; readonly text: string }[];
  /** Earlier ones are not kept. */
  readonly cut: boolean;
}

/** Of an answer: undefined where it names none. */
interface Printer {
  readonly job?: string | undefined;
  readonly worker?: string | undefined;
}

interface Kept {
  readonly endpoint: string;
  printer: Printer;
  lines: LogLine[];
  chars: number;
  cut: boolean;
  latest: number;
}

export class CallLogs {
  readonly #calls = new Map<string, Kept>();

  /** The call is about to be made. Calls that no page made are not kept. */
  begin(headers: IncomingHttpHeaders, endpoint: string): void {
    const id = idIn(headers);
    if (id === undefined) return;
    if (this.#calls.size >= EXPLORER_CALLS_KEPT) this.#calls.delete(this.#calls.keys().next().value!);
    this.#calls.set(id, { endpoint, printer: {}, lines: [], chars: 0, cut: false, latest: 0 });
  }

  /** From now on it is known who prints for the call. */
  answered(headers: IncomingHttpHeaders, printer: Printer): void {
    const kept = this.#calls.get(idIn(headers) ?? "");
    if (kept === undefined) return;
    kept.printer = printer;
    kept.lines = kept.lines.filter((line) => isOf(line, printer));
    kept.chars = kept.lines.reduce((sum, { text }) => sum + text.length, 0);
  }

  line(endpoint: string, line: LogLine): void {
    for (const kept of this.#calls.values()) {
      if (kept.endpoint !== endpoint || !isOf(line, kept.printer)) continue;
      kept.latest = performance.now();
      kept.lines.push(line);
      kept.chars += line.text.length;
      while (kept.lines.length > EXPLORER_CALL_LINES_KEPT || kept.chars > EXPLORER_CALL_TEXT_KEPT_CHARS) {
        kept.chars -= kept.lines.shift()!.text.length;
        kept.cut = true;
      }
    }
  }

  /** Resolves when no more lines come: what a function prints takes another way than its answer. None for an unknown call. */
  async read(id: string, signal?: AbortSignal): Promise<CallLines> {
    const kept = this.#calls.get(id);
    if (kept === undefined) return { lines: [], cut: false };
    const asked = performance.now();
    while (!signal?.aborted) {
      const now = performance.now();
      const left = Math.min(asked + CALL_LOGS_MAX_MS, Math.max(kept.latest, asked) + CALL_LOGS_QUIET_MS) - now;
      if (left <= 0) break;
      await delay(left);
    }
    return { lines: kept.lines.map(({ stream, text }) => ({ stream, text })), cut: kept.cut };
  }
}

function idIn(headers: IncomingHttpHeaders): string | undefined {
  const id = headers[CALL_HEADER];
  return typeof id === "string" && /^[0-9a-f]{32}$/.test(id) ? id : undefined;
}

function isOf({ job, worker, stream }: LogLine, printer: Printer): boolean {
  if (stream === "progress") return false;
  if (printer.job !== undefined) return job === printer.job;
  return printer.worker === undefined || worker === printer.worker;
}
