import { answerError, type Platform } from "./answer-error.ts";
import { fetchLines } from "./request.ts";

/** One line that a worker printed. */
export interface LogLine {
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly worker: string;
  /** "" outside a job. */
  readonly job: string;
  /** progress: an update that a job of a live endpoint reported, as JSON. */
  readonly stream: "stdout" | "stderr" | "progress";
  readonly text: string;
}

export interface LogRequest {
  /** Newest lines, 0 for new ones only; the platform has a default. */
  readonly tail?: number;
  readonly job?: string;
  /** Goes on with new lines until the signal aborts. */
  readonly follow?: boolean;
  readonly signal?: AbortSignal;
  /** The platform has agreed: from now on no new line is missed. */
  readonly onOpen?: () => void;
}

/** What an endpoint's workers printed, oldest first. */
export async function* endpointLogs(
  platform: Platform,
  endpointId: string,
  wanted: LogRequest,
): AsyncGenerator<LogLine> {
  const query = new URLSearchParams();
  if (wanted.tail !== undefined) query.set("tail", String(wanted.tail));
  if (wanted.job !== undefined) query.set("job", wanted.job);
  if (wanted.follow) query.set("follow", "1");
  const url = `${platform.url}/logs/${encodeURIComponent(endpointId)}?${query}`;
  for await (const line of fetchLines(
    platform,
    url,
    wanted.signal,
    (status, text) => answerError(platform.url, status, text),
    wanted.onOpen,
  )) {
    yield JSON.parse(line) as LogLine;
  }
}
