/**
 * artifact.tar.gz as a row of gzip members that together are one tar: each dependency layer, the source layer,
 * manifest and requirements, the end-of-archive blocks. Layers are copied as they are, never compressed again, and
 * the large ones stand first: after an edit only what follows them is written anew.
 */
import { createHash } from "node:crypto";
import { closeSync, ftruncateSync, openSync, readSync, renameSync, rmSync, statSync, writeSync } from "node:fs";
import path from "node:path";
import { GZIP_LEVEL_SOURCE } from "../domain/limits.ts";
import type { Manifest } from "../domain/manifest.ts";
import { gzipMember, gzipMembers } from "../lib/gzip-members.ts";
import { makeFolder } from "../lib/make-folder.ts";
import { packTar } from "../lib/tar-pack.ts";
import type { CachedLayer, LayerCache } from "./layer-cache.ts";

const END_OF_ARCHIVE = new Uint8Array(1024);
const COPY_BYTES = 4 * 1024 * 1024;

/** Text of svc_manifest.json. */
export function manifestText(manifest: Manifest): string {
  return `${JSON.stringify(manifest, null, 2)}\n`;
}

/** A layer, or the members after the layers. */
interface Part {
  readonly digest: string;
  readonly sizeBytes: number;
}

interface ArtifactRecord {
  readonly parts: readonly Part[];
  readonly stamp: string;
}

/** The members after the layers. They are made first, because they count towards the size. */
export async function artifactTail(manifest: Manifest, requirements: string): Promise<Buffer> {
  const entries = [
    { name: "svc_manifest.json", content: Buffer.from(manifestText(manifest)) },
    { name: "requirements.txt", content: Buffer.from(requirements) },
  ];
  const members: Buffer[] = [];
  for await (const member of gzipMembers(packTar(entries), GZIP_LEVEL_SOURCE)) members.push(member);
  return Buffer.concat([...members, await gzipMember(END_OF_ARCHIVE, GZIP_LEVEL_SOURCE)]);
}

/** Writes the archive of `layers` and `tail`, or leaves it when it is there with just these parts. */
export async function writeArtifact(
  file: string,
  layers: readonly CachedLayer[],
  tail: Buffer,
  cache: LayerCache,
): Promise<void> {
  const parts: Part[] = layers.map(({ digest, sizeBytes }) => ({ digest, sizeBytes }));
  parts.push({ digest: createHash("sha256").update(tail).digest("hex"), sizeBytes: tail.length });
  const key = createHash("sha256").update(path.resolve(file)).digest("hex").slice(0, 32);
  const record = cache.record<ArtifactRecord>("artifacts", key);
  const intact = record !== undefined && record.stamp === stampOf(file);
  const same = intact ? commonLength(record.parts, parts) : 0;
  if (same === parts.length && record?.parts.length === same) return;
  makeFolder(path.dirname(file));
  // Moved away while it is changed: there is never half an archive under its name.
  const partial = `${file}.partial`;
  try {
    if (same > 0 && statSync(file).nlink === 1) {
      renameSync(file, partial);
      append(partial, sum(parts.slice(0, same)), layers.slice(same), tail);
    } else {
      rmSync(partial, { force: true });
      append(partial, 0, layers, tail);
    }
    renameSync(partial, file);
  } catch (error) {
    rmSync(partial, { force: true });
    throw error;
  }
  await cache.remember("artifacts", key, { parts, stamp: stampOf(file) });
}

function commonLength(before: readonly Part[], after: readonly Part[]): number {
  const different = after.findIndex((part, i) => part.digest !== before[i]?.digest);
  return different === -1 ? after.length : different;
}

function sum(parts: readonly Part[]): number {
  return parts.reduce((total, part) => total + part.sizeBytes, 0);
}

/** Cuts the file at `keepBytes` and writes the layers and the tail after that. */
function append(file: string, keepBytes: number, layers: readonly CachedLayer[], tail: Buffer): void {
  const output = openSync(file, keepBytes > 0 ? "r+" : "w");
  let position = keepBytes;
  const write = (bytes: Uint8Array) => {
    for (let done = 0; done < bytes.length; )
      done += writeSync(output, bytes, done, bytes.length - done, position + done);
    position += bytes.length;
  };
  try {
    ftruncateSync(output, keepBytes);
    for (const layer of layers) for (const chunk of chunksOf(layer.path)) write(chunk);
    write(tail);
  } finally {
    closeSync(output);
  }
}

function* chunksOf(file: string): Generator<Uint8Array> {
  const input = openSync(file, "r");
  const buffer = Buffer.allocUnsafe(COPY_BYTES);
  try {
    for (let read = readSync(input, buffer); read > 0; read = readSync(input, buffer)) yield buffer.subarray(0, read);
  } finally {
    closeSync(input);
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
