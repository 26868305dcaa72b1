/**
 * `GET /logs/<endpoint>?tail=N&job=ID&follow=1`: what the endpoint's workers printed, one JSON object a line
 * (`application/x-ndjson`), oldest first. With `follow` the answer stays open and carries new lines as they come.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { SvcError } from "../domain/errors.ts";
import { LOG_FOLLOWER_MAX_BYTES, LOG_TAIL_DEFAULT_LINES, LOG_TAIL_MAX_LINES } from "../domain/limits.ts";
import { authenticate, requireReach, requireScope } from "./authenticate.ts";
import type { ControlPlaneDeps } from "./context.ts";
import { decodedPart, methodNotAllowed } from "./http.ts";
import { knownEndpoint } from "./known.ts";

export async function answerLogs(
  deps: ControlPlaneDeps,
  request: IncomingMessage,
  response: ServerResponse,
  url: URL,
): Promise<void> {
  if (request.method !== "GET") return methodNotAllowed(response, "/logs/<endpoint>", "GET");
  const principal = await authenticate(deps.keys, request.headers.authorization);
  requireScope({ principal }, "read");
  const endpoint = await knownEndpoint(deps.store, decodedPart(url.pathname.slice("/logs/".length)));
  requireReach({ principal }, endpoint);
  const tail = tailLines(url.searchParams.get("tail"));
  const wanted = ofJob(url.searchParams.get("job"));
  response.writeHead(200, { "content-type": "application/x-ndjson" });

  // Following starts before reading, so that no line falls between the two.
  const follower = new LogFollower(response, deps.clock);
  let early: string[] | undefined = [];
  let earlyChars = 0;
  const stop = deps.logs.follow(endpoint.id, (lines) => {
    const news = lines.filter(wanted);
    if (early === undefined) return follower.write(news);
    for (const line of news) {
      earlyChars += line.length;
      if (earlyChars <= LOG_FOLLOWER_MAX_BYTES) early.push(line);
    }
  });
  if (response.destroyed) return stop();
  response.on("close", stop);
  const kept = (await deps.logs.read(endpoint.id)).filter(wanted);
  const written = new Set(kept);
  response.flushHeaders();
  response.write(kept.slice(kept.length - Math.min(tail, kept.length)).join(""));
  response.write(early.filter((line) => !written.has(line)).join(""));
  early = undefined;
  if (url.searchParams.get("follow") !== "1") response.end();
}

function tailLines(text: string | null): number {
  if (text === null) return LOG_TAIL_DEFAULT_LINES;
  const lines = Number(text);
  if (Number.isInteger(lines) && lines >= 0 && lines <= LOG_TAIL_MAX_LINES) return lines;
  throw new SvcError("BAD_INPUT", `tail must be a whole number from 0 to ${LOG_TAIL_MAX_LINES}, not ${text}.`);
}

function ofJob(job: string | null): (line: string) => boolean {
  if (job === null) return () => true;
  return (line) => (JSON.parse(line) as { job: string }).job === job;
}

/** One reader of new lines. It may be slow: what it does not take in time is left out and counted, and it is told. */
export class LogFollower {
  readonly #response: ServerResponse;
  readonly #clock: () => number;
  #leftOut = 0;

  constructor(response: ServerResponse, clock: () => number) {
    this.#response = response;
    this.#clock = clock;
    response.on("drain", () => this.#tell());
  }

  /** Each line ends with a newline. */
  write(lines: readonly string[]): void {
    if (lines.length === 0) return;
    if (this.#leftOut === 0 && this.#response.writableLength < LOG_FOLLOWER_MAX_BYTES) {
      this.#response.write(lines.join(""));
    } else this.#leftOut += lines.length;
  }

  /** It has taken all there was. */
  #tell(): void {
    if (this.#leftOut === 0) return;
    const text = `[svc] ${this.#leftOut} lines were left out here: they came faster than they were read. "svc logs" without --follow has those that are kept.`;
    this.#leftOut = 0;
    const notice = { at: this.#clock(), worker: "", job: "", stream: "stderr", text };
    this.#response.write(`${JSON.stringify(notice)}\n`);
  }
}
