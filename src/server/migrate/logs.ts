/** On the way back to the disk: the newest lines of each log as a file, as many as one file keeps. The bucket keeps all of them. */
import { existsSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import path from "node:path";
import { LOG_FILE_MAX_BYTES } from "../../domain/limits.ts";
import { writeFileAtomic } from "../../lib/write-file-atomic.ts";
import { ChunkIndex } from "../../logs/chunk-index.ts";
import { ChunkObjects } from "../../logs/chunk-objects.ts";
import type { MoveNeeds } from "./needs.ts";

/** What may be a part of a file's name. */
const NAME = /^[\w-]+$/;

/** May be done again. A log of which a file is there already was never in the bucket. */
export async function logsToFiles({ dataDir, postgres, bucket, told, signal }: MoveNeeds): Promise<void> {
  if (bucket === undefined) return;
  const [index, objects] = [new ChunkIndex(postgres), new ChunkObjects(bucket)];
  const folder = path.join(dataDir, "logs");
  await mkdir(folder, { recursive: true });
  const ids = (await index.endpointIds()).filter((id) => NAME.test(id));
  for (const [n, id] of ids.entries()) {
    signal.throwIfAborted();
    told("Logs", `${n} of ${ids.length}`);
    if (existsSync(path.join(folder, `${id}.ndjson`))) continue;
    await writeFileAtomic(path.join(folder, `${id}.1.ndjson`), await newestText(index, objects, id), 0o600);
  }
}

async function newestText(index: ChunkIndex, objects: ChunkObjects, endpointId: string): Promise<string> {
  const texts: string[] = [];
  let bytes = 0;
  let page = await index.newest([endpointId], {});
  while (page.length > 0) {
    for (const row of page) {
      const text = (await objects.text(row)) ?? "";
      texts.unshift(text);
      bytes += Buffer.byteLength(text);
      if (bytes >= LOG_FILE_MAX_BYTES) return texts.join("");
    }
    page = await index.newest([endpointId], {}, page.at(-1));
  }
  return texts.join("");
}
