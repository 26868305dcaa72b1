/**
 * Calls of OpenAI clients at queue-based endpoints, /v2/<endpoint>/openai/v1/…: each is a job whose input is
 * `{"openai_route": "/v1/…", "openai_input": <body>}`. A caller that leaves cancels it.
 *
 *   whole    job ─▶ final ─▶ the one value that it gave back is the JSON body
 *   stream   job ─▶ first chunk, or a while ─▶ head ─▶ chunks as server-sent events ─▶ [DONE], or an event with the error
 */
import { SvcError } from "../domain/errors.ts";
import { isFinal, runsyncJobId } from "../domain/job.ts";
import { RUNSYNC_BODY_MAX_BYTES, WAIT_MAX_MS } from "../domain/limits.ts";
import { hasBody } from "../lib/request-body.ts";
import type { Job } from "../queue/queue.ts";
import { leftBehind } from "./caller.ts";
import type { Call, GatewayContext } from "./context.ts";
import { parseOpenAiRequest } from "./job-request.ts";
import { CALL, GET_OR_POST, type JobRoute } from "./job-route.ts";
import { asFits, whole } from "./large-answers.ts";
import { deleted, failureOf, ownFailureOf, sendOwn, wholeAnswer } from "./openai-answer.ts";
import { relayEvents } from "./openai-stream.ts";
import { MethodNotAllowed, sendJson } from "./respond.ts";
import { jobTiming, serverTiming } from "./server-timing.ts";
import { submitAs } from "./submit.ts";
import { OPENAI_ROUTE } from "./target.ts";

/** Path behind /openai → its method. */
const ROUTES: ReadonlyMap<string, string> = new Map([
  ["/v1/models", "GET"],
  ["/v1/chat/completions", "POST"],
  ["/v1/completions", "POST"],
  ["/v1/embeddings", "POST"],
]);

export const openai: JobRoute = {
  name: OPENAI_ROUTE,
  methods: GET_OR_POST,
  scopes: CALL,
  rate: "runsync",
  namesJob: false,
  async handle(call, gateway) {
    const { req, res, path } = call;
    const method = ROUTES.get(path);
    if (method === undefined) throw unknownRoute(call);
    if (req.method !== method) throw new MethodNotAllowed(path, [method]);
    let streams = false;
    const id = runsyncJobId(gateway.owners.mark(gateway.newId(), call));
    await submitAs(call, gateway, {
      jobId: id,
      maxBytes: RUNSYNC_BODY_MAX_BYTES,
      retentionMs: gateway.retention.runsyncMs,
      idempotencyKey: "",
      read: (raw) => {
        const request = parseOpenAiRequest(raw, path, method === "POST" || hasBody(req));
        ({ streams } = request);
        return request;
      },
    });
    const signal = gateway.callers.watch(req, res);
    try {
      res.setHeader("X-Request-Id", id);
      if (streams) await relayEvents(res, gateway, id, signal);
      else await answerWhole(call, gateway, await whole(gateway, res, await finalJob(call, gateway, id, signal)));
    } finally {
      // Of a job that is final already this changes nothing.
      await gateway.queue.cancel(id).catch((error) => gateway.log.error("a job was not cancelled", { job: id, error }));
    }
  },
};

/** Throws CallerGone, SHUTTING_DOWN, and JOB_NOT_FOUND when it was deleted meanwhile. */
async function finalJob({ res }: Call, gateway: GatewayContext, id: string, signal: AbortSignal): Promise<Job> {
  for (;;) {
    const job = await gateway.queue.wait(id, WAIT_MAX_MS, signal);
    if (job !== undefined && isFinal(job.state)) return asFits(gateway, res, job);
    if (signal.aborted) throw leftBehind(gateway);
    if (job === undefined) throw deleted(id);
  }
}

async function answerWhole({ res }: Call, gateway: GatewayContext, job: Job): Promise<void> {
  const own = ownFailureOf(job);
  if (own !== undefined) return sendOwn(res, own);
  if (job.state !== "COMPLETED") throw failureOf(job);
  const answer = await wholeAnswer(gateway, res, job);
  if (!Buffer.isBuffer(answer)) return sendOwn(res, answer);
  const timing = jobTiming(job, gateway.now(), gateway.forwarder.bootOf?.(job.workerId));
  sendJson(res, answer, ["Server-Timing", serverTiming(timing)]);
}

function unknownRoute({ path, endpoint }: Call): SvcError {
  const routes = [...ROUTES].map(([route, method]) => `${method} ${route}`);
  return new SvcError("NOT_FOUND", `There is no OpenAI route ${path.slice(0, 200)}.`, {
    help: `Below /v2/${endpoint.id}/openai there are ${routes.join(", ")}.`,
  });
}
