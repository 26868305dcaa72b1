/** Where what workers print is kept: in the data directory, or, with PostgreSQL and a bucket, there. */
import path from "node:path";
import { durationText } from "../domain/duration.ts";
import { SvcError } from "../domain/errors.ts";
import { LOG_KEPT_MAX_BYTES, LOG_SWEEP_MS } from "../domain/limits.ts";
import type { Log } from "../lib/log.ts";
import { Reconciler } from "../lib/reconciler.ts";
import { BucketLogs, type BucketLogsOptions } from "../logs/bucket-logs.ts";
import { ChunkIndex } from "../logs/chunk-index.ts";
import { ChunkObjects } from "../logs/chunk-objects.ts";
import { LogFiles } from "../logs/log-files.ts";
import type { Mask } from "../logs/log-lines.ts";
import type { ChunkText, LogStore, LogTimes } from "../logs/log-store.ts";
import type { Postgres } from "../postgres/postgres.ts";
import type { Bucket } from "../s3/bucket.ts";
import type { AskedPlatforms } from "./asked-platforms.ts";
import type { Config } from "./config.ts";

const MB = 1024 * 1024;

interface LogNeeds {
  readonly config: Pick<Config, "dataDir" | "logsKeptMs">;
  readonly postgres: Postgres | undefined;
  readonly bucket: Bucket | undefined;
  readonly clock: () => number;
  readonly now: () => number;
  readonly mask: Mask;
  readonly log: Log;
  readonly onError: (name: string, error: unknown) => void;
  /** Platforms that hold lines too. */
  readonly asked: AskedPlatforms | undefined;
}

export interface OpenedLogs {
  readonly store: LogStore;
  readonly upkeep: readonly Pick<Reconciler, "start" | "stop">[];
  /** For other platforms: lines that are not where they find them yet. */
  unsaved(endpointIds: readonly string[], between: LogTimes): readonly ChunkText[];
  /** Where, and how long; undefined: in files. */
  readonly words?: string;
  /** Keeps what came so far, before the ways to the database and the bucket are closed. */
  close(): Promise<void>;
}

export function openLogs({ config, postgres, bucket, log, asked, ...needs }: LogNeeds): OpenedLogs {
  const { dataDir, logsKeptMs: keptMs } = config;
  const files = new LogFiles(path.join(dataDir, "logs"), needs.clock, needs.mask);
  if (postgres === undefined || bucket === undefined) {
    return { store: files, upkeep: [], unsaved: () => [], close: () => files.idle() };
  }
  // The watch over the bucket says that it is away.
  const onError = (name: string, error: unknown) => {
    if (!(error instanceof SvcError && error.code.startsWith("BUCKET_"))) needs.onError(name, error);
  };
  const [objects, index] = [new ChunkObjects(bucket), new ChunkIndex(postgres)];
  const heldElsewhere: BucketLogsOptions["heldElsewhere"] = async (...of) =>
    (await asked?.elsewhere((one) => one.heldLines(...of)))?.flat() ?? [];
  const logs = new BucketLogs({ ...needs, keptMs, objects, index, files, onError, heldElsewhere });
  const sweeping = new Reconciler("log-sweep", LOG_SWEEP_MS, () => logs.sweep(), onError);
  const start = () => {
    sweeping.start();
    sweeping.nudge();
  };
  const close = async () => {
    const lost = await logs.close();
    if (lost > 0) log.error(`${lost} lines that workers printed are lost: the bucket did not take them in time`);
  };
  const words = `in the bucket, of each endpoint the newest ${LOG_KEPT_MAX_BYTES / MB} MiB, for ${durationText(keptMs)}`;
  log.info(`logs are kept ${words}`);
  const upkeep = [{ start, stop: () => sweeping.stop() }];
  return { store: logs, upkeep, unsaved: (...asked) => logs.unsaved(...asked), words, close };
}
