import type { EndpointClient, JobPage, JobRecord } from "../../client/gateway.ts";
import { SvcError } from "../../domain/errors.ts";
import { failureLine, failureOf, JOB_STATES, type JobState, shortJobId } from "../../domain/job.ts";
import { REQUESTS_PAGE_SIZE } from "../../domain/limits.ts";
import { listAllJobs } from "../all-jobs.ts";
import {
  appFlag,
  command,
  endpointParameter,
  envFlag,
  group,
  jsonFlag,
  pastTime,
  switchFlag,
  valueFlag,
  wholeNumber,
} from "../command.ts";
import { requirePlatform } from "../connect.ts";
import { endpointClient, findJob } from "../find-job.ts";
import { dateTime, formatAge, formatDuration } from "../format.ts";
import { withoutTags } from "../plain-value.ts";
import { detectedApp } from "../project-settings.ts";
import { endpointNamed, inScope, placeOf } from "../select-endpoints.ts";
import type { Terminal } from "../terminal.ts";
import { errorsCommand } from "./errors.ts";

const LIMIT_DEFAULT = 20;
const LIMIT_MAX = 10_000;
const ERROR_CHARS = 60;
const WIDE = Number.POSITIVE_INFINITY;

const listJobs = command({
  brief: "List jobs, newest first",
  text: "Lists the jobs of an endpoint, or of all, newest first.",
  examples: [
    ["svc jobs", "The last 20 jobs of all endpoints"],
    ["svc jobs hello --failed", "The dead letters of one"],
    ["svc jobs --since 1d --error KeyError", "What failed so in the last day"],
    ["svc jobs --id 0190b2", "Those whose ids begin so"],
    ["svc jobs hello --limit 1000 --json", "Many, for programs"],
  ],
  flags: {
    state: valueFlag("STATE", `Only jobs in this state: ${JOB_STATES.join(", ")}`, jobState),
    status: { ...valueFlag("STATE", "The same as --state", jobState), hidden: true },
    since: valueFlag("TIME", "Only jobs submitted since then: 10m, 2h or 1d ago, 14:30, 2026-11-22T14:30", pastTime),
    error: valueFlag("TEXT", "Only failed jobs with this text in their error, in whatever case"),
    id: valueFlag("START", "Only jobs whose ids begin so"),
    failed: switchFlag("The dead letters: the same as --state FAILED"),
    limit: valueFlag("N", `At most so many; default: ${LIMIT_DEFAULT}`, wholeNumber(1, LIMIT_MAX)),
    app: appFlag,
    env: envFlag,
    wide: switchFlag("Whole ids and errors, and the worker that ran each"),
    json: jsonFlag,
  },
  aliases: { n: "limit", a: "app", e: "env" },
  parameters: [{ ...endpointParameter("Endpoint; default: all"), optional: true }],
  async run(flags, name?: string) {
    const { terminal } = this;
    const connection = await requirePlatform(this);
    const status = wantedStatus(flags);
    const limit = flags.limit ?? LIMIT_DEFAULT;
    const { since: from, error, id, app, env: environment, wide = false, json = false } = flags;
    const scope = name === undefined ? [] : inScope(await connection.controlPlane.endpoints(), flags);
    const endpoint = name === undefined ? undefined : endpointNamed(scope, name, detectedApp(this.cwd));
    if (endpoint === undefined || [from, error, id].some((one) => one !== undefined)) {
      const place = endpoint === undefined ? { app, environment } : { endpoint: endpoint.id };
      const filter = { ...place, from, error, id, states: status && [status] };
      const stateText = (state: JobState) => statusText(terminal, state);
      return listAllJobs(terminal, connection, filter, { limit, wide, json, stateText });
    }
    if (endpoint.kind !== "queue") {
      throw new SvcError("WRONG_ENDPOINT_KIND", `Endpoint "${endpoint.name}" is load-balanced and has no jobs.`);
    }
    const { jobs, more, keptMs } = await newest(endpointClient(endpoint.url, connection.apiKey), status, limit);
    if (flags.json) return terminal.json(jobs);
    if (jobs.length === 0) {
      return terminal.note(`${endpoint.name} (${placeOf(endpoint)}) has no ${status ?? ""} jobs.`.replace("  ", " "));
    }
    const whole = wide ? "all" : ["JOB", "STATUS", "AGE"];
    await terminal.table(
      ["JOB", "STATUS", "AGE", ...(wide ? ["SUBMITTED"] : []), "WAITED", "RAN", ...(wide ? ["WORKER"] : []), "ERROR"],
      jobs.map((job) => [
        wide ? job.id : shortJobId(job.id),
        statusText(terminal, job.status) + (job.attempts === undefined ? "" : ` (attempt ${job.attempts})`),
        job.createdAt === undefined ? "-" : formatAge(Date.now() - job.createdAt),
        ...(wide ? [job.createdAt === undefined ? "-" : dateTime(job.createdAt)] : []),
        formatDuration(job.delayTime ?? 0),
        formatDuration(job.executionTime ?? 0),
        ...(wide ? [job.workerId || "-"] : []),
        job.expired ? terminal.colors.dim("result not kept") : errorLine(job, wide ? WIDE : ERROR_CHARS),
      ]),
      whole,
    );
    if (keptMs !== undefined) terminal.note(`\n${keptText(keptMs)}`);
    if (more) terminal.note(`There are more; --limit ${limit * 10} shows them.`);
  },
});

