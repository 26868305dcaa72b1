import type { PlatformWishes } from "../../domain/driver-offers.ts";
import { CPU_IMAGE } from "../../domain/endpoint.ts";
import { SvcError } from "../../domain/errors.ts";
import { manifestLayers } from "../../domain/manifest.ts";
import { type QuotaHolder, quotaProblem } from "../../domain/quota.ts";
import type { BriefEndpoint, Build } from "../../store/store.ts";
import { requireEnvironment } from "../authenticate.ts";
import type { RequestContext } from "../context.ts";
import { type BuildInput, readBuildRequest } from "../deploy/build-request.ts";
import { type Change, kindOf, nameOf } from "../deploy/diff.ts";
import { type Deployment, release } from "../deploy/release.ts";
import { driverProblemsOf, readTarget } from "../deploy/target.ts";
import { knownEnvironment } from "../known.ts";

interface WantedEndpoints {
  readonly app: string;
  readonly environment: string;
  readonly endpoints: readonly (QuotaHolder & {
    readonly [wish in keyof PlatformWishes]?: PlatformWishes[wish] | null;
  })[];
  readonly keepRemoved?: boolean | null;
}

/** Why deployBuild would refuse such endpoints, as far as that is known before they are built. Throws FORBIDDEN. */
export async function mayDeploy(wanted: WantedEndpoints, context: RequestContext): Promise<string[]> {
  const { store, config } = context;
  const app = await store.apps.findByName(wanted.app);
  const environments = app === undefined ? [] : await store.environments.listByApp(app.id);
  const environment = environments.find(({ name }) => name === wanted.environment);
  requireEnvironment(context, environment?.id);
  const names = new Set(wanted.endpoints.map(({ name }) => name));
  const isReplaced = ({ environmentId, name }: BriefEndpoint) =>
    environment !== undefined && environmentId === environment.id && (!wanted.keepRemoved || names.has(name));
  const others = (await store.endpoints.listBriefly()).filter((endpoint) => !isReplaced(endpoint));
  const problem = quotaProblem([...others, ...wanted.endpoints], config.workerQuota);
  const ofDriver = wanted.endpoints.flatMap(({ name, imageName, networkVolumeId, instanceIds, ...more }) => {
    const image = imageName ?? CPU_IMAGE;
    const wishes = { imageName: image, networkVolumeId: networkVolumeId ?? "", instanceIds: instanceIds ?? "" };
    const { serverPort, systemDependencies, imageSteps, gpuIds, gpuCount, hosts } = more;
    const rest = {
      ...{ gpuIds: gpuIds ?? "", gpuCount: gpuCount ?? 1, hosts: hosts ?? "" },
      serverPort: serverPort ?? 0,
      systemDependencies: systemDependencies ?? [],
      imageSteps: imageSteps ?? [],
    };
    return driverProblemsOf(name, { ...wishes, ...rest }, context);
  });
  return problem === undefined ? ofDriver : [problem, ...ofDriver];
}

/** What deployBuild would do. Changes nothing. */
export async function planBuild({ input }: { input: BuildInput }, context: RequestContext) {
  const request = readBuildRequest(input);
  const target = await readTarget(context.store, request, context);
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
    const counts = await jobs.counts(change.current.id);
    const inQueue = counts.inQueue + counts.delayed;
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
 * newest before the live one that was ready. Throws NOT_FOUND and what deployBuild throws.
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

/** One that was ready; else one of which nobody knows that it failed. */
function buildBefore(newestFirst: readonly Build[], live: string | null): Build | undefined {
  const earlier = newestFirst.slice(newestFirst.findIndex(({ id }) => id === live) + 1);
  return (
    earlier.find(({ verdict }) => verdict.state === "ready") ??
    earlier.find(({ verdict }) => verdict.state !== "failed")
  );
}

function noSuchBuild({ app, environment, buildId }: RollbackArguments, builds: readonly Build[]): SvcError {
  const place = `${app}/${environment}`;
  if (!buildId) {
    return new SvcError("NOT_FOUND", `${place} has no build from before the live one that could run.`, {
      help: builds.length > 1 ? "svc rollback --list shows each and how it fared; --to takes one all the same." : "",
    });
  }
  const known = builds.slice(0, 5).map(({ id }) => id);
  return new SvcError("NOT_FOUND", `${place} has no build "${buildId}".`, {
    help: known.length === 0 ? "Nothing was deployed there." : `The newest are ${known.join(", ")}.`,
  });
}
