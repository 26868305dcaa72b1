/** A job's id, or the beginning of one, does not say its endpoint: it is asked for at each that could have it. */
import { keyError } from "../client/answer-error.ts";
import { EndpointClient, type JobRecord } from "../client/gateway.ts";
import type { EndpointRecord } from "../client/records.ts";
import { type Answer, fetchText } from "../client/request.ts";
import { patient, type Send } from "../client/send.ts";
import { SvcError } from "../domain/errors.ts";
import { CLIENT_PATIENCE_MS } from "../domain/limits.ts";
import { type Connection, requirePlatform } from "./connect.ts";
import type { CliContext } from "./context.ts";
import { detectedApp } from "./project-settings.ts";
import { endpointNamed } from "./select-endpoints.ts";

const ASKED_AT_ONCE = 8;

export interface FoundJob {
  readonly endpoint: EndpointRecord;
  readonly client: EndpointClient;
  /** With its input, unless it is expired. */
  readonly job: JobRecord;
}

/** Throws JOB_NOT_FOUND, ENDPOINT_NOT_FOUND for `endpointName`, or USAGE for the beginning of several ids, which it lists. */
export async function findJob(context: CliContext, jobId: string, endpointName?: string): Promise<FoundJob> {
  const connection = await requirePlatform(context);
  const endpoints = (await connection.controlPlane.endpoints()).filter(({ kind }) => kind === "queue");
  const candidates =
    endpointName === undefined ? endpoints : [endpointNamed(endpoints, endpointName, detectedApp(context.cwd))];
  const isWhole = WHOLE_ID.test(jobId);
  const ask = async (find: typeof jobAt) => {
    const found: FoundJob[] = [];
    for (let at = 0; at < candidates.length; at += ASKED_AT_ONCE) {
      const some = candidates.slice(at, at + ASKED_AT_ONCE);
      found.push(...(await Promise.all(some.map((endpoint) => find(connection, endpoint, jobId)))).flat());
      if (isWhole && found.length > 0) break;
    }
    return found;
  };
  const exact = isWhole ? await ask(jobAt) : [];
  if (exact.length > 0) return exact[0]!;
  const found = await ask(jobsBeginning);
  if (found.length > 1) throw ambiguous(jobId, found);
  const [only] = found;
  if (only !== undefined) return only.job.expired ? only : { ...only, job: await only.client.inspect(only.job.id) };
  const who = endpointName === undefined ? "No endpoint has a" : `Endpoint "${endpointName}" has no`;
  throw new SvcError("JOB_NOT_FOUND", `${who} job "${jobId}".`, {
    help: "Results are kept for a limited time. svc jobs ENDPOINT_NAME lists what there is.",
  });
}

const WHOLE_ID = /-l\d+$/;
const LISTED_MAX = 10;

async function jobAt({ apiKey }: Connection, endpoint: EndpointRecord, jobId: string): Promise<FoundJob[]> {
  const client = endpointClient(endpoint.url, apiKey);
  const job = await unlessGone(client.inspect(jobId));
  return job === undefined ? [] : [{ endpoint, client, job }];
}

async function jobsBeginning({ apiKey }: Connection, endpoint: EndpointRecord, start: string): Promise<FoundJob[]> {
  const client = endpointClient(endpoint.url, apiKey);
  const id = start.replace(/^sync-/, "");
  if (!/^[\w-]{1,80}$/.test(id)) return [];
  const page = await unlessGone(client.jobs({ id, limit: LISTED_MAX, expired: true }));
  // A platform of an earlier version lists all.
  const jobs = (page?.requests ?? []).filter((job) => job.id.replace(/^sync-/, "").startsWith(id));
  return jobs.map((job) => ({ endpoint, client, job }));
}

/** Undefined when the job, or its endpoint, is not there, or was removed meanwhile. */
export async function unlessGone<T>(asked: Promise<T>): Promise<T | undefined> {
  try {
    return await asked;
  } catch (error) {
    if (error instanceof SvcError && ["JOB_NOT_FOUND", "ENDPOINT_NOT_FOUND"].includes(error.code)) return undefined;
    throw error;
  }
}

function ambiguous(start: string, found: readonly FoundJob[]): SvcError {
  const list = found.slice(0, LISTED_MAX).map(({ job, endpoint }) => `${job.id}  ${endpoint.name}  ${job.status}`);
  return new SvcError("USAGE", `"${start}" begins the ids of several jobs.`, {
    help: `Give more of it:\n${list.join("\n")}`,
  });
}

export interface ClientOptions {
  readonly onAnswer?: (answer: Answer) => void;
  /** Reads are asked again for a while when the platform is away, and this is called first. */
  readonly onAway?: () => void;
}

/** The job routes of an endpoint, for a command: a refused key says how to give another. */
export function endpointClient(
  url: string,
  apiKey: string | undefined,
  { onAnswer = () => {}, onAway }: ClientOptions = {},
): EndpointClient {
  const once: Send = async (platform, address, init) => {
    const answer = await fetchText(platform, address, init);
    onAnswer(answer);
    return answer;
  };
  const again = onAway === undefined ? once : patient(tellingOf(once, onAway), CLIENT_PATIENCE_MS, true);
  return new EndpointClient(url, apiKey, async (platform, address, init) => {
    const answer = await (init.method === "GET" ? again : once)(platform, address, init);
    if (answer.status === 401) throw keyError(platform);
    return answer;
  });
}

/** Once, until the platform has answered again. */
function tellingOf(send: Send, onAway: () => void): Send {
  let isAway = false;
  return async (...asked) => {
    const answer = await send(...asked).catch((error: unknown) => error as SvcError);
    const wasAway = isAway;
    isAway = answer instanceof Error || answer.status === 503;
    if (isAway && !wasAway && !asked[2].signal?.aborted) onAway();
    if (answer instanceof Error) throw answer;
    return answer;
  };
}
