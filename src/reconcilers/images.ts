/** What each endpoint's revision needs on this machine, prepared once in the background and told about meanwhile. */
import { SvcError } from "../domain/errors.ts";
import type { WorkerDriver, WorkerImage } from "../drivers/worker-driver.ts";
import { getOrInsert } from "../lib/get-or-insert.ts";
import type { Endpoint, Store } from "../store/store.ts";

const PROGRESS_LINES_MAX = 5;
const RETRY_MS = 10_000;

interface ImageState {
  prepared: { readonly image: WorkerImage; readonly environmentName: string } | undefined;
  running: boolean;
  progress: string[];
  /** Why the last try failed; "" when it did not. */
  problem: string;
  failedAt: number;
}

interface ImagesDeps {
  readonly store: Store;
  readonly driver: WorkerDriver;
  /** The endpoint's image is ready, or cannot be made. */
  readonly settled: (endpointId: string) => void;
  readonly clock: () => number;
}

export class Images {
  readonly #deps: ImagesDeps;
  readonly #states = new Map<string, ImageState>();

  constructor(deps: ImagesDeps) {
    this.#deps = deps;
  }

  isPrepared(endpoint: Endpoint): boolean {
    return this.#states.get(key(endpoint))?.prepared !== undefined;
  }

  of(endpoint: Endpoint): ImageState["prepared"] {
    return this.#states.get(key(endpoint))?.prepared;
  }

  state(endpoint: Endpoint): { readonly progress: readonly string[]; readonly problem: string } {
    return this.#states.get(key(endpoint)) ?? { progress: [], problem: "" };
  }

  /** Starts preparing unless it runs, is done, or failed a moment ago. */
  prepare(endpoint: Endpoint): void {
    const state = getOrInsert(this.#states, key(endpoint), () => ({
      prepared: undefined,
      running: false,
      progress: [],
      problem: "",
      failedAt: 0,
    }));
    if (state.running || state.prepared !== undefined) return;
    if (state.problem !== "" && this.#deps.clock() - state.failedAt < RETRY_MS) return;
    state.running = true;
    void this.#run(endpoint, state);
  }

  async #run(endpoint: Endpoint, state: ImageState): Promise<void> {
    try {
      const prepared = await this.#describe(endpoint);
      await this.#deps.driver.prepare(prepared.image, (line) => {
        state.progress = [...state.progress, line].slice(-PROGRESS_LINES_MAX);
      });
      state.prepared = prepared;
      state.problem = "";
    } catch (error) {
      state.problem =
        error instanceof SvcError
          ? [error.message, error.help ?? ""].join(" ").trim()
          : `Preparing it failed: ${String(error)}`;
      state.failedAt = this.#deps.clock();
    } finally {
      state.running = false;
      this.#deps.settled(endpoint.id);
    }
  }

  async #describe(endpoint: Endpoint): Promise<NonNullable<ImageState["prepared"]>> {
    const build = endpoint.buildId === null ? undefined : await this.#deps.store.builds.find(endpoint.buildId);
    const resource = build?.manifest.resources[endpoint.name];
    if (build === undefined || resource === undefined) throw new SvcError("CONFLICT", "Its build does not declare it.");
    const environment = await this.#deps.store.environments.find(build.environmentId);
    const image: WorkerImage = {
      endpointId: endpoint.id,
      endpointName: endpoint.name,
      buildId: build.id,
      sourceLayer: build.manifest.sourceLayer,
      dependencyLayer: resource.dependencyLayer,
      baseDependencies: resource.baseDependencies,
      pythonVersion: resource.pythonVersion,
      handler: resource.handler,
      imageName: endpoint.imageName,
      bootType: endpoint.svcBootType,
    };
    return { image, environmentName: environment?.name ?? "" };
  }
}

function key(endpoint: Endpoint): string {
  return `${endpoint.id}:${endpoint.revision}:${endpoint.buildId}`;
}
