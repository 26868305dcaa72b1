/** The job object callers see. The bytes of output and input are spliced in as they came. */
import type { Job } from "../queue/queue.ts";

const OUTPUT = ',"output":';
const END = Buffer.from("}");

/** `withOutput` false leaves the output out. `now`: milliseconds since the epoch, for times that still run. */
export function jobJson(job: Job, now: number, withOutput = true): Buffer {
  const output = withOutput ? job.output : null;
  const head = jobHead(job, now);
  if (output === null || output.length === 0) return Buffer.from(`${head}}`);
  const headBytes = Buffer.byteLength(head);
  const bytes = Buffer.allocUnsafe(headBytes + OUTPUT.length + output.length + 1);
  bytes.write(head, 0);
  bytes.write(OUTPUT, headBytes, "latin1");
  bytes.set(output, headBytes + OUTPUT.length);
  bytes[bytes.length - 1] = 0x7d;
  return bytes;
}

/** The same in parts: a large output is not copied. */
export function jobParts(job: Job, now: number): readonly Uint8Array[] {
  const head = jobHead(job, now);
  if (job.output === null || job.output.length === 0) return [Buffer.from(head), END];
  return [Buffer.from(head + OUTPUT), job.output, END];
}

/**
 * For what is signed, or stands beside other jobs: output that is no JSON, which only a hostile worker sends and which could pass itself
 * off as more keys of the object, is left out. It costs too much for every answer (docs/decisions/0011).
 */
export function checkedJobJson(job: Job, now: number, withOutput = true): Buffer {
  return jobJson(job, now, withOutput && job.output !== null && isJson(job.output));
}

function isJson(bytes: Uint8Array): boolean {
  try {
    JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString());
    return true;
  } catch {
    return false;
  }
}

/** The job object with one more key, the job's input. */
export function withInput(object: Buffer, input: Uint8Array): Buffer {
  return Buffer.concat([object.subarray(0, -1), Buffer.from(',"input":'), input, Buffer.from("}")]);
}

/** The job object with the time of its submission, milliseconds since the epoch. */
export function withCreatedAt(object: Buffer, { createdAt }: Job): Buffer {
  return Buffer.concat([object.subarray(0, -1), Buffer.from(`,"createdAt":${createdAt}}`)]);
}

/** The job object, saying that what the job was given and gave back is not known any more. */
export function withExpired(object: Buffer): Buffer {
  return Buffer.concat([object.subarray(0, -1), Buffer.from(',"expired":true}')]);
}

/** Everything but the output and the closing brace. */
function jobHead(job: Job, now: number): string {
  const waits = job.state === "IN_QUEUE";
  const startedAt = waits ? null : job.startedAt;
  const delayTime = startedAt !== null ? startedAt - job.createdAt : waits ? now - job.createdAt : 0;
  const executionTime = startedAt !== null ? (job.finishedAt ?? now) - startedAt : 0;
  const error = job.error === "" ? "" : `,"error":${JSON.stringify(job.error)}`;
  const retries = job.retries > 0 ? `,"retries":${job.retries}` : "";
  const next = job.dueAt === null ? "" : `,"nextAttemptAt":${job.dueAt}`;
  const attempts = job.attempts > 0 ? `,"attempts":${attemptsBegun(job)}${next}` : "";
  return (
    `{"id":"${job.id}","status":"${job.state}","delayTime":${whole(delayTime)},"executionTime":${whole(executionTime)},` +
    `"workerId":${JSON.stringify(job.workerId)}${retries}${attempts}${error}`
  );
}

/** A job that failed for another reason than its function has no attempt of its own. */
function attemptsBegun({ attempts, startedAt }: Job): number {
  return startedAt === null ? attempts : attempts + 1;
}

function whole(milliseconds: number): number {
  return Math.max(0, Math.round(milliseconds));
}
