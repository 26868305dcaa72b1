/** From the body of /run or /runsync to a durable job. */
import { SvcError } from "../domain/errors.ts";
import { IDEMPOTENCY_KEY_MAX_CHARS, INLINE_BODY_MAX_BYTES } from "../domain/limits.ts";
import { freeBytes } from "../lib/free-bytes.ts";
import type { Job, NewJob } from "../queue/queue.ts";
import { readBody } from "./body.ts";
import type { Call, GatewayContext } from "./context.ts";
import { type JobRequest, parseJobRequest } from "./job-request.ts";

interface Submission {
  readonly jobId: string;
  readonly maxBytes: number;
  readonly retentionMs: number;
  /** The caller waits so long for it. */
  readonly waitMs?: number;
}

export interface Submitted {
  readonly id: string;
  readonly created: boolean;
  /** It was waited for already: what came of it, undefined when it is gone. */
  readonly waited?: { readonly job: Job | undefined };
}

interface SubmissionAs extends Submission {
  /** "" for none. */
  readonly idempotencyKey: string;
  /** The job that a body asks for. */
  readonly read: (body: Buffer) => JobRequest;
}

/** Resolves when the job is committed. `created` is false when the Idempotency-Key named an earlier job. */
export async function submit(call: Call, gateway: GatewayContext, submission: Submission): Promise<Submitted> {
  const { req, principal } = call;
  const given = idempotencyKeyOf(req.headers["idempotency-key"]);
  // The keys of a worker's endpoint are its own: one that it guesses names no job of others.
  const idempotencyKey = given === "" || principal.kind === "key" ? given : `${principal.ofEndpoint} ${given}`;
  return submitAs(call, gateway, { ...submission, idempotencyKey, read: parseJobRequest });
}

/** The same for a body of another form. */
export async function submitAs(
  { req, res, endpoint }: Call,
  gateway: GatewayContext,
  { jobId, maxBytes, retentionMs, waitMs, idempotencyKey, read }: SubmissionAs,
): Promise<Submitted> {
  refuseEncoding(req.headers["content-encoding"]);
  const body = await readBody(req, res, maxBytes, gateway.bodies);
  let held = body.length;
  try {
    const request = read(body);
    // Before it is stored: a waiting worker gets it at once.
    gateway.traces?.jobSubmitted(jobId, endpoint, req.headers.traceparent?.toString());
    const job: NewJob = {
      id: jobId,
      endpointId: endpoint.id,
      input: request.input,
      isInputOwn: true,
      method: request.method,
      webhook: request.webhook,
      idempotencyKey,
      lowPriority: request.lowPriority,
      executionTimeoutMs: request.executionTimeoutMs ?? endpoint.executionTimeoutMs,
      ttlMs: request.ttlMs,
      retentionMs,
      ...(waitMs !== undefined && { isAwaited: true }),
    };
    let submitted: Submitted;
    if (waitMs !== undefined && gateway.queue.call !== undefined && held <= INLINE_BODY_MAX_BYTES) {
      // It is on its way: while its caller waits it is no body that arrives.
      gateway.bodies.give(held);
      held = 0;
      const { created, job: found } = await gateway.queue.call(job, waitMs, gateway.callers.watch(req, res));
      submitted = { id: found?.id ?? jobId, created, waited: { job: found } };
    } else {
      const { id, created, job: found, letGo } = await gateway.queue.enqueue(job);
      if (letGo) freeBytes(body);
      submitted = { id, created, ...(found !== undefined && { waited: { job: found } }) };
    }
    if (!submitted.created) gateway.traces?.jobDropped(jobId);
    return submitted;
  } catch (error) {
    gateway.traces?.jobDropped(jobId);
    throw error;
  } finally {
    gateway.bodies.give(held);
  }
}

function idempotencyKeyOf(header: string | string[] | undefined): string {
  const key = typeof header === "string" ? header : "";
  if (key.length <= IDEMPOTENCY_KEY_MAX_CHARS) return key;
  throw new SvcError("BAD_INPUT", `Idempotency-Key must have at most ${IDEMPOTENCY_KEY_MAX_CHARS} characters.`);
}

function refuseEncoding(encoding: string | undefined): void {
  if (encoding === undefined || encoding === "" || encoding.toLowerCase() === "identity") return;
  throw new SvcError("BAD_INPUT", `A body with Content-Encoding "${encoding}" cannot be read.`, {
    help: "Send the JSON as it is.",
  });
}
