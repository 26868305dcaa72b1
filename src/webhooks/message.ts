/** What a webhook says, and how a receiver knows that it comes from this platform; docs/reference/job-api.md tells it how to check. */

import { createHmac, randomBytes } from "node:crypto";
import { chmod, readFile, rename, writeFile } from "node:fs/promises";
import { WEBHOOK_BODY_MAX_BYTES } from "../domain/limits.ts";
import { temporaryName } from "../lib/write-file-atomic.ts";
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

const SECRET_BYTES = 32;

/** The value of X-Svc-Signature: HMAC-SHA256 of `<seconds>.<body>`, so that an old message cannot be sent again as new. */
export function signature(secret: string, nowMs: number, body: Uint8Array): string {
  const seconds = Math.floor(nowMs / 1000);
  const mac = createHmac("sha256", secret).update(`${seconds}.`).update(body).digest("hex");
  return `t=${seconds},v1=${mac}`;
}

/** The platform's secret from its file, which only the user may read; made at the first start. */
export async function openWebhookSecret(file: string): Promise<string> {
  try {
    const secret = (await readFile(file, "utf8")).trim();
    await chmod(file, 0o600);
    if (secret !== "") return secret;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "ENOENT") throw error;
  }
  const secret = `whsec_${randomBytes(SECRET_BYTES).toString("base64url")}`;
  const temporary = temporaryName(file);
  await writeFile(temporary, `${secret}\n`, { mode: 0o600, flush: true });
  await rename(temporary, file);
  return secret;
}
