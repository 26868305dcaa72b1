/**
 * What is different for endpoints of `svc run`. A new revision takes over at once: no call that comes after it may run on
 * the code before. Nothing waits for a proof that it starts; a worker is warmed up when the one before was warm, a moment
 * later, so that calls which wait go first.
 */
import { LIVE_WARM_UP_DELAY_MS } from "../domain/limits.ts";
import type { Endpoint } from "../store/store.ts";

interface LiveEndpointsDeps {
  readonly link: {
    switchOver(endpointId: string, revision: string): void;
    sample(endpointId: string): { workers: readonly unknown[] };
  };
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

  warms({ id, revision }: Pick<Endpoint, "id" | "revision">): boolean {
    const warmUp = this.#warmUps.get(id);
    return warmUp?.isDue === true && warmUp.revision === revision;
  }

  /** A worker of it is ready, or cannot be. */
  settled(endpointId: string, revision: string): void {
    if (this.#warmUps.get(endpointId)?.revision === revision) this.removed(endpointId);
  }

  removed(endpointId: string): void {
    clearTimeout(this.#warmUps.get(endpointId)?.timer);
    this.#warmUps.delete(endpointId);
  }
}
