/** What a function prints while it is called, on stderr as it comes. */
import { setTimeout as delay } from "node:timers/promises";
import type { Platform } from "../../client/answer-error.ts";
import { followLogs } from "../../client/follow-logs.ts";
import { endpointLogs, type LogRequest, withoutTracebacks } from "../../client/logs.ts";
import { SvcError } from "../../domain/errors.ts";
import { CALL_LOGS_MAX_MS, CALL_LOGS_QUIET_MS } from "../../domain/limits.ts";
import type { Terminal } from "../terminal.ts";

export interface LogLines {
  /** Resolves when what the call printed was shown: its output takes another way than its answer. */
  end(worker?: string): Promise<void>;
}

/** Resolves when no line can be missed any more. `job`: of this job alone, with what it has printed before. */
export async function showLogs(
  terminal: Terminal,
  platform: Platform,
  endpointId: string,
  job?: string,
): Promise<LogLines> {
  const stop = new AbortController();
  const lines: { worker: string; text: string }[] = [];
  let latest = performance.now();
  let opened = () => {};
  const open = new Promise<void>((resolve) => {
    opened = resolve;
  });
  const { dim } = terminal.errColors;
  const wanted: LogRequest = {
    follow: true,
    signal: stop.signal,
    onOpen: opened,
    ...(job === undefined ? { tail: 0 } : { job }),
  };
  const reading = (async () => {
    const isPrinted = withoutTracebacks();
    const read = (asked: LogRequest) => endpointLogs(platform, endpointId, asked);
    for await (const line of followLogs(read, wanted, () => {})) {
      latest = performance.now();
      if (!isPrinted(line)) continue; // the answer has it
      const { worker, text } = line;
      if (job === undefined) lines.push({ worker, text });
      else terminal.note(dim(`│ ${text}`));
    }
  })();
  const failed = reading.then(
    () => undefined,
    (error: unknown) => error,
  );
  const problem = await Promise.race([open.then(() => undefined), failed]);
  if (problem !== undefined) {
    const reason = problem instanceof SvcError ? problem.message : String(problem);
    terminal.warn(`What it prints cannot be shown: ${reason}`);
  }
  return {
    async end(worker) {
      const ended = performance.now();
      while (!stop.signal.aborted) {
        const now = performance.now();
        const left = Math.min(ended + CALL_LOGS_MAX_MS, Math.max(latest, ended) + CALL_LOGS_QUIET_MS) - now;
        if (left <= 0) break;
        await delay(left);
      }
      stop.abort();
      await failed;
      for (const line of lines)
        if (worker === undefined || line.worker === worker) terminal.note(dim(`│ ${line.text}`));
    },
  };
}
