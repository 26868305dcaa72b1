/** Replicas of the queue on one database, each with connections and memory of its own. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TestContext } from "node:test";
import { DiskBodyStore } from "../../src/queue/bodies/disk-body-store.ts";
import { openPostgresQueue, type PostgresQueueOptions, type ReplicaQueue } from "../../src/queue/postgres-queue.ts";
import { eventually } from "../eventually.ts";
import { postgresAt } from "./open-postgres-queue.ts";

/** Of a replica, or that it is over. */
export interface Opened {
  readonly queue: ReplicaQueue;
  readonly moved: string[];
}

export async function openReplica(
  t: TestContext,
  url: string,
  id: string,
  options: Partial<PostgresQueueOptions> & { readonly told?: () => void } = {},
): Promise<Opened> {
  const dir = mkdtempSync(join(tmpdir(), "svc-replica-"));
  const postgres = postgresAt(url);
  const moved: string[] = [];
  const { told = () => {}, ...others } = options;
  const queue = await openPostgresQueue({
    postgres,
    bodies: await DiskBodyStore.open(dir, false),
    clock: Date.now,
    ...others,
    replica: {
      id,
      address: `${id}:1`,
      links: { first: 1, last: 1 },
      moved: (ids) => moved.push(...ids),
      told,
    },
  });
  t.after(async () => {
    await queue.close();
    await postgres.close();
    rmSync(dir, { recursive: true });
  });
  return { queue, moved };
}

/** Resolves when the replica has so many shards, or those that `wanted` says. */
export function has({ queue }: Opened, wanted: number | ((shards: readonly number[]) => boolean)): Promise<void> {
  return eventually(() => {
    const shards = queue.shards.ownership.in("OWNER");
    const is = typeof wanted === "number" ? shards.length === wanted : wanted(shards);
    if (!is) throw new Error(`it has ${shards.length} shards`);
  });
}
