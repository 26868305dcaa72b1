/**
 * Chunks of a generator, each handed out once: as one JSON answer per call, or with Accept: text/event-stream as
 * server-sent events until the job is final.
 */
import type { ServerResponse } from "node:http";
import { isFinal, type JobState } from "../../domain/job.ts";
import { STREAM_HOLD_MAX_MS, WAIT_MAX_MS } from "../../domain/limits.ts";
import type { Call, GatewayContext } from "../context.ts";
import { FOLLOW, GET_OR_POST, type JobRoute, jobOf, ownJob } from "../job-route.ts";
import { wholeNumber } from "../query.ts";
import { sendJson } from "../respond.ts";

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
    const taken = await gateway.queue.takeChunks(call.jobId, Math.min(wait, STREAM_HOLD_MAX_MS), signal);
    if (taken === undefined) ownJob(undefined, call);
    else sendJson(call.res, streamJson(taken.state, taken.chunks));
  },
};

function streamJson(state: JobState, chunks: readonly Uint8Array[]): Buffer {
  const parts: Uint8Array[] = [Buffer.from(`{"status":"${state}","stream":[`)];
  chunks.forEach((chunk, index) => {
    parts.push(Buffer.from(index === 0 ? '{"output":' : ',{"output":'), chunk, Buffer.from("}"));
  });
  parts.push(Buffer.from("]}"));
  return Buffer.concat(parts);
}

async function sendEvents(call: Call, gateway: GatewayContext, signal: AbortSignal): Promise<void> {
  const { res, jobId } = call;
  res.writeHead(200, ["Content-Type", "text/event-stream", "Cache-Control", "no-cache", "X-Accel-Buffering", "no"]);
  res.flushHeaders();
  while (!signal.aborted) {
    const taken = await gateway.queue.takeChunks(jobId, STREAM_HOLD_MAX_MS, signal);
    if (taken === undefined) break; // deleted meanwhile
    for (const chunk of taken.chunks) await write(res, eventOf(chunk));
    if (isFinal(taken.state)) {
      await write(res, `event: status\ndata: {"status":"${taken.state}"}\n\n`);
      break;
    }
    if (taken.chunks.length === 0) await write(res, ": still waiting\n\n");
  }
  res.end();
}

/** A line break in JSON text is white space between tokens; in an event it would end the line. */
function eventOf(chunk: Uint8Array): Buffer {
  const event = Buffer.concat([Buffer.from('data: {"output":'), chunk, Buffer.from("}\n\n")]);
  for (let at = 0; at < event.length - 2; at++) if (event[at] === 0x0a || event[at] === 0x0d) event[at] = 0x20;
  return event;
}

/** Resolves when the caller takes more, or is gone. */
function write(res: ServerResponse, data: Buffer | string): Promise<void> | undefined {
  if (res.destroyed || res.write(data)) return undefined;
  return new Promise((resolve) => {
    const done = () => {
      res.off("drain", done).off("close", done);
      resolve();
    };
    res.on("drain", done).on("close", done);
  });
}
