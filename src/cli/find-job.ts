/** A job's id does not say its endpoint: it is asked for at each that could have it. */
import { keyError } from "../client/answer-error.ts";
import { EndpointClient, type JobRecord } from "../client/gateway.ts";
import type { EndpointRecord } from "../client/records.ts";
import { type Answer, fetchText } from "../client/request.ts";
import { SvcError } from "../domain/errors.ts";
import { type Connection, requirePlatform } from "./connect.ts";
import type { CliContext } from "./context.ts";
import { detectedApp } from "./project-settings.ts";
import { endpointNamed } from "./select-endpoints.ts";

const ASKED_AT_ONCE = 8;

export interface FoundJob {
  readonly endpoint: EndpointRecord;
  readonly client: EndpointClient;
  /** With its input. */
  readonly job: JobRecord;
}

/** Throws JOB_NOT_FOUND, or ENDPOINT_NOT_FOUND for `endpointName`. */
export async function findJob(context: CliContext, jobId: string, endpointName?: string): Promise<FoundJob> {
  const connection = await requirePlatform(context);
  const endpoints = (await connection.controlPlane.endpoints()).filter(({ kind }) => kind === "queue");
  const candidates =
    endpointName === undefined ? endpoints : [endpointNamed(endpoints, endpointName, detectedApp(context.cwd))];
  for (let at = 0; at < candidates.length; at += ASKED_AT_ONCE) {
    const some = candidates.slice(at, at + ASKED_AT_ONCE);
    const found = await Promise.all(some.map((endpoint) => jobAt(connection, endpoint, jobId)));
    const job = found.find((one) => one !== undefined);
    if (job !== undefined) return job;
  }
  const who = endpointName === undefined ? "No endpoint has a" : `Endpoint "${endpointName}" has no`;
  throw new SvcError("JOB_NOT_FOUND", `${who} job "${jobId}".`, {
    help: "Results are kept for a limited time. svc jobs ENDPOINT_NAME lists what there is.",
  });
}

async function jobAt({ apiKey }: Connection, endpoint: EndpointRecord, jobId: string): Promise<FoundJob | undefined> {
  const client = endpointClient(endpoint.url, apiKey);
  try {
    return { endpoint, client, job: await client.inspect(jobId) };
  } catch (error) {
    // The endpoint may have been removed meanwhile.
    if (error instanceof SvcError && ["JOB_NOT_FOUND", "ENDPOINT_NOT_FOUND"].includes(error.code)) return undefined;
    throw error;
  }
}

/** The job routes of an endpoint, for a command: a refused key says how to give another. */
export function endpointClient(
  url: string,
  apiKey: string | undefined,
  onAnswer: (answer: Answer) => void = () => {},
): EndpointClient {
  return new EndpointClient(url, apiKey, async (platform, address, init) => {
    const answer = await fetchText(platform, address, init);
    onAnswer(answer);
    if (answer.status === 401) throw keyError(platform);
    return answer;
  });
}
