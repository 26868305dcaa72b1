/** What each endpoint's revision needs on this machine, prepared once in the background and told about meanwhile. */
import { SvcError } from "../domain/errors.ts";
import { nameBeforeRemoval } from "../domain/names.ts";
import { isRemoved } from "../domain/removal.ts";
import type { ServerSettings } from "../domain/server.ts";
import { CACHE_VOLUME, mountPaths, SHARED_PLACE, volumesOf } from "../domain/volume.ts";
import type { WorkerDriver, WorkerImage } from "../drivers/worker-driver.ts";
import { getOrInsert } from "../lib/get-or-insert.ts";
import type { Build, Endpoint, Store } from "../store/store.ts";

const PROGRESS_LINES_MAX = 5;
const RETRY_MS = 10_000;

interface ImageState {
  prepared:
    | {
        readonly image: WorkerImage;
        readonly appName: string;
        readonly environmentName: string;
        readonly gpuPreference: readonly string[];
      }
    | undefined;
  running: boolean;
  /** Resolves when the last try is over. */
  over: Promise<void>;
  progress: string[];
  /** Why the last try failed; "" when it did not. */
  problem: string;
  failedAt: number;
  /** When a worker was started from it last, or it was asked for. */
  usedAt: number;
}

interface ImagesDeps {
  readonly store: Store;
  readonly driver: Pick<WorkerDriver, "prepare">;
  /** The endpoint's image is ready, or cannot be made. */
  readonly settled: (endpointId: string) => void;
  readonly clock: () => number;
  /** For durations: no clock that is set moves it. */
  readonly now: () => number;
}

export class Images {
  readonly #deps: ImagesDeps;
  readonly #states = new Map<string, ImageState>();
  /** The build that was looked up last: endpoints of one are prepared one after the other, and it holds the manifest of all. */
  #lastBuild: { readonly id: string; readonly found: Promise<Build | undefined> } | undefined;

  constructor(deps: ImagesDeps) {
    this.#deps = deps;
  }

  isPrepared(endpoint: Endpoint): boolean {
    return this.#states.get(key(endpoint))?.prepared !== undefined;
  }

  of(endpoint: Endpoint): ImageState["prepared"] {
    const state = this.#states.get(key(endpoint));
    if (state !== undefined) state.usedAt = this.#deps.clock();
    return state?.prepared;
  }

  /**
   * Forgets what is prepared for an image that is not needed and was not used since `before`. Returns all whose files must stay:
   * those needed and those that are still known here.
   */
  keepOnly(needed: readonly WorkerImage[], before: number): WorkerImage[] {
    const builds = new Set(needed.map(({ endpointId, buildId }) => `${endpointId}:${buildId}`));
    const kept = [...needed];
    for (const [name, { prepared, running, usedAt }] of this.#states) {
      if (prepared === undefined) {
        if (!running && usedAt < before) this.#states.delete(name);
      } else if (builds.has(`${prepared.image.endpointId}:${prepared.image.buildId}`) || usedAt >= before) {
        kept.push(prepared.image);
      } else this.#states.delete(name);
    }
    return kept;
  }

  state(endpoint: Endpoint): {
    readonly progress: readonly string[];
    readonly problem: string;
    readonly running: boolean;
  } {
    return this.#states.get(key(endpoint)) ?? { progress: [], problem: "", running: false };
  }

  /** What was prepared is gone: it is made again before the next start. */
  forget(endpoint: Endpoint): void {
    this.#states.delete(key(endpoint));
  }

  /** Somebody may have corrected what kept it from being prepared. */
  tryAgain(endpoint: Endpoint): void {
    const state = this.#states.get(key(endpoint));
    if (state === undefined || state.running || state.problem === "") return;
    state.problem = "";
    this.prepare(endpoint);
  }

  /** The endpoints come here. Resolves when they are prepared, as far as they can be. */
  async makeReady(endpointIds: readonly string[]): Promise<void> {
    const ready = async (id: string) => {
      const endpoint = await this.#deps.store.endpoints.find(id);
      if (endpoint === undefined || isRemoved(endpoint)) return;
      this.prepare(endpoint);
      await this.#states.get(key(endpoint))?.over;
    };
    await Promise.all(endpointIds.map(ready));
  }

