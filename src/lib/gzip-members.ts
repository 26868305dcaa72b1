/**
 * Gzip as a row of independent members, one for each CHUNK_BYTES of input. Members are compressed side by side in
 * the thread pool, and any gzip reader sees one stream. The same input gives the same bytes.
 */
import { gzip } from "node:zlib";
import { promisify } from "./parts-of-node.ts";

const CHUNK_BYTES = 4 * 1024 * 1024;
const CHUNKS_AT_ONCE = 4;
const OS_BYTE = 9;
const OS_UNKNOWN = 255;

const compress = promisify<Uint8Array, { level: number }, Buffer>(gzip);

/** One complete gzip member; its header names no time and no operating system. */
export async function gzipMember(bytes: Uint8Array, level: number): Promise<Buffer> {
  const member = await compress(bytes, { level });
  member[OS_BYTE] = OS_UNKNOWN;
  return member;
}

export async function* gzipMembers(source: AsyncIterable<Uint8Array>, level: number): AsyncGenerator<Buffer> {
  const waiting: Promise<Buffer>[] = [];
  for await (const chunk of chunksOf(source)) {
    const member = gzipMember(chunk, level);
    // Awaited below in order; until then a failure must not count as unhandled.
    member.catch(() => {});
    waiting.push(member);
    if (waiting.length === CHUNKS_AT_ONCE) yield await waiting.shift()!;
  }
  for (const member of waiting) yield await member;
}

async function* chunksOf(source: AsyncIterable<Uint8Array>): AsyncGenerator<Buffer> {
  let parts: Uint8Array[] = [];
  let size = 0;
  for await (let piece of source) {
    while (size + piece.length >= CHUNK_BYTES) {
      const head = piece.subarray(0, CHUNK_BYTES - size);
      yield Buffer.concat([...parts, head]);
      piece = piece.subarray(head.length);
      parts = [];
      size = 0;
    }
    if (piece.length > 0) parts.push(piece);
    size += piece.length;
  }
  if (size > 0) yield Buffer.concat(parts);
}
