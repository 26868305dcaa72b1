/**
 * The chunks of a job as the server-sent events of an OpenAI stream. The head is held back until the first chunk, or for a
 * while: what fails before has a status of its own, what fails later is an event with the error.
 */
import type { ServerResponse } from "node:http";
import { openAiErrorBody, SvcError } from "../domain/errors.ts";
import { isFinal } from "../domain/job.ts";
import { STREAM_HEAD_HOLD_MAX_MS, STREAM_HOLD_MAX_MS } from "../domain/limits.ts";
import { CallerGone } from "./body.ts";
import { leftBehind } from "./caller.ts";
import type { GatewayContext } from "./context.ts";
import { EventText } from "./event-text.ts";
import { chunksInRoom, whole } from "./large-answers.ts";
import { deleted, failureOf, outputOf, ownError, ownFailureOf, sendOwn } from "./openai-answer.ts";
import { drained, STREAM_HEAD, write } from "./respond.ts";

export async function relayEvents(
  res: ServerResponse,
  gateway: GatewayContext,
  id: string,
  signal: AbortSignal,
): Promise<void> {
  const events = new EventText();
  const headDue = performance.now() + STREAM_HEAD_HOLD_MAX_MS;
  const follower = new Follower(res, events);
  try {
    for await (const chunks of chunksOf(gateway, id, signal, follower)) {
      const own = res.headersSent ? undefined : ownError(chunks[0]?.value);
      if (own !== undefined) return sendOwn(res, own);
      const { text, fault } = textOf(events, chunks);
      if (fault !== undefined && text === "" && !res.headersSent) throw fault;
      if (!res.headersSent && (chunks.length > 0 || performance.now() >= headDue)) {
        res.writeHead(200, STREAM_HEAD);
        res.flushHeaders();
      }
      if (text !== "") await write(res, text);
      else if (res.headersSent && chunks.length === 0 && events.isBetween) await write(res, ": still waiting\n\n");
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
function textOf(events: EventText, chunks: readonly Chunk[]): { readonly text: string; readonly fault?: unknown } {
  let text = "";
  try {
    for (const { value, json } of chunks) text += events.of(value, json);
    return { text };
  } catch (fault) {
    return { text, fault };
  }
}

interface Chunk {
  readonly value: unknown;
  /** The text that it was read from. */
  readonly json?: string;
}

/** Writes the chunks that come while nothing else is to be said, each in the turn in which it comes. */
class Follower {
  readonly res: ServerResponse;
  readonly #events: EventText;
  /** Chunks since the last look. */
  count = 0;
  /** What the last one was wrong for. */
  fault: unknown;

  constructor(res: ServerResponse, events: EventText) {
    this.res = res;
    this.#events = events;
  }

  readonly take = (bytes: Uint8Array): boolean => {
    this.count += 1;
    try {
      const { value, json } = chunkOf(bytes);
      const text = this.#events.of(value, json);
      return text === "" || (!this.res.destroyed && this.res.write(text));
    } catch (fault) {
      this.fault = fault;
      return false;
    }
  };

  drained(): Promise<void> | undefined {
    return drained(this.res);
  }
}

/** What the job yields, as it comes, but for what `follower` gets; [] while nothing does. Throws what it failed with. */
async function* chunksOf(
  gateway: GatewayContext,
  id: string,
  signal: AbortSignal,
  follower: Follower,
): AsyncGenerator<readonly Chunk[]> {
  const { queue } = gateway;
  /** Of what the caller has; another run would say everything again. */
  let run: number | undefined;
  let holdMs = STREAM_HOLD_MAX_MS;
  for (;;) {
    const { taken, letGo } = await chunksInRoom(gateway, follower.res, holdMs, (ms, chunkMaxBytes) =>
      queue.takeChunks(id, ms, signal, chunkMaxBytes),
    );
    if (signal.aborted) throw leftBehind(gateway);
    if (taken === undefined) throw deleted(id);
    if (run !== undefined && run !== taken.run) {
      throw new SvcError("WORKER_LOST", "The worker was lost in the middle of its answer.");
    }
    if (taken.chunks.length > 0) run = taken.run;
    const isSilent = taken.chunks.length + follower.count === 0;
    if (taken.chunks.length > 0 || (isSilent && !isFinal(taken.state))) yield taken.chunks.map(chunkOf);
    letGo();
    if (!isFinal(taken.state)) {
      follower.count = 0;
      const hasFollowed =
        run !== undefined && (await queue.followChunks?.(id, run, STREAM_HOLD_MAX_MS, follower.take, signal));
      if (follower.fault !== undefined) throw follower.fault;
      await follower.drained();
      // What it ended for is known at once.
      holdMs = hasFollowed ? 0 : STREAM_HOLD_MAX_MS;
      continue;
    }
    const job = await queue.find(id, 0);
    if (job === undefined) throw deleted(id);
    const own = ownFailureOf(job);
    if (job.state !== "COMPLETED" && own === undefined) throw failureOf(job);
    if (own !== undefined) yield [{ value: own.body }];
    else if (run === undefined)
      yield* streamedOutput((await outputOf(gateway, follower.res, await whole(gateway, follower.res, job))).values);
    return;
  }
}

/** Of a function that streamed nothing and has returned a list of what it would have. */
function* streamedOutput(values: readonly unknown[]): Generator<readonly Chunk[]> {
  const [value] = values;
  if (values.length === 1 && typeof value === "object" && ownError(value) === undefined) {
    throw new SvcError("BAD_RESPONSE", 'The function gave a call with "stream": true its response as a whole.', {
      help: "There it must yield the chunks.",
    });
  }
  if (values.length > 0) yield values.map((each) => ({ value: each }));
}

function chunkOf(chunk: Uint8Array): Chunk {
  try {
    const json = Buffer.from(chunk.buffer, chunk.byteOffset, chunk.length).toString();
    return { value: JSON.parse(json), json };
  } catch {
    throw new SvcError("BAD_RESPONSE", "The worker sent a chunk that is not JSON.");
  }
}
