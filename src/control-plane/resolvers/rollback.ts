import { SvcError } from "../../domain/errors.ts";
import type { Build } from "../../store/store.ts";
import { requireEnvironment, requireScope } from "../authenticate.ts";
import type { RequestContext } from "../context.ts";
import { readBuildRequest } from "../deploy/build-request.ts";
import { type Deployment, release } from "../deploy/release.ts";
import { knownEnvironment } from "../known-environment.ts";

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
export async function rollback(_: unknown, args: RollbackArguments, context: RequestContext): Promise<Deployment> {
  requireScope(context, "deploy");
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
