/** What a job that an OpenAI client called for has come to: a JSON body, an error that its function words itself, or one of the platform. */
import type { ServerResponse } from "node:http";
import { SvcError } from "../domain/errors.ts";
import { failureLine, type JobFailure } from "../domain/job.ts";
import type { Job } from "../queue/queue.ts";
import type { GatewayContext } from "./context.ts";
import { chunksInRoom } from "./large-answers.ts";
import { endWith } from "./respond.ts";

/** An error in the words of the function: `{"error": {"message": …}}`, or flat with `"object": "error"`. */
export interface OwnError {
  readonly status: number;
  readonly body: { readonly error: Fields };
}

type Fields = Readonly<Record<string, unknown>>;

export function ownError(value: unknown): OwnError | undefined {
  if (!isObject(value)) return undefined;
  const error = value.object === "error" ? value : value.error;
  if (!isObject(error) || typeof error.message !== "string") return undefined;
  return { status: statusOf(error), body: { error } };
}

/** What servers of this API put there: an HTTP status, or a word, and then the type tells whose fault it is. */
function statusOf({ code, type }: Fields): number {
  if (typeof code === "number" && Number.isInteger(code) && code >= 400 && code <= 599) return code;
  return /invalid|badrequest/i.test(String(type)) ? 400 : 500;
}

/** A function that returned its error instead of yielding it: the job is FAILED with that. */
export function ownFailureOf({ state, error }: Job): OwnError | undefined {
  return state === "FAILED" ? ownError({ error: parsed(error) }) : undefined;
}

export function sendOwn(res: ServerResponse, { status, body }: OwnError): void {
  if (res.destroyed) return;
  const bytes = Buffer.from(JSON.stringify(body));
  res.writeHead(status, { "Content-Type": "application/json", "Content-Length": bytes.length });
  endWith(res, bytes);
}

/** Of a job that ended in another way than COMPLETED. */
export function failureOf({ state, error }: Job): SvcError {
  if (state === "TIMED_OUT") return new SvcError("REQUEST_TIMEOUT", error || "The job ran longer than its time-out.");
  if (state === "CANCELLED") return new SvcError("JOB_FAILED", "The job was cancelled.");
  if (error.startsWith("worker lost")) return new SvcError("WORKER_LOST", `The job was not done: ${error}.`);
  const failure = parsed(error) as Partial<JobFailure> | undefined;
  const { error_type: type = "", error_message: message = error || "The job failed.", error_traceback } = failure ?? {};
  // The runtime's own word on arguments has no frames.
  if (error_traceback === `${type}: ${message}\n`) {
    return new SvcError("BAD_INPUT", message, {
      help: "A function answers OpenAI clients when it takes openai_route and openai_input.",
    });
  }
  return new SvcError("JOB_FAILED", failureLine(type, message));
}

/** The JSON body of a COMPLETED job: its one value, returned or yielded. Throws BAD_RESPONSE. */
export async function wholeAnswer(gateway: GatewayContext, res: ServerResponse, job: Job): Promise<Buffer | OwnError> {
  const { values, bytes } = await outputOf(gateway, res, job);
  if (values.length !== 1) {
    throw new SvcError("BAD_RESPONSE", `The function gave ${values.length} values to a call without "stream": true.`, {
      help: "There it must yield or return one: the whole response.",
    });
  }
  const [value] = values;
  const own = ownError(value);
  if (own !== undefined) return own;
  if (isObject(value)) return bytes ?? Buffer.from(JSON.stringify(value));
  if (typeof value === "string" && isObject(parsed(value))) return Buffer.from(value);
  throw new SvcError("BAD_RESPONSE", 'The function gave no JSON object to a call without "stream": true.');
}

/** The values of a job that was not read as a stream, and the bytes of a single one. */
export async function outputOf(
  gateway: GatewayContext,
  res: ServerResponse,
  { id, output }: Job,
): Promise<{ readonly values: readonly unknown[]; readonly bytes?: Buffer }> {
  const bytes = Buffer.from(output ?? "[]");
  const value = parsed(bytes.toString());
  if (value === undefined) throw new SvcError("BAD_RESPONSE", "The worker's result is not JSON.");
  if (!Array.isArray(value)) return { values: [value], bytes };
  if (value.length === 1)
    return { values: value, bytes: bytes.subarray(bytes.indexOf("[") + 1, bytes.lastIndexOf("]")) };
  if (value.length > 1) return { values: value };
  // Workers of an image's own may keep no list of what they have yielded.
  const { taken } = await chunksInRoom(gateway, res, 0, (ms, chunkMaxBytes) =>
    gateway.queue.takeChunks(id, ms, undefined, chunkMaxBytes),
  );
  return { values: (taken?.chunks ?? []).map((chunk) => parsed(Buffer.from(chunk).toString())) };
}

export function deleted(id: string): SvcError {
  return new SvcError("JOB_NOT_FOUND", `The job "${id}" of this call was deleted before it ended.`);
}

function isObject(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
