/**
 * What workers printed, one JSON object a line (`application/x-ndjson`), oldest first. With `follow=1` the answer stays open
 * and carries new lines as they come. log-filter.ts reads the rest of the query.
 *
 *   GET /logs/<endpoint>   of one endpoint
 *   GET /logs              of all that the key reaches, or of each `endpoint=<id>`; lines name theirs: `{"endpoint":id,…}`
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { setImmediate } from "node:timers/promises";
import { reaches } from "../domain/api-key.ts";
import {
  LOG_ANSWER_MAX_CHARS,
  LOG_FOLLOWER_MAX_BYTES,
  LOG_LINES_AT_ONCE,
  LOG_READS_AT_ONCE,
} from "../domain/limits.ts";
import { isRemoved } from "../domain/removal.ts";
import { Turns } from "../lib/turns.ts";
import type { NewLines } from "../logs/log-store.ts";
import type { Endpoint } from "../store/store.ts";
import { authenticate, requireReach, requireScope } from "./authenticate.ts";
import type { ControlPlaneDeps } from "./context.ts";
import { endWithFollower } from "./follower.ts";
import { decodedPart, methodNotAllowed, unsent } from "./http.ts";
import { knownEndpoint } from "./known.ts";
import { type LogFilter, logFilter, timeOf } from "./log-filter.ts";

/** What is read lies in memory, and is counted once it is on its way. */
const reading = new Turns(LOG_READS_AT_ONCE);

type Source = { readonly id: string; readonly named: (line: string) => string };

export async function answerLogs(
  deps: ControlPlaneDeps,
  request: IncomingMessage,
  response: ServerResponse,
  url: URL,
): Promise<void> {
  if (request.method !== "GET") return methodNotAllowed(response, "/logs/<endpoint>", "GET");
  const sources = await sourcesOf(deps, request, url);
  const filter = logFilter(url.searchParams);
  response.setHeader("content-type", "application/x-ndjson");
  const isFollowed = url.searchParams.get("follow") === "1";
  // Its length is not known, also where it ends before a line comes.
  if (isFollowed) response.writeHead(200);

  // Following starts before reading, so that no line falls between the two.
  const follower = new LogFollower(response, deps.clock);
  let early: string[] | undefined = [];
  let earlyChars = 0;
  let earlyLeftOut = 0;
  const names = new Map(sources.map(({ id, named }) => [id, named]));
  const hear = ({ endpointId, lines, leftOut = 0 }: NewLines) => {
    const news = lines.filter((line) => filter.wants(line)).map(names.get(endpointId)!);
    if (early === undefined) {
      follower.leaveOut(leftOut);
      return follower.write(news);
    }
    earlyLeftOut += leftOut;
    for (const line of news) {
      earlyChars += line.length;
      if (earlyChars <= LOG_FOLLOWER_MAX_BYTES) early.push(line);
      else earlyLeftOut++;
    }
    return undefined;
  };
  const stop = isFollowed ? deps.logs.follow([...names.keys()], hear) : () => {};
  if (response.destroyed) return stop();
  response.on("close", stop);
  // Its key may have been revoked since.
  if (isFollowed) endWithFollower(request, response, deps.closing, () => sourcesOf(deps, request, url));
  const kept = await reading.take(() => newest(deps, sources, filter, () => response.destroyed));
  // Who follows and has closed its sending side was answered meanwhile.
  if (response.writableEnded) return;
  const written = new Set(kept);
  const chars = kept.reduce((sum, line) => sum + line.length, 0);
  const letGo = unsent.takeNow(response, chars);
  response.flushHeaders();
  response.write(kept.join(""));
  response.write(early.filter((line) => !written.has(line)).join(""));
  early = undefined;
  follower.leaveOut(earlyLeftOut);
  if (!isFollowed) response.end();
  // Of an answer that stays open only what its caller has not taken is counted.
  else if (response.writableNeedDrain) response.once("drain", letGo);
  else letGo();
}

async function sourcesOf(deps: ControlPlaneDeps, request: IncomingMessage, url: URL): Promise<Source[]> {
  const principal = await authenticate(deps.keys, request.headers.authorization);
  requireScope({ principal }, "read");
  const known = async (id: string) => {
    const endpoint = await knownEndpoint(deps.store, id);
    requireReach({ principal }, endpoint);
    return endpoint;
  };
  const one = decodedPart(url.pathname.slice("/logs/".length));
  if (one !== "") return [{ id: (await known(one)).id, named: (line) => line }];
  const wanted = url.searchParams.getAll("endpoint");
  const all: readonly Endpoint[] =
    wanted.length > 0
      ? await Promise.all(wanted.map(known))
      : (await deps.store.endpoints.list()).filter((found) => !isRemoved(found) && reaches(principal, found));
  return all.map(({ id }) => ({ id, named: (line) => `{"endpoint":${JSON.stringify(id)},${line.slice(1)}` }));
}

