import type { LogLevel } from "../domain/log-level.ts";
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
  /** Missing in lines that an earlier version stored. */
  readonly level?: LogLevel;
  /** Id of the endpoint, where logs of several are read. */
  readonly endpoint?: string;
  readonly text: string;
}

export interface LogRequest {
  /** Newest lines, 0 for new ones only; the platform has a default. */
  readonly tail?: number;
  readonly job?: string;
  /** Milliseconds since the epoch. */
  readonly since?: number;
  readonly until?: number;
  /** At least so grave. */
  readonly level?: LogLevel;
  /** Lines with this text, in whatever case. */
  readonly grep?: string;
  /** Goes on with new lines until the signal aborts. */
  readonly follow?: boolean;
  readonly signal?: AbortSignal;
  /** The platform has agreed: from now on no new line is missed. */
  readonly onOpen?: () => void;
}

/** What an endpoint's workers printed, oldest first. */
export function endpointLogs(platform: Platform, endpointId: string, wanted: LogRequest): AsyncGenerator<LogLine> {
  return linesAt(platform, `/logs/${encodeURIComponent(endpointId)}`, queryOf(wanted), wanted);
}

/** The same of several endpoints, by their time; undefined: of all that the key reaches. */
export function allLogs(
  platform: Platform,
  endpointIds: readonly string[] | undefined,
  wanted: LogRequest,
): AsyncGenerator<LogLine> {
  const query = queryOf(wanted);
  for (const id of endpointIds ?? []) query.append("endpoint", id);
  return linesAt(platform, "/logs", query, wanted);
}

function queryOf(wanted: LogRequest): URLSearchParams {
  const query = new URLSearchParams();
  for (const name of ["tail", "job", "since", "until", "level", "grep"] as const) {
    if (wanted[name] !== undefined) query.set(name, String(wanted[name]));
  }
  if (wanted.follow) query.set("follow", "1");
  return query;
}

async function* linesAt(
  platform: Platform,
  path: string,
  query: URLSearchParams,
  wanted: LogRequest,
): AsyncGenerator<LogLine> {
  const url = `${platform.url}${path}?${query}`;
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

/** Lets all lines pass but the tracebacks of failed jobs: for those who show them with the job's answer. */
export function withoutTracebacks(): (line: LogLine) => boolean {
  let failed = "";
  return ({ job, level, stream, text }) => {
    if (job !== "" && text === `[svc] job ${job} failed:`) failed = job;
    return job === "" || job !== failed || level !== "error" || stream !== "stderr";
  };
}
