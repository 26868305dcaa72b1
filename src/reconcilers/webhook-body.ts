import { WEBHOOK_BODY_MAX_BYTES } from "../domain/limits.ts";
import type { Job } from "../queue/queue.ts";

/** JSON of the job object, without its output when `withOutput` is false. */
export type JobJson = (job: Job, now: number, withOutput: boolean) => Buffer;

/**
 * The job object with `input` and `webhook`. What would make it larger than WEBHOOK_BODY_MAX_BYTES is left out and named in
 * `omitted`: the input first, then the output.
 */
export function webhookBody(job: Job, input: Uint8Array | undefined, now: number, jobJson: JobJson): Buffer {
  const inputBytes = input?.length ?? 0;
  const outputBytes = job.output?.length ?? 0;
  const withInput = inputBytes + outputBytes <= WEBHOOK_BODY_MAX_BYTES;
  const withOutput = withInput || outputBytes <= WEBHOOK_BODY_MAX_BYTES;
  const omitted = [...(withInput ? [] : ["input"]), ...(withOutput ? [] : ["output"])];
  const left = omitted.length > 0 ? `,"omitted":${JSON.stringify(omitted)}` : "";
  return Buffer.concat([
    jobJson(job, now, withOutput).subarray(0, -1),
    ...(withInput && input !== undefined ? [Buffer.from(',"input":'), input] : []),
    Buffer.from(`${left},"webhook":${JSON.stringify(job.webhook)}}`),
  ]);
}
