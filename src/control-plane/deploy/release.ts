/**
 * Makes a build live: app, environment, build and every endpoint in one transaction. A new build that changes nothing
 * leaves everything as it is and answers with the build that is live, and what could not run is tried again; an earlier build is
 * only pointed at again.
 */
import { SvcError } from "../../domain/errors.ts";
import { ARTIFACT_MAX_BYTES, DEPLOY_CHANGES_KEPT_MAX } from "../../domain/limits.ts";
import { type Manifest, manifestLayers } from "../../domain/manifest.ts";
import { isRemoved } from "../../domain/removal.ts";
import type { Endpoint, Store } from "../../store/store.ts";
import { audit } from "../audit.ts";
import { requireEnvironment } from "../authenticate.ts";
import type { RequestContext } from "../context.ts";
import { applyBuild } from "./apply.ts";
import { type BuildRequest, refuse } from "./build-request.ts";
import { type Change, nameOf } from "./diff.ts";
import { readTarget } from "./target.ts";

export interface Deployment {
  readonly buildId: string;
  readonly app: string;
  readonly environment: string;
  readonly endpoints: readonly Endpoint[];
  readonly removed: readonly string[];
}

/** `earlierBuildId` names the stored build that the request was read from; without it the build is new. */
export async function release(
  request: BuildRequest,
  context: RequestContext,
  earlierBuildId?: string,
): Promise<Deployment> {
  const early = await readTarget(context.store, request, context);
  requireEnvironment(context, early.environment?.id);
  refuse(early.problems);
  await checkLayers(request.manifest!, context);

  const { buildId, environmentId, deleted, removed } = await context.store.transaction(async (store) => {
    const target = await readTarget(store, request, context);
    refuse(target.problems);
    // It may have gone meanwhile, with its environment or as one of too many.
    if (earlierBuildId !== undefined && (await store.builds.find(earlierBuildId)) === undefined) {
      throw new SvcError("NOT_FOUND", `${request.app}/${request.environment} has no build "${earlierBuildId}".`, {
        help: "svc rollback --list shows those that there are.",
      });
    }
    const live = target.environment?.buildId ?? null;
    const changesNothing = target.changes.every(({ action }) => action === "unchanged");
    if (live !== null && changesNothing && (earlierBuildId ?? live) === live) {
      return { buildId: live, environmentId: target.environment!.id, deleted: [], removed: [] };
    }
    const applied = await applyBuild(store, request, target, context, earlierBuildId);
    const changes = target.changes.filter(({ action }) => action !== "unchanged").map(changeLine);
    await recordDeploy(store, { ...applied, changes }, request, context, earlierBuildId !== undefined);
    return { ...applied, removed: target.changes.filter(({ action }) => action === "remove").map(nameOf) };
  });
  for (const id of deleted) await context.jobs.forget(id);
  const { app, environment } = request;
  const endpoints = await liveEndpoints(request, environmentId, context);
  await tryAgain(endpoints, context);
  return { buildId, app, environment, endpoints, removed };
}

/** What cannot run: who deploys it again may have corrected what kept it from that. */
async function tryAgain(endpoints: readonly Endpoint[], { store, workers, clock }: RequestContext): Promise<void> {
  const one = async ({ id }: Endpoint) => {
    if ((await workers.health(id)).state === "BLOCKED") await store.endpoints.update(id, { updatedAt: clock() });
  };
  await Promise.all(endpoints.map(one));
}

function changeLine(change: Change): string {
  const details = change.details.length === 0 ? "" : `: ${change.details.join(", ")}`;
  return `${change.action} ${nameOf(change)}${details}`;
}

async function recordDeploy(
  store: Store,
  { buildId, environmentId, changes }: { buildId: string; environmentId: string; changes: readonly string[] },
  { app, environment, desired }: BuildRequest,
  context: RequestContext,
  isRollback: boolean,
): Promise<void> {
  const { gitCommit, message, verdict } = (await store.builds.find(buildId))!;
  await store.deploys.insert({
    buildId,
    environmentId,
    app,
    environment,
    at: context.clock(),
    action: isRollback ? "rollback" : "deploy",
    keyName: context.principal.name ?? "",
    gitCommit,
    message,
    verdict,
    endpoints: desired.map(({ name }) => name),
    changes: changes.slice(0, DEPLOY_CHANGES_KEPT_MAX),
  });
  await audit(store, context, {
    action: isRollback ? "build.rollback" : "build.deploy",
    target: `${app}/${environment}`,
    detail: `${buildId}${changes.length === 0 ? "" : `: ${changes.join("; ")}`}`,
  });
}

/** The build's own endpoints, in its order. */
async function liveEndpoints(request: BuildRequest, environmentId: string, { store }: RequestContext) {
  const order = new Map(request.desired.map(({ name }, i) => [name, i]));
  const endpoints = await store.endpoints.listByEnvironment(environmentId);
  return endpoints
    .filter((endpoint) => !isRemoved(endpoint) && order.has(endpoint.name))
    .sort((a, b) => order.get(a.name)! - order.get(b.name)!);
}

/** Throws LAYER_MISSING, ARTIFACT_TOO_LARGE. */
async function checkLayers(
  manifest: Manifest,
  { artifacts, claims, config, principal }: RequestContext,
): Promise<void> {
  const layers = manifestLayers(manifest);
  const sizes = await Promise.all(layers.map((digest) => artifacts.size(digest)));
  const usable = await claims.usable(principal, layers);
  const missing = layers.filter((digest, i) => sizes[i] === undefined || !usable.has(digest));
  if (missing.length > 0) {
    throw new SvcError(
      "LAYER_MISSING",
      `The platform lacks ${missing.length} of the build's layers: ${missing.join(", ")}.`,
      { help: "Upload each by PUT /layers/<digest>, then deploy again." },
    );
  }
  const total = sizes.reduce<number>((sum, size) => sum + size!, 0);
  const maxBytes = config.artifactMaxBytes ?? ARTIFACT_MAX_BYTES;
  if (total <= maxBytes) return;
  throw new SvcError("ARTIFACT_TOO_LARGE", `The build has ${total} bytes; at most ${maxBytes} are allowed.`, {
    help: "Leave packages out with --exclude.",
  });
}
