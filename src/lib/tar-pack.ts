/**
 * Tar bytes that depend on names, modes and contents alone: no times, no owners, the caller's order. The
 * end-of-archive blocks are left out, so that several packs joined together are one archive; readers take a pack
 * by itself too.
 */
import { createReadStream } from "node:fs";
import { pipeline } from "node:stream/promises";
import { type Pack, pack } from "tar-stream";

const END_OF_ARCHIVE_BYTES = 1024;

type EntryHeader = Parameters<Pack["entry"]>[0];

export type TarEntry =
  | { readonly name: string; readonly executable?: boolean; readonly content: Uint8Array }
  | { readonly name: string; readonly executable?: boolean; readonly file: string; readonly size: number }
  | { readonly name: string; readonly linkTo: string };

export async function* packTar(entries: Iterable<TarEntry> | AsyncIterable<TarEntry>): AsyncGenerator<Buffer> {
  const archive = pack();
  const filled = fill(archive, entries);
  filled.catch((error: Error) => archive.destroy(error));
  let held: Buffer = Buffer.alloc(0);
  for await (const chunk of archive as AsyncIterable<Buffer>) {
    if (chunk.length < END_OF_ARCHIVE_BYTES) {
      const joined = Buffer.concat([held, chunk]);
      const keep = Math.max(0, joined.length - END_OF_ARCHIVE_BYTES);
      if (keep > 0) yield joined.subarray(0, keep);
      held = joined.subarray(keep);
      continue;
    }
    if (held.length > 0) yield held;
    const keep = chunk.length - END_OF_ARCHIVE_BYTES;
    if (keep > 0) yield chunk.subarray(0, keep);
    held = chunk.subarray(keep);
  }
  await filled;
}

async function fill(archive: Pack, entries: Iterable<TarEntry> | AsyncIterable<TarEntry>): Promise<void> {
  for await (const entry of entries) await add(archive, entry);
  archive.finalize();
}

async function add(archive: Pack, entry: TarEntry): Promise<void> {
  const header: EntryHeader = { name: entry.name, mtime: new Date(0), uid: 0, gid: 0, mode: 0o644, type: "file" };
  if ("linkTo" in entry) {
    return entryAdded(archive, { ...header, type: "symlink", mode: 0o777, linkname: entry.linkTo });
  }
  header.mode = entry.executable ? 0o755 : 0o644;
  if ("content" in entry) return entryAdded(archive, header, entry.content);
  header.size = entry.size;
  if (entry.size === 0) return entryAdded(archive, header, new Uint8Array(0));
  // A file that grows meanwhile is cut at its announced size; one that shrinks fails with "Size mismatch".
  await pipeline(createReadStream(entry.file, { end: entry.size - 1 }), archive.entry(header));
}

function entryAdded(archive: Pack, header: EntryHeader, content?: Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    const done = (error?: Error | null) => (error ? reject(error) : resolve());
    if (content === undefined) archive.entry(header, done);
    else archive.entry(header, Buffer.from(content.buffer, content.byteOffset, content.byteLength), done);
  });
}
