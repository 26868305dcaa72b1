/**
 * The routes of workers that pull their jobs (docs/reference/pull-workers.md), below /v2/<endpoint>:
 *
 *   job-take/W  job-take-batch/W  job-stop/W  ping/W        job-stream/W/JOB  job-done/W/JOB
 *
 * Such a worker asks again at once whatever it is told, so nothing is answered at once without a reason: 204 when a
 * question's time is over, 429 (it waits then) while the platform ends. Results are taken until the last.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import type { Principal } from "../domain/api-key.ts";
import { SvcError } from "../domain/errors.ts";
import { PULL_JOBS_MAX, PULL_REFUSAL_DELAY_MS, PULL_RESULT_MAX_BYTES } from "../domain/limits.ts";
import type { PullCaller, PullCalls } from "../domain/pull.ts";
import { authenticate, secretOf } from "./authenticate.ts";
import { CallerGone, drain, readBody } from "./body.ts";
import type { GatewayContext } from "./context.ts";
import { MethodNotAllowed, sendError, sendJson, sendObject } from "./respond.ts";

export interface PullTarget {
  readonly endpointId: string;
  readonly route: PullRoute;
  readonly workerId: string;
  /** "" where the route names none. */
  readonly jobId: string;
  readonly query: URLSearchParams;
}

type Answer = (call: PullTarget, caller: PullCaller, pull: PullCalls, res: ServerResponse) => Promise<void>;

interface PullRoute {
  readonly name: string;
  readonly method: "GET" | "POST";
  readonly namesJob: boolean;
  /** Held open until there is something to say. */
  readonly isQuestion: boolean;
}

const ROUTES: readonly PullRoute[] = [
  { name: "job-take", method: "GET", namesJob: false, isQuestion: true },
  { name: "job-take-batch", method: "GET", namesJob: false, isQuestion: true },
  { name: "job-stop", method: "GET", namesJob: false, isQuestion: true },
  { name: "ping", method: "GET", namesJob: false, isQuestion: false },
  { name: "job-stream", method: "POST", namesJob: true, isQuestion: false },
  { name: "job-done", method: "POST", namesJob: true, isQuestion: false },
];

const PATH =
  /^\/v2\/([^/?]+)\/(job-take|job-take-batch|job-stop|ping|job-stream|job-done)\/([^/?]+)(?:\/([^/?]+))?(?:\?(.*))?$/;

/** Undefined: the request is none of theirs. */
export function findPull(url: string): PullTarget | undefined {
  const match = PATH.exec(url);
  if (match === null) return undefined;
  const [, endpointId, name, workerId, jobId = "", query = ""] = match;
  const route = ROUTES.find((each) => each.name === name)!;
  if (route.namesJob !== (jobId !== "")) return undefined;
  return { endpointId: endpointId!, route, workerId: workerId!, jobId, query: new URLSearchParams(query) };
}

/** Answers the worker, whatever happens; never rejects. */
export async function answerPull(
  req: IncomingMessage,
  res: ServerResponse,
  call: PullTarget,
  pull: PullCalls,
  gateway: GatewayContext,
): Promise<void> {
  try {
    if (req.method !== call.route.method) throw new MethodNotAllowed(`/${call.route.name}`, [call.route.method]);
    if (gateway.closing && call.route.isQuestion) return later(res);
    await requireOwn(req, call, gateway);
    const caller: PullCaller = {
      workerId: call.workerId,
      endpointId: call.endpointId,
      via: req.socket,
      signal: gateway.lookers.watch(req, res),
      answered: new Promise((resolve) => {
        res.once("finish", () => resolve(true)).once("close", () => resolve(false));
      }),
    };
    if (call.route.method === "POST") await report(req, res, call, caller, pull, gateway);
    else await ANSWERS[call.route.name]!(call, caller, pull, res);
    if (!res.headersSent && gateway.closing) later(res);
    else if (!res.headersSent) res.writeHead(204).end();
  } catch (error) {
    if (error instanceof CallerGone) return;
    if (!(error instanceof SvcError)) {
      gateway.log.error("a worker's request failed inside the gateway", { route: call.route.name, error });
    }
    if (call.route.isQuestion) await delay(PULL_REFUSAL_DELAY_MS);
    sendError(req, res, error, { closing: gateway.closing });
  }
}