const showJob = command({
  ...aboutOneJob("show", "Show a job with its input, output and error"),
  async run(flags, jobId) {
    const { terminal } = this;
    const { endpoint, job } = await findJob(this, jobId, flags.endpoint);
    if (flags.json) return terminal.json(job);
    const rows: [label: string, value: string][] = [
      ["job", job.id],
      ["endpoint", `${endpoint.name} (${placeOf(endpoint)})`],
      ["status", statusText(terminal, job.status)],
      ["submitted", submitted(job.createdAt)],
      ["waited", formatDuration(job.delayTime ?? 0)],
      ["ran", formatDuration(job.executionTime ?? 0)],
      ["worker", job.workerId || "-"],
    ];
    if (job.retries !== undefined) rows.push(["retries", `${job.retries} after a worker was lost`]);
    if (job.attempts !== undefined) rows.push(["attempts", attemptsText(job)]);
    if (job.expired) rows.push(["result", "not kept any more, and neither is the input"]);
    if (job.error !== undefined) rows.push(["error", errorText(job.error)]);
    for (const label of ["input", "output"] as const) {
      if (job[label] !== undefined) rows.push([label, JSON.stringify(withoutTags(job[label]), null, 2)]);
    }
    for (const [label, value] of rows) terminal.out(label.padEnd(10) + value.replaceAll("\n", `\n${" ".repeat(10)}`));
  },
});

const printOutput = command({
  ...aboutOneJob("output", "Print a job's output"),
  async run(flags, jobId) {
    const { job } = await findJob(this, jobId, flags.endpoint);
    if (job.expired) throw notKept(job);
    if (job.status === "COMPLETED") return this.terminal.json(flags.json ? job : (job.output ?? null));
    const reason = job.error === undefined ? "" : `: ${errorLine(job)}`;
    throw new SvcError("CONFLICT", `The job has no output: it is ${job.status}${reason}.`, {
      help: `svc jobs show ${job.id}`,
    });
  },
});

const retryJob = command({
  ...aboutOneJob("retry", "Put a failed or timed-out job back in the queue"),
  async run(flags, jobId) {
    const { client, job: found } = await findJob(this, jobId, flags.endpoint);
    if (found.expired) throw notKept(found);
    const job = await client.retry(found.id);
    if (flags.json) return this.terminal.json(job);
    this.terminal.out(`${job.id} is back in the queue.`);
  },
});

const cancelJob = command({
  ...aboutOneJob("cancel", "Cancel a job that waits or runs"),
  async run(flags, jobId) {
    const { client, job: before } = await findJob(this, jobId, flags.endpoint);
    const job = before.expired ? before : await client.cancel(before.id);
    if (flags.json) return this.terminal.json(job);
    if (job.status === "CANCELLED" && before.status !== "CANCELLED") this.terminal.out(`${job.id} is cancelled.`);
    else this.terminal.out(`${job.id} was ${job.status} already.`);
  },
});

