/**
 * A move that has begun and not ended:
 *
 *   none ──begin──▶ copying ──all is there, and counted──▶ switching ──▶ none
 *
 * Its file in the data directory, and a row in the database (database-mark.ts), keep platforms from both sides until it has ended. A
 * command that was killed finds by them where it was.
 */
import { randomUUID } from "node:crypto";
import { readFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import path from "node:path";
import { SvcError } from "../../domain/errors.ts";
import { writeFileAtomic } from "../../lib/write-file-atomic.ts";
import type { MovedJobs } from "../../queue/moving/moved-jobs.ts";
import type { RecordCounts } from "../../store/copy-records.ts";
import type { MovedLayers } from "./layers.ts";

const FILE = "migration.json";

export type MoveTarget = "database" | "disk";

export interface Move {
  readonly id: string;
  readonly to: MoveTarget;
  /** What the database, and the bucket, are called. */
  readonly database: string;
  readonly bucket: string;
  /** ISO 8601. */
  readonly began: string;
  readonly phase: "copying" | "switching";
  /** Of what was copied, once it is. */
  readonly moved?: Moved;
}

export interface Moved {
  readonly records: RecordCounts;
  readonly jobs: MovedJobs;
  readonly layers: MovedLayers;
}

/** Undefined when none has begun. Throws DATA_DIRECTORY. */
export function readMove(dataDir: string): Move | undefined {
  try {
    return JSON.parse(readFileSync(path.join(dataDir, FILE), "utf8")) as Move;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return undefined;
    throw new SvcError("DATA_DIRECTORY", `What is known of its move cannot be read: ${(error as Error).message}.`, {
      where: path.join(dataDir, FILE),
      cause: error,
    });
  }
}

export function newMove(to: MoveTarget, database: string, bucket: string): Move {
  return { id: randomUUID(), to, database, bucket, began: new Date().toISOString(), phase: "copying" };
}

export async function writeMove(dataDir: string, move: Move): Promise<void> {
  await writeFileAtomic(path.join(dataDir, FILE), `${JSON.stringify(move, undefined, 2)}\n`, 0o600);
}

export async function endMove(dataDir: string): Promise<void> {
  await rm(path.join(dataDir, FILE), { force: true });
}

/** What the folders of a move are called. */
export function moveFolders(dataDir: string, { id, began }: Move): { readonly fresh: string; readonly before: string } {
  const stamp = `${began.replace(/[-:]|\..*/g, "")}-${id.slice(0, 8)}`;
  return { fresh: path.join(dataDir, `migrated-${stamp}`), before: path.join(dataDir, `before-migrate-${stamp}`) };
}

/** For a platform that starts. Throws DATA_DIRECTORY. */
export function refuseMoving(dataDir: string): void {
  const move = readMove(dataDir);
  if (move === undefined) return;
  const where = move.to === "disk" ? `from ${move.database} into it` : `to ${move.database}`;
  throw new SvcError(
    "DATA_DIRECTORY",
    `The platform of this data directory is being moved ${where}; that has not ended.`,
    {
      where: dataDir,
      help: "Run the same svc platform migrate again: it goes on where it was. To give it up: docs/operate/migrate.md.",
    },
  );
}
