/** A log in files as chunks for a bucket. Their ids are made of what they hold: written again, they take the same places. */
import { createHash } from "node:crypto";
import { LOG_CHUNK_MAX_BYTES } from "../domain/limits.ts";
import type { LogFiles } from "./log-files.ts";
import type { ChunkText } from "./log-store.ts";

export async function* chunksOfFiles(files: LogFiles, endpointId: string): AsyncGenerator<ChunkText> {
  let n = 0;
  for await (const { lines } of files.read([endpointId])) {
    let text = "";
    let bytes = 0;
    for (const line of lines) {
      const more = Buffer.byteLength(line);
      if (bytes + more > LOG_CHUNK_MAX_BYTES) {
        yield chunkOf(endpointId, n++, text);
        text = "";
        bytes = 0;
      }
      text += line;
      bytes += more;
    }
    if (text !== "") yield chunkOf(endpointId, n++, text);
  }
}

function chunkOf(endpointId: string, n: number, text: string): ChunkText {
  const hash = createHash("sha256").update(endpointId).update("\n").update(text).digest("hex").slice(0, 32);
  let firstAt = Number.POSITIVE_INFINITY;
  let lastAt = 0;
  let lines = 0;
  for (const [, digits] of text.matchAll(/^\{"at":(\d{1,15}),/gm)) {
    const at = Number(digits);
    firstAt = Math.min(firstAt, at);
    lastAt = Math.max(lastAt, at);
    lines += 1;
  }
  const id = `file-${String(n).padStart(4, "0")}-${hash}`;
  return { id, endpointId, firstAt: Math.min(firstAt, lastAt), lastAt, lines, text };
}
