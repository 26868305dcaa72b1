import { manifestLayers } from "../../domain/manifest.ts";
import { requireEnvironment, requireScope } from "../authenticate.ts";
import type { RequestContext } from "../context.ts";
import { type BuildInput, readBuildRequest } from "../deploy/build-request.ts";
import { type Change, kindOf, nameOf } from "../deploy/diff.ts";
import { readTarget } from "../deploy/target.ts";

/** What deployBuild would do. Changes nothing. */
export async function planBuild(_: unknown, { input }: { input: BuildInput }, context: RequestContext) {
  requireScope(context, "read");
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
