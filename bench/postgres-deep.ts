/** The queue on PostgreSQL with a million jobs waiting, without HTTP and workers, also while somebody holds a snapshot. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import pg from "pg";
import { parseDatabaseUrl } from "../src/postgres/database-url.ts";
import { Postgres } from "../src/postgres/postgres.ts";
import { DiskBodyStore } from "../src/queue/bodies/disk-body-store.ts";
import { openPostgresQueue } from "../src/queue/postgres-queue.ts";
import type { PostgresServer } from "../test/postgres.ts";
import { atLeast, atMost, type Bar, median } from "./bench.ts";
import { eachUs, processorTime, residentMb } from "./processor-time.ts";
import { CLAIMED, claimAndFinish, DEPTH, fill } from "./queue-depth.ts";

export async function measureDeep(
  server: PostgresServer,
  rounds: number,
): Promise<{ figures: Record<string, number>; bars: Record<string, Bar> }> {
  const url = await server.database("deep");
  const dir = mkdtempSync(path.join(tmpdir(), "svc-bench-"));
  const postgres = new Postgres({ access: { url: parseDatabaseUrl(url), passwordFile: undefined }, connectionsMax: 1 });
  const queue = await openPostgresQueue({
    postgres,
    bodies: await DiskBodyStore.open(dir, false),
    clock: Date.now,
    bounds: { queuedMax: 2 * DEPTH },
  });
  try {
    const fillSeconds = await fill(queue, "deep", DEPTH);
    const deepMb = residentMb(process.pid);
    const rates: Record<"empty" | "deep" | "held", number[]> = { empty: [], deep: [], held: [] };
    const costs: typeof rates = { empty: [], deep: [], held: [] };
    const measure = async (name: keyof typeof rates) => {
      if (name === "empty") await fill(queue, "empty", CLAIMED);
      const spent = processorTime({ process: { pids: [process.pid] } });
      rates[name].push(await claimAndFinish(queue, name === "empty" ? "empty" : "deep"));
      costs[name].push(eachUs(spent(), CLAIMED).process!);
    };
    for (let round = 0; round < rounds; round++) {
      await measure("empty");
      await measure("deep");
    }
    const holder = new pg.Client(url);
    await holder.connect();
    await holder.query("BEGIN ISOLATION LEVEL REPEATABLE READ");
    await holder.query("SELECT count(*) FROM queue_endpoints");
    for (let round = 0; round < rounds; round++) await measure("held");
    await holder.query("COMMIT");
    await holder.end();
    const empty = median(rates.empty);
    return {
      figures: {
        "jobs accepted/s, up to a million": DEPTH / fillSeconds,
        "jobs claimed and finished/s, queue of 20,000": empty,
        "jobs claimed and finished/s, queue of 1,000,000": median(rates.deep),
        "the same with a snapshot held": median(rates.held),
        "processor time µs/job of this process, queue of 20,000": median(costs.empty),
        "processor time µs/job of this process, queue of 1,000,000": median(costs.deep),
        "resident MB, a million queued": deepMb,
      },
      bars: {
        "claim rate, full/empty": atLeast(median(rates.deep) / empty, 0.8),
        "claim rate, full with a snapshot held/empty": atLeast(median(rates.held) / empty, 0.8),
        "resident memory": atMost(deepMb, 400, " MB"),
      },
    };
  } finally {
    await queue.close();
    await postgres.close();
    rmSync(dir, { recursive: true });
  }
}
