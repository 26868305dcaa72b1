/** A job route as data; the pipeline does everything that is alike for all. */
import type { KeyScope } from "../domain/api-key.ts";
import { SvcError } from "../domain/errors.ts";
import type { Job } from "../queue/queue.ts";
import type { Call, GatewayContext } from "./context.ts";
import type { RateClass } from "./rate-limits.ts";

export interface JobRoute {
  /** As in the URL: /v2/<endpoint>/<name>. */
  readonly name: string;
  readonly methods: readonly string[];
  /** The key needs one of these. */
  readonly scopes: readonly KeyScope[];
  readonly rate?: RateClass;
  /** The URL goes on with a job's id. */
  readonly namesJob: boolean;
  handle(call: Call, gateway: GatewayContext): Promise<void>;
}

export const CALL: readonly KeyScope[] = ["invoke"];
/** Who may call may also look after the call. */
export const FOLLOW: readonly KeyScope[] = ["read", "invoke"];
export const LOOK: readonly KeyScope[] = ["read"];

export const GET_OR_POST = ["GET", "POST"] as const;

/** The job of the URL, without a large output. Throws JOB_NOT_FOUND, also when it belongs to another endpoint. */
export async function jobOf(call: Call, gateway: GatewayContext): Promise<Job> {
  const job = await gateway.queue.find(call.jobId, 0);
  if (job === undefined) refuseExpired(await gateway.queue.findExpired(call.jobId), call);
  return ownJob(job, call);
}

/** Throws JOB_NOT_FOUND for a job that is known to have ended. */
function refuseExpired(job: Job | undefined, { endpoint, jobId }: Call): void {
  if (job === undefined || job.endpointId !== endpoint.id) return;
  const ended = `${job.state} at ${new Date(job.finishedAt ?? job.createdAt).toISOString()}`;
  throw new SvcError(
    "JOB_NOT_FOUND",
    `The job "${jobId}" ended ${ended}; its input and result are not kept any more.`,
    {
      help: "Results are kept for a limited time: read them sooner, give a webhook, or have the platform keep them longer (SVC_RUN_RETENTION_S and others).",
    },
  );
}

export function ownJob(job: Job | undefined, call: Call): Job {
  if (job !== undefined && job.endpointId === call.endpoint.id) return job;
  throw new SvcError("JOB_NOT_FOUND", `Endpoint "${call.endpoint.name}" has no job "${call.jobId.slice(0, 80)}".`, {
    help: "It may have expired: results are kept for a limited time.",
  });
}
