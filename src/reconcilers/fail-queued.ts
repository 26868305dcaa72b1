/**
 * A live endpoint's new code cannot start: its jobs fail with that reason, because the developer who sent them waits for an
 * answer. (Jobs of a deployed endpoint wait for code that can start.)
 */
import type { SvcError } from "../domain/errors.ts";
import { VERSION } from "../domain/version.ts";
import type { JobReader, Queue } from "../queue/queue.ts";

export async function failQueued(
  queue: Pick<Queue, "claim" | "finish"> & Pick<JobReader, "counts">,
  endpointId: string,
  workerId: string,
  error: SvcError,
): Promise<void> {
  const { inQueue } = await queue.counts(endpointId);
  if (inQueue === 0) return;
  const taken = new AbortController();
  const claimed = queue.claim(endpointId, workerId, inQueue, taken.signal);
  // Another worker may have taken them meanwhile: then nothing is left to wait for.
  void queue.counts(endpointId).then((counts) => counts.inQueue === 0 && taken.abort());
  const failure = JSON.stringify({
    error_type: "BootFailed",
    error_message: error.message,
    error_traceback: error.help ?? "",
    hostname: "",
    worker_id: workerId,
    svc_version: VERSION,
  });
  for (const job of await claimed) await queue.finish(job, { state: "FAILED", error: failure });
}
