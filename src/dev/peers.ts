/**
 * Endpoints that other code of the project may call: a function's name stands in another file than its own, or once more in
 * its own. A guess on the safe side: they are made live together with the endpoint that is called, because a worker
 * that calls one finds it only when it is there.
 */
import path from "node:path";
import type { LayersBuild } from "../build/build-layers.ts";
import { plainTextIfAny } from "../lib/plain-text.ts";

export function possiblePeers(build: LayersBuild, projectDir: string): string[] {
  const words = new Map<string, Map<string, number>>();
  for (const file of build.files) {
    if (file.path.endsWith(".py") && file.linkTo === undefined)
      words.set(file.path, countWords(path.join(projectDir, file.path)));
  }
  const isMentioned = (name: string, own: string) =>
    [...words].some(([file, counts]) => (counts.get(name) ?? 0) > (file === own ? 1 : 0));
  return build.scan.endpoints
    .filter(({ functions, place }) => functions.some((fn) => isMentioned(fn.name, place.file ?? "")))
    .map(({ name }) => name);
}

function countWords(file: string): Map<string, number> {
  const counts = new Map<string, number>();
  const text = plainTextIfAny(file) ?? ""; // Gone since the build: the next one knows.
  // The name of an endpoint is often that of its function, and stands in quotes.
  for (const [word] of text.replaceAll(/(["'])[\w-]*\1/g, "").matchAll(/[A-Za-z_]\w*/g))
    counts.set(word, (counts.get(word) ?? 0) + 1);
  return counts;
}
