import { SvcError } from "../../domain/errors.ts";
import { manifestLayers } from "../../domain/manifest.ts";
import type { Build } from "../../store/store.ts";
import { requireEnvironment } from "../authenticate.ts";
import type { RequestContext } from "../context.ts";
import { type BuildInput, readBuildRequest } from "../deploy/build-request.ts";
import { type Change, kindOf, nameOf } from "../deploy/diff.ts";
import { type Deployment, release } from "../deploy/release.ts";
import { readTarget } from "../deploy/target.ts";
import { knownEnvironment } from "../known.ts";

/** What deployBuild would do. Changes nothing. */
export async function planBuild({ input }: { input: BuildInput }, context: RequestContext) {
  const request = readBuildRequest(input);
  const target = await readTarget(context.store, request, context.config.workerQuota);
  requireEnvironment(context, target.environment?.id);
  const layers = request.manifest === null ? [] : manifestLayers(request.manifest);
  const present = await Promise.all(layers.map((digest) => context.artifacts.has(digest)));
  const usable = await context.claims.usable(context.principal, layers);
  const changes = request.manifest === null ? [] : target.changes;
  return {
    changes: await Promise.all(changes.map((change) => describe(change, context))),
    missingLayers: layers.filter((digest, i) => !present[i] || !usable.has(digest)),
    problems: target.problems.map((problem) => problem.message),
  };
}

async function describe(change: Change, { jobs }: RequestContext) {
  const details = [...change.details];
  if (change.action === "remove") {
    const { inQueue } = await jobs.counts(change.current.id);
    if (inQueue > 0) details.push(`${inQueue} queued ${inQueue === 1 ? "job is" : "jobs are"} deleted`);
  }
  return { action: change.action, name: nameOf(change), kind: kindOf(change), details };
}

/** Throws every problem that planBuild reports, LAYER_MISSING and ARTIFACT_TOO_LARGE. */
export async function deployBuild({ input }: { input: BuildInput }, context: RequestContext): Promise<Deployment> {
  return release(readBuildRequest(input), context);
}

interface RollbackArguments {
  readonly app: string;
  readonly environment: string;
  readonly buildId?: string | null;
  readonly keepRemoved?: boolean | null;
}

/**
 * Makes an earlier build live again, with the environment variables it was deployed with. Without `buildId` it is the
 * one deployed before the live one. Throws NOT_FOUND and what deployBuild throws.
 */
export async function rollback(args: RollbackArguments, context: RequestContext): Promise<Deployment> {
  const { app, environment, keepRemoved } = args;
  const { id, buildId: live } = await knownEnvironment(context.store, app, environment);
  requireEnvironment(context, id);
  const builds = await context.store.builds.listByEnvironment(id);
  const build = args.buildId ? builds.find((one) => one.id === args.buildId) : buildBefore(builds, live);
  if (build === undefined) throw noSuchBuild(args, builds);
  const { manifest, env } = build;
  return release(readBuildRequest({ app, environment, manifest, env, keepRemoved }), context, build.id);
}

function buildBefore(newestFirst: readonly Build[], live: string | null): Build | undefined {
  return newestFirst[newestFirst.findIndex(({ id }) => id === live) + 1];
}

function noSuchBuild({ app, environment, buildId }: RollbackArguments, builds: readonly Build[]): SvcError {
  const place = `${app}/${environment}`;
  if (!buildId) return new SvcError("NOT_FOUND", `${place} has no build from before the live one.`);
  const known = builds.slice(0, 5).map(({ id }) => id);
  return new SvcError("NOT_FOUND", `${place} has no build "${buildId}".`, {
    help: known.length === 0 ? "Nothing was deployed there." : `The newest are ${known.join(", ")}.`,
  });
}
