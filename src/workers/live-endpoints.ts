/**
 * What is different for endpoints of `svc run`. A new revision takes over at once: no call that comes after it may run on
 * the code before. Nothing waits for a proof that it starts; a worker is warmed up when the one before was warm, a moment
 * later, so that calls which wait go first. Code that cannot start answers what waits for it.
 */
import type { SvcError } from "../domain/errors.ts";
import { LIVE_WARM_UP_DELAY_MS } from "../domain/limits.ts";
import { isLiveName } from "../domain/names.ts";
import { VERSION } from "../domain/version.ts";
import type { JobUpkeep } from "../queue/queue.ts";
import type { Endpoint, Worker } from "../store/store.ts";

interface LiveEndpointsDeps {
  readonly endpoints: { find(id: string): Endpoint | undefined | Promise<Endpoint | undefined> };
  readonly link: {
    switchOver(endpointId: string, revision: string): void;
    sample(endpointId: string): { workers: readonly unknown[] };
  };
  /** Jobs that wait get this as their answer. */
  readonly failJobs: (endpointId: string, workerId: string, error: SvcError) => Promise<void>;
  readonly wake: (endpointId: string) => void;
}

export class LiveEndpoints {
  readonly #deps: LiveEndpointsDeps;
  /** By endpoint: the revision that should have one worker, from its time on. */
  readonly #warmUps = new Map<string, { readonly revision: string; readonly timer: NodeJS.Timeout; isDue: boolean }>();

  constructor(deps: LiveEndpointsDeps) {
    this.#deps = deps;
  }

  /** The endpoint has a new revision. */
  changed({ id, revision }: Endpoint): void {
    const { link, wake } = this.#deps;
    const wasWarm = link.sample(id).workers.length > 0;
    this.removed(id);
    link.switchOver(id, revision);
    if (!wasWarm) return;
    const timer = setTimeout(() => {
      warmUp.isDue = true;
      wake(id);
    }, LIVE_WARM_UP_DELAY_MS);
    const warmUp = { revision, timer: timer.unref(), isDue: false };
    this.#warmUps.set(id, warmUp);
  }

  warms({ id, revision }: Endpoint): boolean {
    const warmUp = this.#warmUps.get(id);
    return warmUp !== undefined && warmUp.isDue && warmUp.revision === revision;
  }

  /** A worker of it is ready, or cannot be. */
  settled(endpointId: string, revision: string): void {
    if (this.#warmUps.get(endpointId)?.revision === revision) this.removed(endpointId);
  }

  removed(endpointId: string): void {
    clearTimeout(this.#warmUps.get(endpointId)?.timer);
    this.#warmUps.delete(endpointId);
  }

  async bootFailed({ id, endpointId, revision }: Worker, error: SvcError): Promise<void> {
    this.settled(endpointId, revision);
    const endpoint = await this.#deps.endpoints.find(endpointId);
    // Newer code may do better.
    if (endpoint === undefined || !isLiveName(endpoint.name) || endpoint.revision !== revision) return;
    await this.#deps.failJobs(endpointId, id, error);
  }
}

/**
 * A live endpoint's new code cannot start: its jobs fail with that reason, because the developer who sent them waits for an
 * answer. (Jobs of a deployed endpoint wait for code that can start.)
 */
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
