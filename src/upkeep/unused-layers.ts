/**
 * Garbage: layers that no kept build refers to, uploads that broke off and were not continued, and what drivers unpacked or
 * installed for builds that nobody runs any more. Whatever was touched within LAYER_UNUSED_KEPT_MS stays, because a deploy
 * uploads first and refers to it later.
 */
import type { ArtifactStore } from "../artifacts/artifact-store.ts";
import { LAYER_UNUSED_KEPT_MS } from "../domain/limits.ts";
import { manifestLayers } from "../domain/manifest.ts";
import type { PreparedFiles, WorkerImage } from "../drivers/worker-driver.ts";
import type { Endpoint, Store } from "../store/store.ts";

interface UnusedLayersDeps {
  readonly store: Store;
  readonly artifacts: ArtifactStore;
  readonly files: PreparedFiles;
  /** What is prepared for workers. */
  readonly images: {
    describe(endpoint: Endpoint): Promise<{ readonly image: WorkerImage }>;
    /** Forgets what is not needed and was not used since `before`; returns all whose files must stay. */
    keepOnly(needed: readonly WorkerImage[], before: number): WorkerImage[];
  };
  readonly clock: () => number;
  /** Whether what is stored for all platforms on the database is this one's to remove; each looks after its own disk. */
  readonly isFirst: () => boolean;
}

export async function removeUnusedLayers(deps: UnusedLayersDeps): Promise<void> {
  const before = deps.clock() - LAYER_UNUSED_KEPT_MS;
  if (deps.isFirst()) await removeArtifacts(deps, before);
  const needed = await neededImages(deps);
  if (needed !== undefined) await deps.files.removeUnused(deps.images.keepOnly(needed, before), before);
}

/** The list comes first: what is stored after it cannot be removed by mistake. */
async function removeArtifacts({ store, artifacts }: UnusedLayersDeps, before: number): Promise<void> {
  const stored = await artifacts.list();
  const needed = new Set<string>();
  for (const app of await store.apps.list()) {
    for (const environment of await store.environments.listByApp(app.id)) {
      for (const build of await store.builds.listByEnvironment(environment.id)) {
        for (const digest of manifestLayers(build.manifest)) needed.add(digest);
      }
    }
  }
  for (const digest of stored) if (!needed.has(digest)) await artifacts.deleteUnused(digest, before);
  await artifacts.deleteUnusedPartials(before);
}

/** What endpoints and running workers are made of; undefined when that cannot be told of one of them. */
async function neededImages({ store, images }: UnusedLayersDeps): Promise<WorkerImage[] | undefined> {
  const needed: WorkerImage[] = [];
  const add = async (endpoint: Endpoint) => {
    const described = await images.describe(endpoint).catch(() => undefined);
    if (described !== undefined) needed.push(described.image);
    return described !== undefined;
  };
  const endpoints = await store.endpoints.list();
  // A build that does not declare its endpoint has nothing that could run. Those of one build follow each other: it is read once.
  for (const [, ofBuild] of Map.groupBy(endpoints, ({ buildId }) => buildId ?? "")) {
    for (const endpoint of ofBuild) if (endpoint.buildId !== null) await add(endpoint);
  }
  for (const worker of await store.workers.list()) {
    const endpoint = endpoints.find(({ id }) => id === worker.endpointId);
    if (endpoint !== undefined && (endpoint.buildId ?? "") === worker.buildId) continue;
    if (endpoint === undefined || !(await add({ ...endpoint, buildId: worker.buildId }))) return undefined;
  }
  return needed;
}
