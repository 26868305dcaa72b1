import { requireScope } from "../authenticate.ts";
import type { RequestContext } from "../context.ts";
import { type BuildInput, readBuildRequest } from "../deploy/build-request.ts";
import { type Deployment, release } from "../deploy/release.ts";

/** Throws every problem that planBuild reports, LAYER_MISSING and ARTIFACT_TOO_LARGE. */
export async function deployBuild(
  _: unknown,
  { input }: { input: BuildInput },
  context: RequestContext,
): Promise<Deployment> {
  requireScope(context, "deploy");
  return release(readBuildRequest(input), context);
}
