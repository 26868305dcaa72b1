/**
 * The chunks of a job as the server-sent events of an OpenAI stream. The head is held back until the first chunk, or for a
 * while: what fails before has a status of its own, what fails later is an event with the error.
 */
import type { ServerResponse } from "node:http";
import { openAiErrorBody, SvcError } from "../domain/errors.ts";
import { isFinal } from "../domain/job.ts";
import { STREAM_HEAD_HOLD_MAX_MS, STREAM_HOLD_MAX_MS } from "../domain/limits.ts";
import { CallerGone } from "./body.ts";
import type { GatewayContext } from "./context.ts";
import { EventText } from "./event-text.ts";
import { deleted, failureOf, leftBehind, outputOf, ownError, ownFailureOf, sendOwn } from "./openai-answer.ts";
import { STREAM_HEAD, write } from "./respond.ts";

export async function relayEvents(
  res: ServerResponse,
  gateway: GatewayContext,
  id: string,
  signal: AbortSignal,
): Promise<void> {
  const events = new EventText();
  const headDue = performance.now() + STREAM_HEAD_HOLD_MAX_MS;
  try {
    for await (const values of valuesOf(gateway, id, signal)) {
      const own = res.headersSent ? undefined : ownError(values[0]);
      if (own !== undefined) return sendOwn(res, own);
      const { text, fault } = textOf(events, values);
      if (fault !== undefined && text === "" && !res.headersSent) throw fault;
      if (!res.headersSent && (values.length > 0 || performance.now() >= headDue)) {
        res.writeHead(200, STREAM_HEAD);
        res.flushHeaders();
      }
      if (text !== "") await write(res, text);
      else if (res.headersSent && values.length === 0 && events.isBetween) await write(res, ": still waiting\n\n");
      if (fault !== undefined) throw fault;
    }
    if (!res.headersSent) res.writeHead(200, STREAM_HEAD);
    res.end(events.end());
  } catch (error) {
    if (!res.headersSent || error instanceof CallerGone) throw error;
    if (!(error instanceof SvcError)) gateway.log.error("a stream failed inside the gateway", { job: id, error });
    res.end(events.failed(openAiErrorBody(error).error));
  }
}

/** With the fault of the first value that is no part of events, behind the text of those before it. */
function textOf(events: EventText, values: readonly unknown[]): { readonly text: string; readonly fault?: unknown } {
  let text = "";
  try {
    for (const value of values) text += events.of(value);
    return { text };
  } catch (fault) {
    return { text, fault };
  }
}

/** What the job yields, as it comes; [] while nothing does. Throws what it failed with. */
async function* valuesOf(gateway: GatewayContext, id: string, signal: AbortSignal): AsyncGenerator<readonly unknown[]> {
  const { queue } = gateway;
  /** Of what the caller has; another run would say everything again. */
  let run: number | undefined;
  for (;;) {
    const taken = await queue.takeChunks(id, STREAM_HOLD_MAX_MS, signal);
    if (signal.aborted) throw leftBehind(gateway);
    if (taken === undefined) throw deleted(id);
    if (run !== undefined && run !== taken.run) {
      throw new SvcError("WORKER_LOST", "The worker was lost in the middle of its answer.");
    }
    if (taken.chunks.length > 0) run = taken.run;
    if (taken.chunks.length > 0 || !isFinal(taken.state)) yield taken.chunks.map(chunkValue);
    if (!isFinal(taken.state)) continue;
    const job = await queue.find(id);
    if (job === undefined) throw deleted(id);
    const own = ownFailureOf(job);
    if (job.state !== "COMPLETED" && own === undefined) throw failureOf(job);
    if (own !== undefined) yield [own.body];
    else if (run === undefined) yield* streamedOutput((await outputOf(queue, job)).values);
    return;
  }
}

/** Of a function that streamed nothing and has returned a list of what it would have. */
function* streamedOutput(values: readonly unknown[]): Generator<readonly unknown[]> {
  const [value] = values;
  if (values.length === 1 && typeof value === "object" && ownError(value) === undefined) {
    throw new SvcError("BAD_RESPONSE", 'The function gave a call with "stream": true its response as a whole.', {
      help: "There it must yield the chunks.",
    });
  }
  if (values.length > 0) yield values;
}

function chunkValue(chunk: Uint8Array): unknown {
  try {
    return JSON.parse(Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length).toString());
  } catch {
    throw new SvcError("BAD_RESPONSE", "The worker sent a chunk that is not JSON.");
  }
}
