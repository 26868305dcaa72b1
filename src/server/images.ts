/** The workshop for the default images of containers, as the command line needs it. */
import { fileURLToPath } from "node:url";
import { connectEngine } from "../drivers/docker/engine.ts";
import { ImageWorkshop } from "../drivers/docker/image-workshop.ts";

export type { ImageBuild, ListedImage } from "../drivers/docker/image-workshop.ts";

const ROOT = new URL(import.meta.url.endsWith(".ts") ? "../../" : "../../../", import.meta.url);

/** Throws ENGINE_UNREACHABLE. */
export async function openImageWorkshop(env: Readonly<Record<string, string | undefined>>): Promise<ImageWorkshop> {
  return new ImageWorkshop({
    ...(await connectEngine(env)),
    pythonPath: fileURLToPath(new URL("python/src", ROOT)),
    dockerfiles: fileURLToPath(new URL("deploy/docker", ROOT)),
    env,
  });
}
