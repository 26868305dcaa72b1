/** What is printed becomes lines as they are kept: masked, cut, with their level. Who follows gets them at once, wherever they go then. */
import { LOG_LINE_MAX_BYTES } from "../domain/limits.ts";
import { levelsOf } from "../domain/log-level.ts";
import type { LoggedLine, LogListener } from "./log-store.ts";

/** What a worker puts at the end of a line that it cut. */
const CUT = " [line cut]";

/** Takes out of a text what must not be kept. */
export type Mask = (endpointId: string, text: string) => string;

export class LogLines {
  readonly #clock: () => number;
  readonly #mask: Mask;
  readonly #followers = new Set<{ endpointIds: ReadonlySet<string>; listener: LogListener }>();

  constructor(clock: () => number, mask: Mask = (_endpointId, text) => text) {
    this.#clock = clock;
    this.#mask = mask;
  }

  /** Its lines and when they were printed. */
  take({ endpointId, workerId, jobId, stream, text }: LoggedLine): { readonly at: number; readonly lines: string[] } {
    const at = this.#clock();
    const texts = this.#mask(endpointId, text)
      .split("\n")
      .filter((one) => one !== "");
    if (texts.length === 0) return { at, lines: [] };
    const lines = linesOf(at, workerId, jobId, stream, texts);
    for (const { endpointIds, listener } of this.#followers)
      if (endpointIds.has(endpointId)) listener({ endpointId, lines });
    return { at, lines };
  }

  follow(endpointIds: readonly string[], listener: LogListener): () => void {
    const entry = { endpointIds: new Set(endpointIds), listener };
    this.#followers.add(entry);
    return () => this.#followers.delete(entry);
  }
}

/** A line of the platform's own. */
export function noteLine(at: number, text: string): string {
  return linesOf(at, "", "", "stderr", [`[svc] ${text}`])[0]!;
}

function linesOf(
  at: number,
  worker: string,
  job: string,
  stream: LoggedLine["stream"],
  texts: readonly string[],
): string[] {
  const head = JSON.stringify({ at, worker, job, stream }).slice(0, -1);
  const levels = levelsOf(texts);
  return texts.map((text, i) => {
    const isLong = text.length > LOG_LINE_MAX_BYTES + CUT.length;
    return `${head},"level":"${levels[i]}","text":${JSON.stringify(isLong ? text.slice(0, LOG_LINE_MAX_BYTES) + CUT : text)}}\n`;
  });
}

/** The whole lines of a kept text. */
export function wholeLines(text: string): string[] {
  return (text.match(/.+\n/g) ?? []).filter((line) => line.endsWith('"}\n'));
}