/** A worker's token opens what is its own. */
async function requireOwn(req: IncomingMessage, call: PullTarget, gateway: GatewayContext): Promise<void> {
  const principal: Principal = await authenticate(secretOf(req), gateway.keys);
  const isOwn = principal.kind === "worker" && principal.id === call.workerId;
  if (isOwn && principal.ofEndpoint === call.endpointId) return;
  throw new SvcError("FORBIDDEN", `Only the worker ${call.workerId.slice(0, 80)} itself may ask for this.`, {
    help: "A worker sends its own token, which it was started with.",
  });
}

const ANSWERS: Readonly<Record<string, Answer>> = {
  "job-take": async ({ query }, caller, pull, res) => {
    const [job] = await pull.take(caller, 1, holdsNone(query));
    if (job !== undefined) sendJson(res, jobJson(job));
  },
  "job-take-batch": async ({ query }, caller, pull, res) => {
    const asked = Number(query.get("batch_size") ?? 1);
    if (!Number.isInteger(asked) || asked < 1) {
      throw new SvcError("BAD_INPUT", 'The query parameter "batch_size" must be a whole number from 1 up.');
    }
    const jobs = await pull.take(caller, Math.min(asked, PULL_JOBS_MAX), holdsNone(query));
    if (jobs.length === 0) return;
    const parts = jobs.flatMap((job, index) => [Buffer.from(index === 0 ? "[" : ","), jobJson(job)]);
    sendJson(res, Buffer.concat([...parts, Buffer.from("]")]));
  },
  "job-stop": async (_call, caller, pull, res) => {
    const jobsToStop = await pull.stops(caller);
    if (jobsToStop.length > 0) sendObject(res, { jobsToStop });
  },
  ping: async ({ query }, caller, pull, res) => {
    if (query.get("status") === "unhealthy") {
      await pull.unhealthy(caller, query.get("check") ?? "", query.get("reason") ?? "");
    } else {
      const listed = query.getAll("job_id").flatMap((ids) => ids.split(","));
      await pull.ping(caller, listed.filter((id) => id !== "").slice(0, PULL_JOBS_MAX));
    }
    sendObject(res, {});
  },
};

async function report(
  req: IncomingMessage,
  res: ServerResponse,
  { route, jobId }: PullTarget,
  caller: PullCaller,
  pull: PullCalls,
  gateway: GatewayContext,
): Promise<void> {
  let body: Buffer;
  try {
    body = await readBody(req, res, PULL_RESULT_MAX_BYTES, gateway.bodies);
  } catch (error) {
    if (!(error instanceof SvcError) || error.code !== "TOO_LARGE") throw error;
    // It would be sent three times, and then nobody would know what became of the job.
    await pull.tooLarge(caller, jobId, PULL_RESULT_MAX_BYTES);
    await new Promise<void>((resolve) => drain(req, resolve));
    return sendObject(res, {});
  }
  try {
    await (route.name === "job-done" ? pull.done(caller, jobId, body) : pull.stream(caller, jobId, body));
  } finally {
    gateway.bodies.give(body.length);
  }
  sendObject(res, {});
}

function holdsNone(query: URLSearchParams): boolean {
  return query.get("job_in_progress") === "0";
}

function jobJson({ id, input }: { readonly id: string; readonly input: Uint8Array }): Buffer {
  return Buffer.concat([Buffer.from(`{"id":${JSON.stringify(id)},"input":`), input, Buffer.from("}")]);
}

function later(res: ServerResponse): void {
  res.writeHead(429, { "Content-Length": "0", "Retry-After": "5" }).end();
}