export const jobsCommands = group(
  "Look at jobs, retry and cancel them",
  { list: listJobs, errors: errorsCommand, show: showJob, output: printOutput, retry: retryJob, cancel: cancelJob },
  {
    text: "Looks at the jobs of queue-based endpoints.",
    examples: [
      ["svc jobs", "The last 20 jobs of all endpoints"],
      ["svc jobs hello --failed", "The dead letters of one"],
      ["svc jobs errors", "What fails, grouped by error and place"],
      ["svc jobs show JOB_ID", "One job with its input, output and error"],
      ["svc jobs retry JOB_ID", "Run a failed job again"],
    ],
    defaultCommand: "list",
  },
);

function aboutOneJob(name: string, brief: string) {
  return {
    brief,
    text: `${brief}.`,
    examples: [[`svc jobs ${name} JOB_ID`, "svc jobs ENDPOINT_NAME lists the ids"]],
    flags: { endpoint: valueFlag("NAME", "Endpoint of the job; default: look in all of them"), json: jsonFlag },
    parameters: [{ placeholder: "JOB_ID", brief: "Its id, or the beginning that only it has" }],
  } as const;
}

function jobState(text: string): JobState {
  const state = JOB_STATES.find((known) => known === text.toUpperCase());
  if (state === undefined) throw new Error(`one of ${JOB_STATES.join(", ")} is needed`);
  return state;
}

function wantedStatus(flags: { readonly state?: JobState; readonly status?: JobState; readonly failed?: boolean }) {
  const state = flags.state ?? flags.status;
  if (!flags.failed) return state;
  if (state === undefined || state === "FAILED") return "FAILED";
  throw new SvcError("USAGE", `--failed lists jobs that are FAILED, --state ${state} others: give one of the two.`);
}

async function newest(client: EndpointClient, status: JobState | undefined, limit: number) {
  const jobs: JobRecord[] = [];
  let keptMs: JobPage["keptMs"];
  let before: string | undefined;
  do {
    const pageSize = Math.min(limit - jobs.length, REQUESTS_PAGE_SIZE);
    const page = await client.jobs({ status, limit: pageSize, before, expired: true });
    jobs.push(...page.requests);
    keptMs = page.keptMs;
    before = page.next;
  } while (before !== undefined && jobs.length < limit);
  return { jobs, more: before !== undefined, keptMs };
}

function statusText(terminal: Terminal, status: JobState): string {
  const { green, yellow, red, dim } = terminal.colors;
  const paint = {
    COMPLETED: green,
    IN_PROGRESS: yellow,
    IN_QUEUE: yellow,
    CANCELLED: dim,
    FAILED: red,
    TIMED_OUT: red,
  };
  return paint[status](status);
}

/** "2, the next in 3s" */
function attemptsText({ attempts = 1, nextAttemptAt }: JobRecord): string {
  if (nextAttemptAt === undefined) return String(attempts);
  return `${attempts}, the next in ${formatDuration(Math.max(0, nextAttemptAt - Date.now()))}`;
}

function submitted(at: number | undefined): string {
  return at === undefined ? "-" : `${dateTime(at)} (${formatAge(Date.now() - at)} ago)`;
}

function notKept({ id, status }: JobRecord): SvcError {
  return new SvcError("JOB_NOT_FOUND", `The job ended ${status}; its input and result are not kept any more.`, {
    help: `svc jobs show ${id} has its times. svc jobs ENDPOINT_NAME says how long results are kept.`,
  });
}

function keptText({ run, runsync, runsyncWait, failed, record }: NonNullable<JobPage["keptMs"]>): string {
  const [afterRun, afterRunsync, waited, ofFailed] = [run, runsync, runsyncWait, failed].map(formatAge);
  return `Results are kept ${afterRun} (/run), ${afterRunsync} (/runsync), ${waited} (/runsync?wait=); failed jobs ${ofFailed}.${
    record === undefined ? "" : ` The list keeps jobs for ${formatAge(record)} more.`
  }`;
}

/** A raised exception as Python would show it; any other error as it is. */
function errorText(error: string): string {
  const failure = failureOf(error);
  if (failure === undefined) return error;
  return `${failureLine(failure.error_type, failure.error_message)}\n${failure.error_traceback}`.trimEnd();
}

function errorLine({ error = "" }: JobRecord, charsMax = ERROR_CHARS): string {
  const failure = failureOf(error);
  const [line = ""] = (failure === undefined ? error : failureLine(failure.error_type, failure.error_message)).split(
    "\n",
  );
  return line.length > charsMax ? `${line.slice(0, charsMax - 1)}…` : line;
}
