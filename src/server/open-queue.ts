/** Where jobs are kept: in the data directory, or in PostgreSQL with their large bodies on the disk or in a bucket. */
import path from "node:path";
import type { StorageWatch } from "../domain/storage.ts";
import type { SqliteDatabase } from "../lib/sqlite.ts";
import type { Postgres } from "../postgres/postgres.ts";
import type { BodyStore } from "../queue/bodies/body-store.ts";
import { DiskBodyStore } from "../queue/bodies/disk-body-store.ts";
import { S3BodyStore } from "../queue/bodies/s3-body-store.ts";
import { openPostgresQueue, type PostgresQueueOptions } from "../queue/postgres-queue.ts";
import type { JobQueue } from "../queue/queue.ts";
import { openSqliteQueue } from "../queue/sqlite-queue.ts";
import type { Bucket } from "../s3/bucket.ts";
import type { Config } from "./config.ts";
import type { Sharing } from "./sharing.ts";

interface QueueNeeds extends Pick<PostgresQueueOptions, "clock" | "bounds" | "lost" | "own"> {
  /** Shares the database with others, by shards. */
  readonly sharing: Sharing | undefined;
  readonly database: SqliteDatabase;
  readonly postgres: Postgres | undefined;
  readonly bucket: Bucket | undefined;
  readonly storage: StorageWatch;
}

export async function openQueue(config: Config, needs: QueueNeeds): Promise<JobQueue> {
  const { database, postgres, bucket, lost, own, sharing, ...common } = needs;
  if (postgres !== undefined) {
    const options = {
      ...{ ...common, postgres, lost, own },
      bodies: await openBodies(config, bucket),
      runsEarly: config.database?.runsEarly,
    };
    if (sharing === undefined) return openPostgresQueue(options);
    const { id, shards } = sharing;
    const { told, leaves, busy, live } = shards;
    // Where it is reached, and what its links speak, is in the table of platforms.
    const queue = await openPostgresQueue({
      ...options,
      replica: { ...{ id, told, leaves, busy, live }, address: "", links: { first: 0, last: 0 } },
    });
    shards.keeper = queue.shards;
    return queue;
  }
  return openSqliteQueue({ ...common, database, blobDir: path.join(config.dataDir, "blobs") });
}

async function openBodies({ dataDir, durability }: Config, bucket: Bucket | undefined): Promise<BodyStore> {
  if (bucket !== undefined) return new S3BodyStore(bucket);
  return DiskBodyStore.open(path.join(dataDir, "bodies"), durability === "full");
}
