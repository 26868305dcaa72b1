import { answerError, fetchLines, type Platform } from "./request.ts";

/** One line that a worker printed. */
export interface LogLine {
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly worker: string;
  /** "" outside a job. */
  readonly job: string;
  readonly stream: "stdout" | "stderr";
  readonly text: string;
}

export interface LogRequest {
  /** Newest lines; the platform has a default. */
  readonly tail?: number;
  readonly job?: string;
  /** Goes on with new lines until the signal aborts. */
  readonly follow?: boolean;
  readonly signal?: AbortSignal;
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
  for await (const line of fetchLines(platform, url, wanted.signal, (status, text) =>
    answerError(platform.url, status, text),
  )) {
    yield JSON.parse(line) as LogLine;
  }
}
