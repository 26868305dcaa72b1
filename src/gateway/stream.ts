/**
 * Chunks of a generator: as one JSON answer per call, or with Accept: text/event-stream as server-sent events until the
 * job is final. Each is handed out once, unless the caller says which it had last: then it may ask again.
 */
import { isFinal } from "../domain/job.ts";
import { STREAM_HOLD_MAX_MS, WAIT_MAX_MS } from "../domain/limits.ts";
import type { ChunksThere } from "../queue/queue.ts";
import type { Call, GatewayContext } from "./context.ts";
import { FOLLOW, GET_OR_POST, type JobRoute, jobOf, ownJob } from "./job-route.ts";
import { type Chunks, chunksInRoom } from "./large-answers.ts";
import { wholeNumber } from "./query.ts";
import { RateLimited } from "./rate-limits.ts";
import { drained, STREAM_HEAD, sendJson, write } from "./respond.ts";

export const stream: JobRoute = {
  name: "stream",
  methods: GET_OR_POST,
  scopes: FOLLOW,
  rate: "stream",
  namesJob: true,
  async handle(call, gateway) {
    const wait = wholeNumber(call.query, "wait", 0, WAIT_MAX_MS) ?? STREAM_HOLD_MAX_MS;
    await jobOf(call, gateway);
    const signal = gateway.lookers.watch(call.req, call.res);
    if (call.req.headers.accept?.includes("text/event-stream")) return sendEvents(call, gateway, signal);
    const after = afterOf(call);
    const { taken } = await chunksOf(call, gateway, after, Math.min(wait, STREAM_HOLD_MAX_MS), signal);
    if (taken === undefined) {
      ownJob(undefined, call);
      return;
    }
    sendJson(call.res, streamJson(taken, after));
  },
};

const NONE: Chunks<Taken> = { taken: undefined, letGo() {} };
const EVENT_END = Buffer.from("}\n\n");

interface Taken extends ChunksThere {
  /** Undefined when the caller keeps no count. */
  readonly numbers?: readonly number[];
  /** Undefined when it does. */
  readonly run?: number;
}

/** Number of the chunk the caller had last, 0 for none; undefined when it keeps no count. */
function afterOf({ req, query }: Call): number | undefined {
  const after = wholeNumber(query, "after", 0, Number.MAX_SAFE_INTEGER);
  const lastEvent = req.headers["last-event-id"];
  if (after !== undefined || typeof lastEvent !== "string" || !/^\d{1,16}$/.test(lastEvent)) return after;
  return Math.min(Number(lastEvent), Number.MAX_SAFE_INTEGER);
}

function chunksOf(
  { jobId, res }: Call,
  gateway: GatewayContext,
  after: number | undefined,
  holdMs: number,
  signal: AbortSignal,
): Promise<Chunks<Taken>> {
  const { queue } = gateway;
  return chunksInRoom<Taken>(gateway, res, holdMs, (ms, chunkMaxBytes) =>
    after === undefined
      ? queue.takeChunks(jobId, ms, signal, chunkMaxBytes)
      : queue.readChunks(jobId, after, ms, signal, chunkMaxBytes),
  );
}

/** As chunksOf, for a stream that is open: who finds no room goes on waiting for it. [] while there is none. */
async function nextOf(...given: Parameters<typeof chunksOf>): Promise<Chunks<Taken>> {
  const signal = given[4];
  try {
    return await chunksOf(...given);
  } catch (error) {
    if (signal.aborted) return NONE;
    if (error instanceof RateLimited) return { ...NONE, taken: { state: "IN_PROGRESS", chunks: [] } };
    throw error;
  }
}

function streamJson({ state, chunks, numbers }: Taken, after: number | undefined): Buffer {
  const parts: Uint8Array[] = [Buffer.from(`{"status":"${state}","stream":[`)];
  chunks.forEach((chunk, index) => {
    parts.push(Buffer.from(index === 0 ? '{"output":' : ',{"output":'), chunk, Buffer.from("}"));
  });
  parts.push(Buffer.from(numbers === undefined ? "]}" : `],"last":${numbers.at(-1) ?? after}}`));
  return Buffer.concat(parts);
}

async function sendEvents(call: Call, gateway: GatewayContext, signal: AbortSignal): Promise<void> {
  const { res } = call;
  res.writeHead(200, STREAM_HEAD);
  res.flushHeaders();
  let after = afterOf(call);
  let followed = 0;
  const take = (chunk: Uint8Array): boolean => {
    followed += 1;
    return !res.destroyed && res.write(eventOf(chunk, undefined));
  };
  let holdMs = STREAM_HOLD_MAX_MS;
  while (!signal.aborted) {
    const { taken, letGo } = await nextOf(call, gateway, after, holdMs, signal);
    if (taken === undefined) break; // deleted meanwhile, or nobody is there
    for (const [i, chunk] of taken.chunks.entries()) {
      const number = taken.numbers?.[i];
      await write(res, eventOf(chunk, number));
      after = number ?? after;
    }
    letGo();
    if (isFinal(taken.state)) {
      await write(res, `event: status\ndata: {"status":"${taken.state}"}\n\n`);
      break;
    }
    if (taken.chunks.length + followed === 0) await write(res, ": still waiting\n\n");
    followed = 0;
    const { queue } = gateway;
    const hasFollowed =
      taken.run !== undefined && (await queue.followChunks?.(call.jobId, taken.run, STREAM_HOLD_MAX_MS, take, signal));
    await drained(res);
    // What it ended for is known at once.
    holdMs = hasFollowed ? 0 : STREAM_HOLD_MAX_MS;
  }
  res.end();
}

/** A line break in JSON text is white space between tokens; in an event it would end the line. */
function eventOf(chunk: Uint8Array, number: number | undefined): Buffer {
  const id = number === undefined ? "" : `id: ${number}\n`;
  const event = Buffer.concat([Buffer.from(`${id}data: {"output":`), chunk, EVENT_END]);
  const start = event.length - EVENT_END.length - chunk.length;
  for (const lineBreak of [0x0a, 0x0d]) {
    const end = event.length - EVENT_END.length;
    for (let at = event.indexOf(lineBreak, start); at !== -1 && at < end; at = event.indexOf(lineBreak, at))
      event[at] = 0x20;
  }
  return event;
}
