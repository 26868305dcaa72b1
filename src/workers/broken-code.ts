/**
 * Code cannot start, and callers wait for it: they are told why. Of a live endpoint each job fails, because the developer who
 * sent it waits for an answer; of a deployed one those of /runsync do, the others wait for code that can start.
 */
import { setImmediate } from "node:timers/promises";
import { SvcError } from "../domain/errors.ts";
import { isLiveName } from "../domain/names.ts";
import { VERSION } from "../domain/version.ts";
import type { JobUpkeep } from "../queue/queue.ts";
import type { Endpoint, Worker } from "../store/store.ts";
import type { BootRecord } from "./boot-record.ts";

interface BrokenCodeDeps {
  readonly queue: Pick<JobUpkeep, "failQueued" | "failAwaited">;
  readonly endpoints: { find(id: string): Endpoint | undefined | Promise<Endpoint | undefined> };
  readonly boots: Pick<BootRecord, "isClear" | "mayStart" | "reason">;
  readonly link: {
    failWaiting(worker: Pick<Worker, "endpointId" | "revision">, error: SvcError): Promise<void>;
    sample(endpointId: string): { readonly workers: readonly { readonly ready: boolean }[] };
  };
}

export class BrokenCode {
  readonly #deps: BrokenCodeDeps;

  constructor(deps: BrokenCodeDeps) {
    this.#deps = deps;
  }

  /** A caller begins to wait. While code that failed to start is not tried again, the reason is its answer at once. */
  callerWaits(endpointId: string): Promise<void> | undefined {
    // It is asked with each job that finds no free worker.
    return this.#deps.boots.isClear ? undefined : this.#answerCaller(endpointId);
  }

  async #answerCaller(endpointId: string): Promise<void> {
    const { boots, endpoints } = this.#deps;
    const endpoint = await endpoints.find(endpointId);
    if (endpoint === undefined || boots.mayStart(endpoint)) return;
    await setImmediate(); // The caller of a job waits from when the job is stored.
    const reason = boots.reason(endpoint);
    const { revision } = endpoint;
    if (reason !== "") await this.tell({ id: "", endpointId, revision }, new SvcError("BOOT_FAILED", reason));
  }

  /** A worker could not start. Where no worker of earlier code serves, who waits is told. */
  async tell({ id, endpointId, revision }: Pick<Worker, "id" | "endpointId" | "revision">, error: SvcError) {
    const { endpoints, link, queue } = this.#deps;
    const endpoint = await endpoints.find(endpointId);
    // Newer code may do better.
    if (endpoint === undefined || endpoint.revision !== revision) return;
    const isLive = isLiveName(endpoint.name);
    if (!isLive && link.sample(endpointId).workers.some(({ ready }) => ready)) return;
    await link.failWaiting({ endpointId, revision }, error);
    const failure = JSON.stringify({
      error_type: "BootFailed",
      error_message: error.message,
      error_traceback: error.help ?? "",
      hostname: "",
      worker_id: id,
      svc_version: VERSION,
    });
    if (isLive) await queue.failQueued(endpointId, id, failure);
    else await queue.failAwaited(endpointId, id, failure);
  }
}
