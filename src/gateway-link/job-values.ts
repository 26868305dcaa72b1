/** Jobs as they travel on the link: their outputs and long errors stand in the body. */
import type { WorkerBoot } from "../domain/worker.ts";
import type { Job, NewJob } from "../queue/queue.ts";
import { cutParts } from "./protocol.ts";

export interface JobValue extends Omit<Job, "output" | "isOutputOwn"> {
  /** Bytes of the output in the body; -1 for none. */
  readonly outputBytes: number;
  /** Bytes of the error in the body, behind the output; then `error` is "". */
  readonly errorBytes?: number;
  /** Of its worker, when that was started for it. */
  readonly boot?: WorkerBoot | undefined;
}

export type NewJobValue = Omit<NewJob, "input" | "isInputOwn">;

const ERROR_IN_HEAD_MAX_CHARS = 1_000;

/** `withOutput` false leaves the output out. */
export function jobValue(
  job: Job,
  boot?: WorkerBoot,
  withOutput = true,
): { readonly value: JobValue; readonly parts: readonly Uint8Array[] } {
  const { output: own, isOutputOwn: _, error, ...rest } = job;
  const output = withOutput ? own : null;
  const isLong = error.length > ERROR_IN_HEAD_MAX_CHARS;
  const errorPart = isLong ? Buffer.from(error) : undefined;
  return {
    value: {
      ...rest,
      error: isLong ? "" : error,
      outputBytes: output === null ? -1 : output.length,
      ...(errorPart !== undefined && { errorBytes: errorPart.length }),
      ...(boot !== undefined && { boot }),
    },
    parts: [...(output === null ? [] : [output]), ...(errorPart === undefined ? [] : [errorPart])],
  };
}

/** The lengths of the parts of a job's body. */
export function jobParts({ outputBytes, errorBytes = 0 }: JobValue): [output: number, error: number] {
  return [Math.max(0, outputBytes), errorBytes];
}

export function jobOf(value: JobValue, body: Buffer): Job {
  const { outputBytes, errorBytes, boot: _boot, ...rest } = value;
  if (outputBytes === body.length && errorBytes === undefined) return { ...rest, output: body };
  const [output, error] = cutParts(body, jobParts(value));
  return {
    ...rest,
    output: outputBytes < 0 ? null : output!,
    error: errorBytes === undefined ? rest.error : error!.toString(),
  };
}
