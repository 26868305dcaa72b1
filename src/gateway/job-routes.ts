/** Every route below /v2/<endpoint> but the stream and the OpenAI route, in the order of the reference. */
import type { ServerResponse } from "node:http";
import { SvcError } from "../domain/errors.ts";
import { isFinal, JOB_STATES, type JobState, runJobId, runsyncJobId } from "../domain/job.ts";
import {
  EXPIRED_KEPT_MS,
  INLINE_BODY_MAX_BYTES,
  REQUESTS_PAGE_SIZE,
  RUN_BODY_MAX_BYTES,
  RUNSYNC_BODY_MAX_BYTES,
  WAIT_DEFAULT_MS,
  WAIT_MAX_MS,
  WAIT_MIN_MS,
} from "../domain/limits.ts";
import type { Job } from "../queue/queue.ts";
import type { Call, GatewayContext, Retention } from "./context.ts";
import { checkedJobJson, jobJson, jobParts, withCreatedAt, withExpired, withInput } from "./job-json.ts";
import { CALL, FOLLOW, GET_OR_POST, type JobRoute, jobOf, LOOK, ownJob } from "./job-route.ts";
import { asFits, inRoom, whole } from "./large-answers.ts";
import { openai } from "./openai.ts";
import { flag, wholeNumber } from "./query.ts";
import { sendJson, sendJsonParts, sendObject } from "./respond.ts";
import { jobTiming, serverTiming } from "./server-timing.ts";
import { stream } from "./stream.ts";
import { submit } from "./submit.ts";

/** Accepts a job and answers at once, whether or not a worker is there. */
const run: JobRoute = {
  name: "run",
  methods: ["POST"],
  scopes: CALL,
  rate: "run",
  namesJob: false,
  async handle(call, gateway) {
    const jobId = runJobId(gateway.owners.mark(gateway.newId(), call));
    const { runMs: retentionMs } = gateway.retention;
    const { id, created } = await submit(call, gateway, { jobId, maxBytes: RUN_BODY_MAX_BYTES, retentionMs });
    const status = created ? "IN_QUEUE" : ((await gateway.queue.find(id, 0))?.state ?? "IN_QUEUE");
    sendObject(call.res, { id, status });
  },
};

/** Accepts a job and answers when it is final, or with the job as it is when the wait is over. It goes on either way. */
const runsync: JobRoute = {
  name: "runsync",
  methods: ["POST"],
  scopes: CALL,
  rate: "runsync",
  namesJob: false,
  async handle(call, gateway) {
    sendFinal(call, gateway, await whole(gateway, call.res, await waitedFor(call, gateway)));
  },
};

/** Submits it and waits. Nothing else keeps an output that there is no room for. */
async function waitedFor(call: Call, gateway: GatewayContext): Promise<Job> {
  const { req, res } = call;
  const wait = wholeNumber(call.query, "wait", WAIT_MIN_MS, WAIT_MAX_MS);
  const waitMs = wait ?? WAIT_DEFAULT_MS;
  const { id, waited } = await submit(call, gateway, {
    jobId: runsyncJobId(gateway.owners.mark(gateway.newId(), call)),
    maxBytes: RUNSYNC_BODY_MAX_BYTES,
    retentionMs: wait === undefined ? gateway.retention.runsyncMs : gateway.retention.runsyncWaitMs,
    waitMs,
  });
  const found = waited ?? { job: await gateway.queue.wait(id, waitMs, gateway.callers.watch(req, res)) };
  return asFits(gateway, res, ownJob(found.job, { ...call, jobId: id }));
}

/** With what it took: the wait, the start of its worker, the run. */
function sendFinal({ res }: Call, { now, forwarder }: GatewayContext, job: Job): void {
  const at = now();
  const timing = jobTiming(job, at, forwarder.bootOf?.(job.workerId));
  sendJob(res, job, at, ["Server-Timing", serverTiming(timing)]);
}

