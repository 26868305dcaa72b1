/**
 * 1,000,000 queued jobs in one process: how fast jobs are claimed and finished from the middle of such a queue, against an
 * almost empty one, and how much memory they take. The queue alone, on a file, without HTTP and workers.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { openSqlite } from "../src/lib/sqlite.ts";
import { timeOrderedUuid } from "../src/lib/uuid.ts";
import type { JobQueue, NewJob } from "../src/queue/queue.ts";
import { openSqliteQueue } from "../src/queue/sqlite-queue.ts";
import { atLeast, atMost, type Bench, median } from "./bench.ts";
import { eachUs, processorTime } from "./processor-time.ts";

export const DEPTH = 1_000_000;
const BATCH = 1_000;
export const CLAIMED = 20_000;
const CLAIM_SIZE = 32;
const MB = 1024 * 1024;
const INPUT = Buffer.from(JSON.stringify({ text: "x".repeat(80) }));
const OUTPUT = Buffer.from(JSON.stringify({ text: "x".repeat(80) }));
const never = new AbortController().signal;

export const bench: Bench = async ({ rounds }) => {
  const dir = mkdtempSync(path.join(tmpdir(), "svc-bench-"));
  const database = openSqlite(path.join(dir, "platform.db"), "normal");
  const clock = Date.now;
  const bounds = { queuedMax: 2 * DEPTH };
  const queue = await openSqliteQueue({ database, blobDir: path.join(dir, "blobs"), clock, bounds });
  try {
    const emptyMb = process.memoryUsage().rss / MB;
    const fillSeconds = await fill(queue, "deep", DEPTH);
    const deepMb = process.memoryUsage().rss / MB;
    const rates: Record<"empty" | "deep", number[]> = { empty: [], deep: [] };
    const costs: typeof rates = { empty: [], deep: [] };
    for (let round = 0; round < rounds; round++) {
      await fill(queue, "empty", CLAIMED);
      for (const endpoint of ["empty", "deep"] as const) {
        const spent = processorTime({ process: { pids: [process.pid] } });
        rates[endpoint].push(await claimAndFinish(queue, endpoint));
        costs[endpoint].push(eachUs(spent(), CLAIMED).process!);
      }
    }
    const [empty, deep] = [median(rates.empty), median(rates.deep)];
    return {
      conditions: {
        job: `${INPUT.length} bytes in, ${OUTPUT.length} out; durability normal; ${CLAIM_SIZE} jobs a claim`,
        rounds: `${rounds}, interleaved, ${CLAIMED} jobs each`,
      },
      figures: {
        "jobs accepted/s, up to a million": DEPTH / fillSeconds,
        "jobs claimed and finished/s, queue of 20,000": empty,
        "jobs claimed and finished/s, queue of 1,000,000": deep,
        "processor time µs/job, queue of 20,000": median(costs.empty),
        "processor time µs/job, queue of 1,000,000": median(costs.deep),
        "resident MB, empty": emptyMb,
        "resident MB, a million queued": deepMb,
        "resident MB, at the end": process.memoryUsage().rss / MB,
      },
      bars: {
        "claim rate, full/empty": atLeast(deep / empty, 0.8),
        "resident memory": atMost(deepMb, 400, " MB"),
      },
    };
  } finally {
    await queue.close();
    database.close();
    rmSync(dir, { recursive: true });
  }
};

/** Seconds. */
export async function fill(queue: JobQueue, endpointId: string, count: number): Promise<number> {
  const started = performance.now();
  for (let done = 0; done < count; done += BATCH) {
    await Promise.all(Array.from({ length: BATCH }, () => queue.enqueue(newJob(endpointId))));
  }
  return (performance.now() - started) / 1000;
}

/** Jobs per second. */
export async function claimAndFinish(queue: JobQueue, endpointId: string): Promise<number> {
  const started = performance.now();
  for (let done = 0; done < CLAIMED; ) {
    const jobs = await queue.claim(endpointId, "w", CLAIM_SIZE, never);
    await Promise.all(jobs.map((job) => queue.finish(job, { state: "COMPLETED", output: OUTPUT })));
    done += jobs.length;
  }
  return CLAIMED / ((performance.now() - started) / 1000);
}

function newJob(endpointId: string): NewJob {
  return {
    id: `${timeOrderedUuid()}-l1`,
    endpointId,
    input: INPUT,
    method: "",
    webhook: "",
    idempotencyKey: "",
    lowPriority: false,
    executionTimeoutMs: 600_000,
    ttlMs: 86_400_000,
    retentionMs: 1_800_000,
  };
}
