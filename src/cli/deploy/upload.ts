import type { BuiltLayer } from "../../build/build-result.ts";
import type { ControlPlane } from "../../client/control-plane.ts";
import { SvcError } from "../../domain/errors.ts";
import { formatSize } from "../format.ts";
import type { Terminal } from "../terminal.ts";

/** Sends the layers that the platform lacks, one after the other: the link is the bottleneck. */
export async function uploadLayers(
  terminal: Terminal,
  controlPlane: ControlPlane,
  layers: readonly BuiltLayer[],
  missing: readonly string[],
): Promise<void> {
  const wanted = missing.map((digest) => layers.find((layer) => layer.digest === digest) ?? notBuilt(digest));
  const totalBytes = wanted.reduce((sum, layer) => sum + layer.sizeBytes, 0);
  if (wanted.length === 0) return;
  const progress = await terminal.progress(`Uploading ${formatSize(totalBytes)}`);
  let doneBytes = 0;
  try {
    for (const layer of wanted) {
      await controlPlane.uploadLayer(layer.digest, layer.path, {
        onProgress: (sent) => {
          if (terminal.live) progress.update(uploadText(doneBytes + sent, totalBytes));
        },
        onBreak: (reason) => progress.update(`The upload broke off, trying again. ${reason.message}`),
      });
      doneBytes += layer.sizeBytes;
    }
    progress.done(`Uploaded ${formatSize(totalBytes)}`);
  } catch (error) {
    progress.done();
    throw error;
  }
}

function uploadText(sentBytes: number, totalBytes: number): string {
  const percent = totalBytes === 0 ? 100 : Math.floor((100 * sentBytes) / totalBytes);
  return `Uploading ${formatSize(sentBytes)} of ${formatSize(totalBytes)} (${percent} %)`;
}

function notBuilt(digest: string): never {
  throw new SvcError(
    "LAYER_MISSING",
    `The platform asks for the layer ${digest.slice(0, 12)}, which is not of this build.`,
    {
      help: "Run svc deploy again.",
    },
  );
}