function sendJob(res: ServerResponse, job: Job, at: number, headers: readonly string[] = []): void {
  if ((job.output?.length ?? 0) <= INLINE_BODY_MAX_BYTES) sendJson(res, jobJson(job, at), headers);
  else sendJsonParts(res, jobParts(job, at), headers, job.isOutputOwn ? job.output : undefined);
}

/** The job as it is now; with ?input=true its input and the time of its submission too. */
const status: JobRoute = {
  name: "status",
  methods: GET_OR_POST,
  scopes: FOLLOW,
  rate: "status",
  namesJob: true,
  async handle(call, gateway) {
    const { res } = call;
    const job = asFits(gateway, res, await jobOf(call, gateway));
    if (!flag(call.query, "input")) return sendJob(res, await whole(gateway, res, job), gateway.now());
    const input =
      (await gateway.queue.input(job.id, INLINE_BODY_MAX_BYTES)) ??
      (await gateway.answers.room(res, RUNSYNC_BODY_MAX_BYTES, () => gateway.queue.input(job.id)));
    const timed = withCreatedAt(jobJson(await whole(gateway, res, job), gateway.now()), job);
    sendJson(res, input === undefined ? timed : withInput(timed, input));
  },
};

/** The job as soon as it is final, or as it is when the wait is over. */
const statusSync: JobRoute = {
  name: "status-sync",
  methods: GET_OR_POST,
  scopes: FOLLOW,
  rate: "status",
  namesJob: true,
  async handle(call, gateway) {
    sendFinal(call, gateway, await whole(gateway, call.res, await looked(call, gateway)));
  },
};

/** The same of a job that is there. */
async function looked(call: Call, gateway: GatewayContext): Promise<Job> {
  const { req, res, jobId } = call;
  const wait = wholeNumber(call.query, "wait", WAIT_MIN_MS, WAIT_MAX_MS) ?? WAIT_DEFAULT_MS;
  let job = await jobOf(call, gateway);
  if (!isFinal(job.state)) {
    job = ownJob(await gateway.queue.wait(jobId, wait, gateway.lookers.watch(req, res)), call);
  }
  return asFits(gateway, res, job);
}

/** Ends a job that is not final; reaches a running one. A final job is answered as it is. */
const cancel: JobRoute = {
  name: "cancel",
  methods: ["POST"],
  scopes: CALL,
  rate: "cancel",
  namesJob: true,
  async handle(call, gateway) {
    await jobOf(call, gateway);
    gateway.owners.requireOwn(call);
    const job = ownJob(await gateway.queue.cancel(call.jobId), call);
    sendObject(call.res, { id: job.id, status: job.state });
  },
};

/** Puts a failed or timed-out job back in the queue with its id and input. */
const retry: JobRoute = {
  name: "retry",
  methods: ["POST"],
  scopes: CALL,
  rate: "run",
  namesJob: true,
  async handle(call, gateway) {
    await jobOf(call, gateway);
    gateway.owners.requireOwn(call);
    if (!(await gateway.queue.retry(call.jobId))) {
      const { state } = await jobOf(call, gateway);
      throw new SvcError("JOB_NOT_RETRYABLE", `The job is ${state}; only FAILED and TIMED_OUT jobs can be retried.`);
    }
    sendObject(call.res, { id: call.jobId, status: "IN_QUEUE" });
  },
};

/** Deletes the jobs that wait; running ones go on. */
const purgeQueue: JobRoute = {
  name: "purge-queue",
  methods: ["POST"],
  scopes: CALL,
  rate: "purge",
  namesJob: false,
  async handle(call, gateway) {
    if (call.principal.kind === "worker") {
      throw new SvcError("FORBIDDEN", "A worker's token cannot empty a queue.");
    }
    const removed = await gateway.queue.purge(call.endpoint.id);
    sendObject(call.res, { removed, status: "completed" });
  },
};

