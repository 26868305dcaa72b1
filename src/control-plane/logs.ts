/**
 * `GET /logs/<endpoint>?tail=N&job=ID&follow=1`: what the endpoint's workers printed, one JSON object a line
 * (`application/x-ndjson`), oldest first. With `follow` the answer stays open and carries new lines as they come.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { SvcError } from "../domain/errors.ts";
import { LOG_FOLLOWER_MAX_BYTES, LOG_TAIL_DEFAULT_LINES, LOG_TAIL_MAX_LINES } from "../domain/limits.ts";
import { methodNotAllowed } from "./answer.ts";
import { authenticate, requireReach, requireScope } from "./authenticate.ts";
import type { ControlPlaneDeps } from "./context.ts";
import { knownEndpoint } from "./known-endpoint.ts";
import { LogFollower } from "./log-follower.ts";
import { decodedPart } from "./request-url.ts";

/** What workers print, by endpoint. A line is one JSON object with a newline at its end. */
export interface WorkerLogs {
  /** The lines that are kept, oldest first. */
  read(endpointId: string): Promise<string[]>;
  /** New lines as they come, until the returned function is called. */
  follow(endpointId: string, listener: (lines: string[]) => void): () => void;
}

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
