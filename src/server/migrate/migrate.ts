/**
 * `svc platform migrate`: what a platform keeps, from its data directory to PostgreSQL and a bucket, or back. The data directory
 * stays the platform's: its key, volumes and certificates are not moved, and logs follow when it starts.
 *
 *   checks ──▶ marks on both sides ──▶ layers ──▶ records ──▶ jobs ──▶ counted again ──▶ the data directory changes ──▶ marks go
 */
import { hostname } from "node:os";
import { SvcError } from "../../domain/errors.ts";
import { Postgres } from "../../postgres/postgres.ts";
import type { Transaction } from "../../queue/moving/moved-jobs.ts";
import type { Query } from "../../queue/postgres/connection.ts";
import { Bucket } from "../../s3/bucket.ts";
import { type Move, type Moved, type MoveTarget, newMove, readMove } from "./move.ts";
import type { MigrateOptions, MoveNeeds } from "./needs.ts";
import { toDatabase } from "./to-database.ts";
import { toDisk } from "./to-disk.ts";

export interface MigrateFacts extends Moved {
  readonly to: MoveTarget;
  readonly dataDir: string;
  readonly database: string;
  /** "" for none. */
  readonly bucket: string;
  readonly dryRun: boolean;
  /** It went on where an earlier one had ended. */
  readonly resumed: boolean;
  /** Where the data directory's own is kept; undefined in a dry run. */
  readonly before: string | undefined;
}

/** Throws CONFLICT, and changes nothing, when one of both sides is not as it must be. */
export async function migratePlatform(options: MigrateOptions): Promise<MigrateFacts> {
  const { config, to, dryRun } = options;
  const { dataDir, database, s3 } = config;
  if (database === undefined && s3 !== undefined) {
    throw new SvcError("USAGE", "A bucket alone takes no platform: records and jobs go to a database.", {
      help: "Set SVC_DATABASE_URL too. To keep only layers there, start the platform with the bucket and deploy once more.",
    });
  }
  if (database === undefined) {
    throw new SvcError("USAGE", "Which database is meant is not said.", {
      help: "Set SVC_DATABASE_URL, or name it: --to postgres://USER@HOST/DATABASE.",
    });
  }
  const postgres = new Postgres({ access: database.access, connectionsMax: 2 });
  const bucket = s3 && (await Bucket.open(s3));
  const taken = new AbortController();
  try {
    const names = { database: postgres.name, bucket: bucket === undefined ? "" : `${s3!.name}/${s3!.prefix}` };
    const began = readMove(dataDir);
    if (began !== undefined) refuseOther(began, { to, ...names });
    const move = began ?? newMove(to, names.database, names.bucket);
    const query: Query = async (text, values) => (await postgres.query(text, values)).rows as never[];
    const needs: MoveNeeds = {
      ...{ ...options, dataDir, move, postgres, bucket, query, transaction: transactionsOf(postgres) },
      place: `${dataDir} on ${hostname()}`,
      signal: AbortSignal.any([options.signal, taken.signal]),
      lost: (error) => taken.abort(error),
    };
    const result = await (to === "database" ? toDatabase(needs) : toDisk(needs));
    return { to, dataDir, ...names, dryRun, resumed: began !== undefined, ...result };
  } finally {
    bucket?.close();
    await postgres.close();
  }
}

function refuseOther(began: Move, now: Pick<Move, "to" | "database" | "bucket">): void {
  if (began.to === now.to && began.database === now.database && began.bucket === now.bucket) return;
  const bucket = began.bucket === "" ? "" : ` and ${began.bucket}`;
  const how = began.to === "database" ? `to ${began.database}${bucket}` : `from ${began.database}${bucket} to the disk`;
  throw new SvcError("CONFLICT", `Another move has begun and not ended: ${how}.`, {
    help: "Run that one again, with its settings: it goes on where it was. To give it up: docs/operate/migrate.md.",
  });
}

function transactionsOf(postgres: Postgres): Transaction {
  return async (work) => {
    const connection = await postgres.acquire();
    try {
      await connection.query("BEGIN");
      const result = await work(async (text, values) => (await connection.query(text, values)).rows as never[]);
      await connection.query("COMMIT");
      return result;
    } finally {
      // One whose transaction did not end is closed.
      connection.release();
    }
  };
}