/** How many jobs and workers the endpoint has, by state. */
const health: JobRoute = {
  name: "health",
  methods: ["GET"],
  scopes: FOLLOW,
  namesJob: false,
  async handle(call, gateway) {
    const [jobs, workers] = await Promise.all([
      gateway.queue.counts(call.endpoint.id),
      gateway.workers.counts(call.endpoint.id),
    ]);
    const { completed, failed, inProgress, retried } = jobs;
    const inQueue = jobs.inQueue + jobs.delayed;
    const { idle, initializing, ready, running, throttled, unhealthy } = workers;
    sendObject(call.res, {
      jobs: { completed, failed, inProgress, inQueue, retried },
      workers: { idle, initializing, ready, running, throttled, unhealthy },
    });
  },
};

/**
 * The endpoint's jobs, newest first: ?limit, ?status, ?before=<job id>, ?id=<its beginning>, ?expired=true: also those that are not kept
 * any more. A full page carries `next`, the `before` of the one after it. Inputs and outputs above 64 KiB are left out: /status has them.
 */
const requests: JobRoute = {
  name: "requests",
  methods: ["GET"],
  scopes: LOOK,
  rate: "requests",
  namesJob: false,
  async handle(call, gateway) {
    const read = () => requestsPage(call, gateway);
    sendJson(call.res, await inRoom(gateway, call.res, read, ({ length }) => length));
  },
};

async function requestsPage(call: Call, gateway: GatewayContext): Promise<Buffer> {
  const limit = wholeNumber(call.query, "limit", 1, REQUESTS_PAGE_SIZE) ?? REQUESTS_PAGE_SIZE;
  const parameters = new URLSearchParams(call.query);
  const before = parameters.get("before") ?? undefined;
  const jobs = await gateway.queue.list(call.endpoint.id, {
    state: stateOf(parameters.get("status")),
    limit,
    before,
    idStart: idStartOf(parameters.get("id")),
    expired: flag(call.query, "expired"),
  });
  const now = gateway.now();
  const parts: Buffer[] = [];
  for (const [index, job] of jobs.entries()) {
    const bare = checkedJobJson(job, now, (job.output?.length ?? 0) <= INLINE_BODY_MAX_BYTES);
    const object = withCreatedAt(bare, job);
    parts.push(Buffer.from(index === 0 ? "" : ","));
    if (job.expired) {
      parts.push(withExpired(object));
      continue;
    }
    const input = await gateway.queue.input(job.id, INLINE_BODY_MAX_BYTES);
    parts.push(input === undefined ? object : withInput(object, input));
  }
  const last = jobs.at(-1);
  const next = jobs.length === limit && last !== undefined ? `,"next":${JSON.stringify(last.id)}` : "";
  const end = `]${next},"keptMs":${JSON.stringify(kept(gateway.retention))}}`;
  return Buffer.concat([Buffer.from('{"requests":['), ...parts, Buffer.from(end)]);
}

function kept({ runMs, runsyncMs, runsyncWaitMs, failedMs }: Retention): object {
  return { run: runMs, runsync: runsyncMs, runsyncWait: runsyncWaitMs, failed: failedMs, record: EXPIRED_KEPT_MS };
}

function idStartOf(text: string | null): string | undefined {
  if (text === null) return undefined;
  if (/^[\w-]{1,80}$/.test(text)) return text;
  throw new SvcError("BAD_INPUT", 'The query parameter "id" must be the beginning of a job\'s id.');
}

function stateOf(text: string | null): JobState | undefined {
  if (text === null) return undefined;
  const state = JOB_STATES.find((known) => known === text);
  if (state !== undefined) return state;
  throw new SvcError("BAD_INPUT", `The query parameter "status" must be one of ${JOB_STATES.join(", ")}.`);
}

export const JOB_ROUTES: ReadonlyMap<string, JobRoute> = new Map(
  [run, runsync, status, statusSync, stream, cancel, retry, purgeQueue, health, requests, openai].map((route) => [
    route.name,
    route,
  ]),
);
