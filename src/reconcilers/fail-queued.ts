/**
 * A live endpoint's new code cannot start: its jobs fail with that reason, because the developer who sent them waits for an
 * answer. (Jobs of a deployed endpoint wait for code that can start.)
 */
import type { SvcError } from "../domain/errors.ts";
import { VERSION } from "../domain/version.ts";
import type { JobUpkeep } from "../queue/queue.ts";

export async function failQueued(
  queue: Pick<JobUpkeep, "failQueued">,
  endpointId: string,
  workerId: string,
  error: SvcError,
): Promise<void> {
  const failure = {
    error_type: "BootFailed",
    error_message: error.message,
    error_traceback: error.help ?? "",
    hostname: "",
    worker_id: workerId,
    svc_version: VERSION,
  };
  await queue.failQueued(endpointId, workerId, JSON.stringify(failure));
}
