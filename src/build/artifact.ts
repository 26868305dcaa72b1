/**
 * artifact.tar.gz as a row of gzip members that together are one tar: manifest and requirements, the source layer,
 * each dependency layer, the end-of-archive blocks. Layers are copied as they are, never compressed again.
 */
import { createHash } from "node:crypto";
import { closeSync, openSync, readSync, renameSync, rmSync, statSync, writeSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import path from "node:path";
import { GZIP_LEVEL_SOURCE } from "../domain/limits.ts";
import type { Manifest } from "../domain/manifest.ts";
import { gzipMember, gzipMembers } from "../lib/gzip-members.ts";
import { packTar } from "../lib/tar-pack.ts";
import { temporaryName } from "../lib/write-file-atomic.ts";
import type { CachedLayer, LayerCache } from "./layer-cache.ts";

const END_OF_ARCHIVE = new Uint8Array(1024);
const COPY_BYTES = 4 * 1024 * 1024;

/** Text of svc_manifest.json. */
export function manifestText(manifest: Manifest): string {
  return `${JSON.stringify(manifest, null, 2)}\n`;
}

interface ArtifactRecord {
  readonly parts: string;
  readonly stamp: string;
}

/** The members around the layers: made first, because they count towards the size. */
export async function artifactFrame(manifest: Manifest, requirements: string): Promise<{ head: Buffer; tail: Buffer }> {
  const entries = [
    { name: "svc_manifest.json", content: Buffer.from(manifestText(manifest)) },
    { name: "requirements.txt", content: Buffer.from(requirements) },
  ];
  const members: Buffer[] = [];
  for await (const member of gzipMembers(packTar(entries), GZIP_LEVEL_SOURCE)) members.push(member);
  return { head: Buffer.concat(members), tail: await gzipMember(END_OF_ARCHIVE, GZIP_LEVEL_SOURCE) };
}

/** Writes the archive, or leaves it when it is there with just these parts. */
export async function writeArtifact(
  file: string,
  frame: { readonly head: Buffer; readonly tail: Buffer },
  layers: readonly CachedLayer[],
  cache: LayerCache,
): Promise<void> {
  const hash = createHash("sha256").update(frame.head).update(frame.tail);
  for (const layer of layers) hash.update(layer.digest);
  const parts = hash.digest("hex");
  const key = createHash("sha256").update(path.resolve(file)).digest("hex").slice(0, 32);
  const record = cache.record<ArtifactRecord>("artifacts", key);
  if (record?.parts === parts && record.stamp === stampOf(file)) return;
  await mkdir(path.dirname(file), { recursive: true });
  const temporary = temporaryName(file);
  try {
    join(temporary, frame, layers);
    renameSync(temporary, file);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
  await cache.remember("artifacts", key, { parts, stamp: stampOf(file) });
}

function join(file: string, frame: { head: Buffer; tail: Buffer }, layers: readonly CachedLayer[]): void {
  const output = openSync(file, "w");
  const buffer = Buffer.allocUnsafe(COPY_BYTES);
  try {
    writeSync(output, frame.head);
    for (const layer of layers) {
      const input = openSync(layer.path, "r");
      try {
        for (let read = readSync(input, buffer); read > 0; read = readSync(input, buffer)) {
          for (let written = 0; written < read; ) written += writeSync(output, buffer, written, read - written);
        }
      } finally {
        closeSync(input);
      }
    }
    writeSync(output, frame.tail);
  } finally {
    closeSync(output);
  }
}

function stampOf(file: string): string {
  try {
    const stat = statSync(file, { bigint: true });
    return `${stat.size}-${stat.mtimeNs}-${stat.ctimeNs}-${stat.ino}`;
  } catch {
    return "";
  }
}
