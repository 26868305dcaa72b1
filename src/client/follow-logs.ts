/** Log lines as they come, also over a restart of the platform: what it printed meanwhile comes then, each line once. */
import { setTimeout as delay } from "node:timers/promises";
import {
  CLIENT_PATIENCE_MS,
  CLIENT_RETRY_PAUSE_MAX_MS,
  CLIENT_RETRY_PAUSE_MS,
  LOG_TAIL_MAX_LINES,
} from "../domain/limits.ts";
import { isAway } from "./answer-error.ts";
import type { LogLine, LogRequest } from "./logs.ts";

/**
 * `read` asks once, as endpointLogs does. `onAway` is called when the platform has ended the answer, before it is asked again. Rejects
 * with PLATFORM_UNREACHABLE when it stays away, and at once when it never answered.
 */
export async function* followLogs(
  read: (wanted: LogRequest) => AsyncGenerator<LogLine>,
  wanted: LogRequest,
  onAway: () => void,
): AsyncGenerator<LogLine> {
  const shown = new Newest();
  let isOpen = false;
  let wasOpen = false;
  const onOpen = () => {
    isOpen = wasOpen = true;
    wanted.onOpen?.();
  };
  let givesUpAt = 0;
  let pauseMs = CLIENT_RETRY_PAUSE_MS;
  for (;;) {
    isOpen = false;
    let problem: unknown;
    try {
      for await (const line of read({ ...wanted, onOpen, ...shown.since() })) if (shown.isNew(line)) yield line;
    } catch (error) {
      if (!wasOpen || !isAway(error)) throw error;
      problem = error;
    }
    if (wanted.signal?.aborted) return;
    if (isOpen) {
      onAway();
      shown.cut();
      givesUpAt = performance.now() + CLIENT_PATIENCE_MS;
      pauseMs = CLIENT_RETRY_PAUSE_MS;
    } else if (problem !== undefined && performance.now() > givesUpAt) {
      throw problem;
    }
    await delay(pauseMs, undefined, { signal: wanted.signal }).catch(() => {});
    if (wanted.signal?.aborted) return;
    pauseMs = Math.min(pauseMs * 2, CLIENT_RETRY_PAUSE_MAX_MS);
  }
}

/** The lines of the newest time that was shown: what is asked for again begins with them. */
class Newest {
  #at: number | undefined;
  #lines: string[] = [];
  #repeated: string[] = [];

  /** Nothing before the first line: all of what was wanted is still to come. */
  since(): Pick<LogRequest, "since" | "tail"> {
    return this.#at === undefined ? {} : { since: this.#at, tail: LOG_TAIL_MAX_LINES };
  }

  /** Those lines come once more. */
  cut(): void {
    this.#repeated = [...this.#lines];
  }

  isNew(line: LogLine): boolean {
    const text = JSON.stringify(line);
    const index = line.at === this.#at ? this.#repeated.indexOf(text) : -1;
    if (index >= 0) {
      this.#repeated.splice(index, 1);
      return false;
    }
    if (this.#at === undefined || line.at > this.#at) {
      this.#at = line.at;
      this.#lines = [];
    }
    if (line.at === this.#at) this.#lines.push(text);
    return true;
  }
}
