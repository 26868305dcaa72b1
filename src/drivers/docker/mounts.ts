/** What of an endpoint's build lies in its container besides what the image has: code, packages, volumes and its cache. */
import { chmod } from "node:fs/promises";
import path from "node:path";
import type { LayerFolder } from "../layers.ts";
import type { VolumeFolders } from "../volume-folders.ts";
import type { WorkerImage } from "../worker-driver.ts";
import type { PreparedImage } from "./image-check.ts";
import { INSIDE, type Mount } from "./worker-container.ts";

interface MountSources {
  readonly layers: LayerFolder;
  readonly volumes: VolumeFolders;
  /** The package that the launcher runs from. */
  readonly pythonPath: string;
  /** Where the launcher dials in. */
  readonly socketPath: string;
}

/** Unpacks layers and makes the folders of volumes that are not there yet. Throws SvcError. */
export async function mountsOf(
  image: WorkerImage,
  { layers, volumes, pythonPath, socketPath }: MountSources,
): Promise<Pick<PreparedImage, "mounts" | "handler" | "paths">> {
  const source = await layers.ensure(image.sourceLayer);
  const ofBuild: Mount[] = [{ from: source, to: INSIDE.source }];
  const paths = [`${INSIDE.source}/src`];
  if (image.dependencyLayer !== null) {
    const layer = await layers.ensure(image.dependencyLayer);
    ofBuild.push({ from: layer, to: INSIDE.dependencies });
    const packages = await layers.packages(image.dependencyLayer);
    paths.push(path.posix.join(INSIDE.dependencies, path.relative(layer, packages)));
  }
  // The folder above lets no other user of this machine in.
  for (const { from } of ofBuild) await chmod(from, 0o755);
  const mounts: Mount[] = [
    { from: pythonPath, to: INSIDE.runtime },
    { from: path.dirname(socketPath), to: INSIDE.socketDir },
    ...ofBuild,
    ...(await volumes.mounts(image.volumes)),
  ];
  if (image.cache !== undefined) {
    mounts.push({ from: await volumes.ensure(image.cache), to: INSIDE.cache, writable: true });
  }
  return { mounts, handler: `${INSIDE.source}/${image.handler}`, paths };
}