  /** Starts preparing unless it runs, is done, or failed a moment ago. */
  prepare(endpoint: Endpoint): void {
    const state = getOrInsert(this.#states, key(endpoint), () => ({
      prepared: undefined,
      running: false,
      over: Promise.resolve(),
      progress: [],
      problem: "",
      failedAt: 0,
      usedAt: this.#deps.clock(),
    }));
    if (state.running || state.prepared !== undefined) return;
    if (state.problem !== "" && this.#deps.now() - state.failedAt < RETRY_MS) return;
    state.running = true;
    state.over = this.#run(endpoint, state).catch(() => {}); // It keeps its problem itself.
  }

  async #run(endpoint: Endpoint, state: ImageState): Promise<void> {
    try {
      const prepared = await this.describe(endpoint);
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
      state.failedAt = this.#deps.now();
    } finally {
      state.running = false;
      this.#deps.settled(endpoint.id);
    }
  }

  /** Throws CONFLICT when the endpoint's build does not declare it. One without a build runs what its image runs. */
  async describe(endpoint: Endpoint): Promise<NonNullable<ImageState["prepared"]>> {
    if (endpoint.buildId === null && !isRemoved(endpoint)) return imageAlone(endpoint);
    const build = endpoint.buildId === null ? undefined : await this.#build(endpoint.buildId);
    const resource = build?.manifest.resources[endpoint.name];
    if (build === undefined || resource === undefined) throw new SvcError("CONFLICT", "Its build does not declare it.");
    const environment = await this.#deps.store.environments.find(build.environmentId);
    const app = environment && (await this.#deps.store.apps.find(environment.appId));
    const image: WorkerImage = {
      endpointId: endpoint.id,
      endpointName: endpoint.name,
      environmentId: build.environmentId,
      buildId: build.id,
      sourceLayer: build.manifest.sourceLayer,
      dependencyLayer: resource.dependencyLayer,
      baseDependencies: resource.baseDependencies,
      pythonVersion: resource.pythonVersion,
      handler: resource.handler,
      imageName: endpoint.imageName,
      systemDependencies: resource.systemDependencies ?? [], // A manifest of an earlier version has none.
      imageSteps: resource.imageSteps ?? [],
      serverPort: resource.server?.port || undefined,
      bootType: endpoint.svcBootType,
      pulls: pullsBy(resource.server),
      ...volumesOfEndpoint(endpoint, app?.name, environment?.name),
    };
    return {
      image,
      appName: app?.name ?? "",
      environmentName: environment?.name ?? "",
      gpuPreference: resource.gpuPreference ?? [], // A manifest of an earlier version has none.
    };
  }

  /** What is read of it here never changes. */
  #build(id: string): Promise<Build | undefined> {
    if (this.#lastBuild?.id === id) return this.#lastBuild.found;
    const found = this.#deps.store.builds.find(id);
    this.#lastBuild = { id, found };
    const forget = () => {
      if (this.#lastBuild?.found === found) this.#lastBuild = undefined;
    };
    found.then((build) => build ?? forget(), forget);
    return found;
  }
}

function pullsBy(server: ServerSettings | undefined): WorkerImage["pulls"] {
  if (server?.protocol !== "pull") return undefined;
  return server.command.length === 0 ? "image" : "command";
}

function imageAlone(endpoint: Endpoint): NonNullable<ImageState["prepared"]> {
  const image: WorkerImage = {
    endpointId: endpoint.id,
    endpointName: endpoint.name,
    buildId: "",
    sourceLayer: "",
    dependencyLayer: null,
    baseDependencies: [],
    pythonVersion: "",
    handler: "",
    imageName: endpoint.imageName,
    systemDependencies: [],
    imageSteps: [],
    bootType: endpoint.svcBootType,
    pulls: "image",
    program: endpoint.container,
    volumes: volumesOfEndpoint(endpoint, SHARED_PLACE.app, SHARED_PLACE.environment).volumes,
    cache: undefined,
  };
  return { image, appName: "", environmentName: "", gpuPreference: [] };
}

export function volumesOfEndpoint({ networkVolumeId }: Pick<Endpoint, "networkVolumeId">, app = "", environment = "") {
  if (app === "" || environment === "") return { volumes: [], cache: undefined };
  // Workers that drain a removed environment have the files they had.
  const place = { app: nameBeforeRemoval(app), environment: nameBeforeRemoval(environment) };
  const volumes = volumesOf(networkVolumeId).map((mount) => {
    return { ...place, name: mount.name, paths: mountPaths(mount), readOnly: mount.readOnly };
  });
  return { volumes, cache: { ...place, name: CACHE_VOLUME } };
}

function key(endpoint: Endpoint): string {
  return `${endpoint.id}:${endpoint.revision}:${endpoint.buildId}`;
}
