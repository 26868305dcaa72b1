import type { LayersBuild } from "../build/build-layers.ts";
import type { BuiltLayer } from "../build/build-result.ts";
import type { ControlPlane } from "../client/control-plane.ts";
import type { BuildInput } from "../client/records.ts";
import { refuseProblems } from "../client/refuse-problems.ts";

/**
 * Sends those of the build's layers that the platform lacks. After a save that is the source layer alone: it is sent
 * without a question, because the question costs as much. Throws what the platform would refuse, before anything is sent.
 * `sending`: uploads under way by digest, shared by endpoints that are deployed at the same time.
 */
export async function sendLayers(
  controlPlane: ControlPlane,
  input: BuildInput,
  build: LayersBuild,
  wanted: readonly string[],
  sending: Map<string, Promise<void>>,
  onProgress: (text: string) => void,
): Promise<void> {
  const known = wanted.length === 1 && wanted[0] === build.manifest.sourceLayer;
  let missing = wanted;
  if (!known && wanted.length > 0) {
    const plan = await controlPlane.planBuild(input);
    refuseProblems(plan.problems);
    missing = plan.missingLayers;
  }
  for (const digest of missing) {
    const layer = build.layers.find((each) => each.digest === digest)!;
    if (!sending.has(digest)) {
      const over = () => sending.delete(digest);
      sending.set(digest, send(controlPlane, layer, onProgress).finally(over));
    }
    await sending.get(digest);
  }
}

function send(controlPlane: ControlPlane, layer: BuiltLayer, onProgress: (text: string) => void): Promise<void> {
  let shown = -1;
  return controlPlane.uploadLayer(layer.digest, layer.path, {
    onProgress: (sentBytes) => {
      const percent = Math.floor((10 * sentBytes) / Math.max(1, layer.sizeBytes)) * 10;
      if (layer.kind === "dependencies" && percent > shown) onProgress(`sending packages: ${percent} %`);
      shown = Math.max(shown, percent);
    },
    // A call waits for the code and is told at once that the platform is away.
    patienceMs: layer.kind === "source" ? 0 : undefined,
  });
}
