/** From PostgreSQL and a bucket back into the data directory. What they hold stays there, marked: no platform starts on it by mistake. */
import { existsSync, lstatSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import path from "node:path";
import { DatabaseSync } from "node:sqlite";
import { openDiskArtifactStore } from "../../artifacts/disk-artifact-store.ts";
import { S3ArtifactStore } from "../../artifacts/s3-artifact-store.ts";
import { SvcError } from "../../domain/errors.ts";
import { SYNCS_AT_ONCE } from "../../domain/limits.ts";
import { syncTree } from "../../lib/sync-tree.ts";
import { DiskBodyStore } from "../../queue/bodies/disk-body-store.ts";
import { S3BodyStore } from "../../queue/bodies/s3-body-store.ts";
import { countPostgres, countSqlite } from "../../queue/moving/counts.ts";
import { jobsToSqlite } from "../../queue/moving/jobs-to-sqlite.ts";
import type { MovedJobs } from "../../queue/moving/moved-jobs.ts";
import { BodyFiles } from "../../queue/sqlite/body-files.ts";
import { migrateQueue } from "../../queue/sqlite/schema.ts";
import { copyRecords, countRecords } from "../../store/copy-records.ts";
import { DATABASE_FILE, openPlatformDatabase } from "../../store/platform-database.ts";
import { postgresRecords } from "../../store/postgres-store.ts";
import { openSqliteStore, sqliteRecords } from "../../store/sqlite-store.ts";
import { DATABASE_HOME_FILE, homeOf } from "../state.ts";
import { ownDatabase, readMark, refuseMarked, requireCurrent, writeMark } from "./database-mark.ts";
import { type MovedLayers, moveLayers } from "./layers.ts";
import { logsToFiles } from "./logs.ts";
import { endMove, type Moved, moveFolders, writeMove } from "./move.ts";
import { bytesWords, jobWords, type MoveNeeds, type MoveResult, neededLayers, requireSame } from "./needs.ts";
import { switchEntries } from "./switch.ts";

const LAYERS = "artifacts";
const BODIES = "bodies";
/** How far the jobs are, in the database that is made. */
const BOOK = "moved_jobs";

export async function toDisk(needs: MoveNeeds): Promise<MoveResult> {
  const { dataDir, place, move, postgres, dryRun } = needs;
  let { moved } = move;
  const folders = moveFolders(dataDir, move);
  if (move.phase === "copying") {
    moved = await copied(needs, folders.fresh);
    if (dryRun) return { ...moved, before: undefined };
    await writeMove(dataDir, { ...move, phase: "switching", moved });
  }
  needs.told("Changing the data directory", "");
  dropBook(folders.fresh);
  await switchEntries(dataDir, [BODIES, DATABASE_HOME_FILE], folders);
  await writeMark(postgres, move.id, `its platform was moved to ${place}.`);
  await endMove(dataDir);
  return { ...moved!, before: folders.before };
}

async function copied(needs: MoveNeeds, fresh: string): Promise<Moved> {
  const { dataDir, place, move, postgres, bucket, dryRun } = needs;
  if (!existsSync(path.join(dataDir, DATABASE_HOME_FILE))) {
    throw new SvcError("CONFLICT", "The platform of this data directory is in no database.", {
      where: dataDir,
      help: "Name the data directory of the platform that uses the database: --data-dir.",
    });
  }
  const lock = openPlatformDatabase(dataDir, "normal");
  try {
    const mark = await readMark(postgres);
    if (mark !== undefined && mark.id !== move.id) await refuseMarked(postgres);
    await requireCurrent(postgres);
    if (bucket === undefined) await requireLayersHere(needs);
    if (dryRun) return await looked(needs);
    const owner = await ownDatabase(
      postgres,
      homeOf(dataDir, postgres.name),
      `svc platform migrate to ${place}`,
      needs.lost,
    );
    try {
      await writeMove(dataDir, move);
      await writeMark(postgres, move.id, `its platform is being moved to ${place}, and that has not ended.`);
      await mkdir(fresh, { mode: 0o700, recursive: true });
      if (!lstatSync(fresh).isDirectory()) {
        throw new SvcError("DATA_DIRECTORY", "A symbolic link lies where what is moved goes.", { where: fresh });
      }
      const layers = await layersOf(needs, fresh);
      const rows = await rowsOf(needs, fresh);
      await logsToFiles(needs);
      await syncTree(fresh, SYNCS_AT_ONCE);
      return { ...rows, layers };
    } finally {
      await owner.close();
    }
  } finally {
    lock.close();
  }
}

async function requireLayersHere({ dataDir, postgres }: MoveNeeds): Promise<void> {
  if (existsSync(path.join(dataDir, LAYERS)) || (await neededLayers(postgresRecords(postgres))).size === 0) return;
  throw new SvcError("CONFLICT", "The platform has its layers in a bucket, and which one is not said.", {
    help: "Set SVC_S3_BUCKET and what goes with it, as for the platform.",
  });
}

async function layersOf(
  { dataDir, postgres, bucket, dryRun, told, signal }: MoveNeeds,
  fresh: string,
): Promise<MovedLayers> {
  const needed = await neededLayers(postgresRecords(postgres));
  const here = bucket === undefined;
  const folder = path.join(dataDir, LAYERS);
  if (here && !existsSync(folder)) return { count: 0, bytes: 0, missing: 0 };
  return moveLayers({
    from: here ? await openDiskArtifactStore(folder) : new S3ArtifactStore(bucket, Date.now),
    // Those that are here stay where they are.
    to: here || dryRun ? undefined : await openDiskArtifactStore(path.join(fresh, LAYERS)),
    ...{ needed, signal },
    placeOf: (digest) =>
      here ? path.join(folder, digest.slice(0, 2), digest) : `${bucket.settings.prefix}layers/${digest}`,
    told: (done, of, bytes) => told("Layers", `${done} of ${of}, ${bytesWords(bytes)}`),
  });
}

async function rowsOf(needs: MoveNeeds, fresh: string): Promise<Omit<Moved, "layers">> {
  const { dataDir, postgres, bucket, query, told, signal } = needs;
  const database = openPlatformDatabase(fresh, "full");
  try {
    const { connection } = database;
    // Its tables are made; what it would keep in memory is not used.
    await openSqliteStore(database);
    migrateQueue(connection);
    told("Records", "");
    const records = await copyRecords(postgresRecords(postgres), sqliteRecords(database));
    connection.exec(
      `CREATE TABLE IF NOT EXISTS ${BOOK} (one INTEGER PRIMARY KEY CHECK (one = 1), state TEXT NOT NULL)`,
    );
    const kept = connection.prepare(`SELECT state FROM ${BOOK}`).get() as { state: string } | undefined;
    const keep = connection.prepare(
      `INSERT INTO ${BOOK} VALUES (1, ?) ON CONFLICT (one) DO UPDATE SET state = excluded.state`,
    );
    const jobs: MovedJobs = await jobsToSqlite({
      ...{ query, target: connection, signal, before: kept && JSON.parse(kept.state) },
      bodies:
        bucket === undefined ? await DiskBodyStore.open(path.join(dataDir, BODIES), true) : new S3BodyStore(bucket),
      files: new BodyFiles(path.join(fresh, "blobs"), true),
      keep: (state) => {
        keep.run(JSON.stringify(state));
      },
      told: (moved) => told("Jobs", `${jobWords(moved)}, with ${bytesWords(moved.bodyBytes)} outside their rows`),
    });
    told("Counting", "");
    requireSame(await countPostgres(query), countSqlite(connection));
    return { records, jobs };
  } finally {
    database.close();
  }
}

/** Nothing, where the database is in its place already. */
function dropBook(fresh: string): void {
  const file = path.join(fresh, DATABASE_FILE);
  if (!existsSync(file)) return;
  const database = new DatabaseSync(file);
  database.exec(`DROP TABLE IF EXISTS ${BOOK}`);
  database.close();
}

/** What would be moved. */
async function looked(needs: MoveNeeds): Promise<Moved> {
  const { postgres, query } = needs;
  const one = async (sql: string) => (await query<{ n: number }>(sql))[0]!.n;
  const outside = [
    "SELECT (count(input_ref) + count(output_ref)) AS n FROM open_jobs",
    "SELECT (count(input_ref) + count(output_ref) + count(error_ref)) AS n FROM done_jobs",
    "SELECT count(ref) AS n FROM job_chunks",
  ];
  let bodies = 0;
  for (const sql of outside) bodies += await one(sql);
  return {
    records: await countRecords(postgresRecords(postgres)),
    jobs: {
      open: await one("SELECT count(*) AS n FROM open_jobs"),
      done: await one("SELECT count(*) AS n FROM done_jobs"),
      expired: await one("SELECT count(*) AS n FROM expired_jobs"),
      ...{ bodies, bodyBytes: 0, lostBodies: 0 },
    },
    layers: await layersOf(needs, ""),
  };
}
