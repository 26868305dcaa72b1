/** Jobs of all endpoints that the key sees. */
import { errorKind } from "../../domain/error-kind.ts";
import { SvcError } from "../../domain/errors.ts";
import { errorLine, failureLine, failureOf, JOB_STATES, type JobState } from "../../domain/job.ts";
import { ERROR_KIND_MAX_CHARS } from "../../domain/limits.ts";
import type { FoundJob } from "../../queue/queue.ts";
import type { RequestContext } from "../context.ts";
import { type PageWish, readPage } from "../pages.ts";
import { type EndpointFilter, type VisibleEndpoint, visibleEndpoints } from "../visible-endpoints.ts";

interface JobFilter extends EndpointFilter {
  readonly id?: string | null;
  readonly states?: readonly string[] | null;
  readonly from?: number | null;
  readonly to?: number | null;
  readonly error?: string | null;
  readonly errorGroup?: string | null;
}

type JobsArguments = PageWish & { readonly filter?: JobFilter | null };

/** Throws BAD_INPUT, ENDPOINT_NOT_FOUND. */
export async function jobs({ filter, ...wish }: JobsArguments, context: RequestContext) {
  const { first, before } = readPage(wish);
  const { id, states, from, to, ...rest } = filter ?? {};
  const endpoints = await visibleEndpoints(rest, context);
  const { jobs, next } = await context.jobs.search({
    endpointIds: [...endpoints.keys()],
    states: states?.map(readState),
    idStart: id?.trim().toLowerCase() ?? "",
    from: from ?? undefined,
    to: to ?? undefined,
    error: errorTest(rest),
    limit: first,
    before,
  });
  const workers = await readyTimes(jobs, context);
  const shown = jobs.flatMap((job) => {
    const endpoint = endpoints.get(job.endpointId);
    return endpoint === undefined ? [] : [asRecord(job, endpoint, workers)];
  });
  return { jobs: shown, next: next === undefined ? null : String(next) };
}

function readState(text: string): JobState {
  const state = JOB_STATES.find((known) => known === text.toUpperCase());
  if (state !== undefined) return state;
  throw new SvcError("BAD_INPUT", `${JSON.stringify(text.slice(0, 100))} is no state of a job.`, {
    help: `There are ${JOB_STATES.join(", ")}.`,
  });
}

/** What is looked for stands in the type, the message or the traceback, in whatever case; it is plain text, no pattern. */
function errorTest({ error, errorGroup }: JobFilter): ((text: string, endpointId: string) => boolean) | undefined {
  if (!error && !errorGroup) return undefined;
  const wanted = error?.toLowerCase() ?? "";
  return (text, endpointId) => {
    if (errorGroup && errorKind(endpointId, text).key !== errorGroup) return false;
    return wanted === "" || errorText(text).toLowerCase().includes(wanted);
  };
}

function errorText(error: string): string {
  const failure = failureOf(error);
  if (failure === undefined) return error;
  return `${failureLine(failure.error_type, failure.error_message)}\n${failure.error_traceback}`;
}

/** When the workers that are still there were ready. */
async function readyTimes(jobs: readonly FoundJob[], { store }: RequestContext): Promise<Map<string, number | null>> {
  const wanted = new Set(jobs.map(({ workerId }) => workerId));
  if (wanted.size === 0) return new Map();
  const rows = await store.workers.list();
  return new Map(rows.filter(({ id }) => wanted.has(id)).map(({ id, readyAt }) => [id, readyAt]));
}

function asRecord(job: FoundJob, endpoint: VisibleEndpoint, ready: ReadonlyMap<string, number | null>) {
  const { id, state, createdAt, startedAt, finishedAt, workerId, attempts, expired, expiresAt } = job;
  const readyAt = ready.get(workerId);
  return {
    id,
    endpointId: endpoint.id,
    endpoint: endpoint.name,
    app: endpoint.app,
    environment: endpoint.environment,
    state,
    createdAt,
    startedAt,
    finishedAt,
    waitMs: startedAt === null ? null : Math.max(0, startedAt - createdAt),
    runMs: startedAt === null || finishedAt === null ? null : Math.max(0, finishedAt - startedAt),
    attempt: attempts + 1,
    workerId: workerId === "" ? null : workerId,
    coldStart: readyAt === undefined || startedAt === null ? null : readyAt === null || createdAt < readyAt,
    error: errorLine(job.error, ERROR_KIND_MAX_CHARS),
    errorType: job.error === "" ? "" : errorKind(endpoint.id, job.error).type,
    hasBodies: expired !== true,
    expiresAt,
  };
}
