/**
 * The layer with the project's files under src/ and the generated entry files under handlers/. Its cache key is the
 * content of every file. A large file is not read again while its size, times and inode stay the same.
 */
import { createHash } from "node:crypto";
import { createReadStream, readFileSync, statSync } from "node:fs";
import path from "node:path";
import { SvcError } from "../domain/errors.ts";
import { GZIP_LEVEL_SOURCE, SOURCE_LAYERS_KEPT, SOURCE_LAYERS_KEPT_BYTES } from "../domain/limits.ts";
import type { TarEntry } from "../lib/tar-pack.ts";
import { type CachedLayer, CLOCK_TICK_MS, type LayerCache, projectKey } from "./layer-cache.ts";
import type { ProjectFile } from "./project-files.ts";

const SMALL_FILE_BYTES = 256 * 1024;

type Hashes = Record<string, { stamp: string; digest: string }>;

interface SourceLayer extends CachedLayer {
  readonly cached: boolean;
  /** By name in the layer: what stands there. */
  readonly contents: ReadonlyMap<string, string>;
}

/** `handlers` maps "hello.py" to its text. */
export async function buildSourceLayer(
  projectDir: string,
  files: readonly ProjectFile[],
  handlers: ReadonlyMap<string, string>,
  cache: LayerCache,
  signal?: AbortSignal,
): Promise<SourceLayer> {
  const project = projectKey(projectDir);
  const known = cache.record<Hashes>("file-hashes", project) ?? {};
  const hashes: Hashes = {};
  const identity = createHash("sha256");
  const entries: TarEntry[] = [];
  const contents = new Map<string, string>();
  const add = (entry: TarEntry, digest: string) => {
    entries.push(entry);
    const content = JSON.stringify([entry.name, "executable" in entry && entry.executable === true, digest]);
    contents.set(entry.name, content);
    identity.update(content);
  };

  for (const [name, text] of [...handlers].sort(([a], [b]) => (a < b ? -1 : 1))) {
    const content = Buffer.from(text);
    add({ name: `handlers/${name}`, content }, sha256(content));
  }
  for (const file of files) {
    const name = `src/${file.path}`;
    const { executable } = file;
    if (file.linkTo !== undefined) {
      add({ name, linkTo: file.linkTo }, `link ${file.linkTo}`);
    } else if (file.sizeBytes <= SMALL_FILE_BYTES) {
      const content = readFileSync(path.join(projectDir, file.path));
      add({ name, executable, content }, sha256(content));
    } else {
      const digest = await largeFileDigest(projectDir, file, known, hashes, signal);
      add({ name, executable, file: path.join(projectDir, file.path), size: file.sizeBytes }, digest);
    }
  }
  if (JSON.stringify(hashes) !== JSON.stringify(known)) await cache.remember("file-hashes", project, hashes);

  const key = identity.digest("hex");
  const record = cache.record<{ digest: string; sizeBytes: number }>("sources", key);
  const found = record && (await cache.find(record.digest, record.sizeBytes));
  if (found !== undefined) {
    await cache.touch("sources", key);
    return { ...found, contents, cached: true };
  }
  const layer = await cache.write(entries, GZIP_LEVEL_SOURCE, signal);
  for (const file of files) if (file.sizeBytes > SMALL_FILE_BYTES) requireUnchanged(projectDir, file);
  await cache.remember("sources", key, { digest: layer.digest, sizeBytes: layer.sizeBytes });
  await cache.prune("sources", { countMax: SOURCE_LAYERS_KEPT, bytesMax: SOURCE_LAYERS_KEPT_BYTES });
  return { ...layer, contents, cached: false };
}

/**
 * What one endpoint's workers are made of: the Python files that its code may need (`reach`; null: all), every other file,
 * because any code may read it, and its own entry file.
 */
export function codeDigest(
  contents: ReadonlyMap<string, string>,
  handler: string,
  reach: ReadonlySet<string> | null,
): string {
  const hash = createHash("sha256");
  for (const [name, content] of contents) {
    const isOther = name.startsWith("handlers/") ? name !== handler : isOutOfReach(name.slice("src/".length), reach);
    if (!isOther) hash.update(content);
  }
  return hash.digest("hex");
}

function isOutOfReach(file: string, reach: ReadonlySet<string> | null): boolean {
  return reach !== null && file.endsWith(".py") && !reach.has(file);
}

async function largeFileDigest(
  projectDir: string,
  file: ProjectFile,
  known: Hashes,
  hashes: Hashes,
  signal: AbortSignal | undefined,
): Promise<string> {
  const earlier = known[file.path];
  if (earlier?.stamp === file.stamp) {
    hashes[file.path] = earlier;
    return earlier.digest;
  }
  const readAt = Date.now();
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(path.join(projectDir, file.path), { signal }))
    hash.update(chunk as Buffer);
  const digest = hash.digest("hex");
  if (file.modifiedMs < readAt - CLOCK_TICK_MS) hashes[file.path] = { stamp: file.stamp, digest };
  return digest;
}

/** A layer whose bytes are not those that were hashed must not be remembered under that hash. */
function requireUnchanged(projectDir: string, file: ProjectFile): void {
  const stat = statSync(path.join(projectDir, file.path), { bigint: true });
  if (`${stat.size}-${stat.mtimeNs}-${stat.ctimeNs}-${stat.ino}` === file.stamp) return;
  throw new SvcError("BUILD_FAILED", `${file.path} changed while the project was being packed.`, {
    help: "Build again when nothing writes to it, or add it to .svcignore.",
    where: file.path,
  });
}

function sha256(content: Uint8Array): string {
  return createHash("sha256").update(content).digest("hex");
}