/** The newest wanted lines of all, oldest first. A part of one log is in memory at a time, and other work gets its turn meanwhile. */
async function newest(
  deps: ControlPlaneDeps,
  sources: readonly Source[],
  { tail, wants, ...between }: LogFilter,
  isOver: () => boolean,
): Promise<string[]> {
  let kept: KeptLine[] = [];
  let isCut = false;
  if (tail === 0) return [];
  const names = new Map(sources.map(({ id, named }) => [id, named]));
  const pieces = deps.logs.read([...names.keys()], between);
  let count = 0;
  for await (const { endpointId, newestAt, lines, isNotice } of pieces) {
    if ((isCut || kept.length >= tail) && newestAt < kept.at(-1)!.at) break;
    const named = names.get(endpointId)!;
    let found = 0;
    for (let i = lines.length - 1; i >= 0 && found < tail; i--) {
      const line = lines[i]!;
      if (isNotice || wants(line)) {
        found++;
        kept.push({ at: timeOf(line), line: named(line) });
      }
      if (i % LOG_LINES_AT_ONCE === 0) await setImmediate();
      if (isOver()) return [];
    }
    if (++count > 1) kept = kept.sort((a, b) => b.at - a.at).slice(0, tail);
    const fits = fitting(kept);
    isCut ||= fits < kept.length;
    kept.length = fits;
  }
  const lines = kept.reverse().map(({ line }) => line);
  return isCut ? [notice(kept[0]?.at ?? 0, CUT), ...lines] : lines;
}

interface KeptLine {
  readonly at: number;
  readonly line: string;
}

const CUT = `[svc] Older lines were left out here: an answer has at most ${LOG_ANSWER_MAX_CHARS} characters. Ask for fewer lines, or for another time.`;

/** How many of them, the newest first, are in one answer. */
function fitting(kept: readonly KeptLine[]): number {
  let chars = 0;
  const end = kept.findIndex(({ line }) => {
    chars += line.length;
    return chars > LOG_ANSWER_MAX_CHARS;
  });
  return end === -1 ? kept.length : end;
}

/** A line of the platform's own among those of a log. */
function notice(at: number, text: string): string {
  return `${JSON.stringify({ at, worker: "", job: "", stream: "stderr", level: "warning", text })}\n`;
}

/** One reader of new lines. It may be slow: what it does not take in time is left out and counted, and it is told. */
export class LogFollower {
  readonly #response: ServerResponse;
  readonly #clock: () => number;
  #leftOut = 0;
  #taken: PromiseWithResolvers<void> | undefined;

  constructor(response: ServerResponse, clock: () => number) {
    this.#response = response;
    this.#clock = clock;
    const taken = () => {
      this.#tell();
      this.#taken?.resolve();
      this.#taken = undefined;
    };
    response.on("drain", taken);
    response.on("close", taken);
  }

  /** Each line ends with a newline. Resolves when more may come; undefined while it may. */
  write(lines: readonly string[]): Promise<void> | undefined {
    const response = this.#response;
    if (lines.length === 0 || response.writableEnded || response.destroyed) return undefined;
    if (this.#leftOut === 0 && response.writableLength < LOG_FOLLOWER_MAX_BYTES) response.write(lines.join(""));
    else this.#leftOut += lines.length;
    if (!response.writableNeedDrain) return undefined;
    this.#taken ??= Promise.withResolvers();
    return this.#taken.promise;
  }

  /** So many were left out before they came here. */
  leaveOut(lines: number): void {
    this.#leftOut += lines;
    if (!this.#response.writableNeedDrain) this.#tell();
  }

  /** It has taken all there was. */
  #tell(): void {
    if (this.#leftOut === 0 || this.#response.writableEnded) return;
    const text = `[svc] ${this.#leftOut} lines were left out here: they came faster than they were read. "svc logs" without --follow has those that are kept.`;
    this.#leftOut = 0;
    this.#response.write(notice(this.#clock(), text));
  }
}
