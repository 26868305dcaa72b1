/** Accepts and finishes jobs until it is killed, and prints each id after the promise resolved. */
import { writeSync } from "node:fs";
import { join } from "node:path";
import { INLINE_BODY_MAX_BYTES } from "../../src/domain/limits.ts";
import { type Durability, openSqlite } from "../../src/lib/sqlite.ts";
import { openSqliteQueue } from "../../src/queue/sqlite-queue.ts";

const [dir, durability] = process.argv.slice(2) as [string, Durability];
const database = openSqlite(join(dir, "queue.db"), durability);
const queue = await openSqliteQueue({ database, blobDir: join(dir, "blobs"), clock: Date.now });
const never = new AbortController().signal;

async function work(): Promise<void> {
  for (;;) {
    for (const claim of await queue.claim("e", "w", 4, never)) {
      if (await queue.finish(claim, { state: "COMPLETED", output: claim.input })) {
        writeSync(1, `${claim.jobId} COMPLETED\n`);
      }
    }
  }
}

async function submit(lane: number): Promise<void> {
  for (let n = lane; ; n += 8) {
    const input = Buffer.alloc(n % 10 === 0 ? INLINE_BODY_MAX_BYTES + 10 : 10, "x");
    const { id } = await queue.enqueue({
      id: `job-${n}`,
      endpointId: "e",
      input,
      method: "",
      webhook: "",
      idempotencyKey: "",
      lowPriority: false,
      executionTimeoutMs: 60_000,
      ttlMs: 3_600_000,
      retentionMs: 3_600_000,
    });
    writeSync(1, `${id} ACCEPTED\n`);
  }
}

void work();
for (let lane = 0; lane < 8; lane++) void submit(lane);
