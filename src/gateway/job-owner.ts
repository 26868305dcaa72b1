/**
 * Whose a job is that a worker handed in: the last digits of its id are a mark made of the rest and the worker's endpoint, which
 * only this platform can make. So nothing has to be kept, and callers with keys pay nothing for it.
 */
import { createHmac } from "node:crypto";
import type { Principal } from "../domain/api-key.ts";
import { SvcError } from "../domain/errors.ts";
import { uuidOfJob } from "../domain/job.ts";

const MARK_CHARS = 8;

export class JobOwners {
  readonly #keys: readonly Uint8Array[];

  /** The first marks, each of them is known. */
  constructor(keys: readonly Uint8Array[]) {
    this.#keys = keys;
  }

  /** The UUID of a new job of this caller. */
  mark(uuid: string, { principal }: { readonly principal: Principal }): string {
    return principal.kind === "worker" ? marked(this.#keys[0]!, uuid, principal.ofEndpoint ?? "") : uuid;
  }

  /** Throws FORBIDDEN for a worker whose endpoint did not hand the job in. */
  requireOwn({ principal, jobId }: { readonly principal: Principal; readonly jobId: string }): void {
    if (principal.kind !== "worker") return;
    const uuid = uuidOfJob(jobId);
    if (this.#keys.some((key) => marked(key, uuid, principal.ofEndpoint ?? "") === uuid)) return;
    throw new SvcError("FORBIDDEN", "A worker's token ends and repeats only the jobs that its own endpoint handed in.");
  }
}

function marked(key: Uint8Array, uuid: string, endpointId: string): string {
  const stem = uuid.slice(0, -MARK_CHARS);
  return stem + createHmac("sha256", key).update(`${stem} ${endpointId}`).digest("hex").slice(0, MARK_CHARS);
}
