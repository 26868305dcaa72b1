import { SvcError } from "../../domain/errors.ts";
import { ARTIFACT_MAX_BYTES } from "../../domain/limits.ts";
import { type Manifest, manifestLayers } from "../../domain/manifest.ts";
import { isRemoved } from "../../domain/removal.ts";
import { requireScope } from "../authenticate.ts";
import type { RequestContext } from "../context.ts";
import { applyBuild } from "../deploy/apply.ts";
import { type BuildInput, type BuildRequest, readBuildRequest, refuse } from "../deploy/build-request.ts";
import { nameOf } from "../deploy/diff.ts";
import { readTarget } from "../deploy/target.ts";

/**
 * Makes a build live: app, environment, build and every endpoint in one transaction. A build that changes nothing
 * leaves everything as it is and answers with the build that is live.
 * Throws every problem that planBuild reports, LAYER_MISSING and ARTIFACT_TOO_LARGE.
 */
export async function deployBuild(_: unknown, { input }: { input: BuildInput }, context: RequestContext) {
  requireScope(context, "deploy");
  const request = readBuildRequest(input);
  const early = await readTarget(context.store, request, context.config.workerQuota);
  refuse(early.problems);
  await checkLayers(request.manifest!, context);

  const { buildId, environmentId, deleted, removed } = await context.store.transaction(async (store) => {
    const target = await readTarget(store, request, context.config.workerQuota);
    refuse(target.problems);
    const live = target.environment?.buildId ?? null;
    if (live !== null && target.changes.every(({ action }) => action === "unchanged")) {
      return { buildId: live, environmentId: target.environment!.id, deleted: [], removed: [] };
    }
    const applied = await applyBuild(store, request, target, context);
    return { ...applied, removed: target.changes.filter(({ action }) => action === "remove").map(nameOf) };
  });
  for (const id of deleted) await context.jobs.forget(id);
  return {
    buildId,
    app: request.app,
    environment: request.environment,
    endpoints: await liveEndpoints(request, environmentId, context),
    removed,
  };
}

/** The build's own endpoints, in its order. */
async function liveEndpoints(request: BuildRequest, environmentId: string, { store }: RequestContext) {
  const order = new Map(request.desired.map(({ name }, i) => [name, i]));
  const endpoints = await store.endpoints.listByEnvironment(environmentId);
  return endpoints
    .filter((endpoint) => !isRemoved(endpoint) && order.has(endpoint.name))
    .sort((a, b) => order.get(a.name)! - order.get(b.name)!);
}

async function checkLayers(manifest: Manifest, { artifacts, config }: RequestContext): Promise<void> {
  const layers = manifestLayers(manifest);
  const sizes = await Promise.all(layers.map((digest) => artifacts.size(digest)));
  const missing = layers.filter((_digest, i) => sizes[i] === undefined);
  if (missing.length > 0) {
    throw new SvcError(
      "LAYER_MISSING",
      `The platform lacks ${missing.length} of the build's layers: ${missing.join(", ")}.`,
      {
        help: "Upload each by PUT /layers/<digest>, then deploy again.",
      },
    );
  }
  const total = sizes.reduce<number>((sum, size) => sum + size!, 0);
  const maxBytes = config.artifactMaxBytes ?? ARTIFACT_MAX_BYTES;
  if (total <= maxBytes) return;
  throw new SvcError("ARTIFACT_TOO_LARGE", `The build has ${total} bytes; at most ${maxBytes} are allowed.`, {
    help: "Leave packages out with --exclude.",
  });
}
