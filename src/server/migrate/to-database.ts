/** From the data directory to PostgreSQL, and to the bucket where there is one. */
import { existsSync } from "node:fs";
import path from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { openDiskArtifactStore } from "../../artifacts/disk-artifact-store.ts";
import { S3ArtifactStore } from "../../artifacts/s3-artifact-store.ts";
import { SvcError } from "../../domain/errors.ts";
import type { SqliteDatabase } from "../../lib/sqlite.ts";
import type { BodyStore } from "../../queue/bodies/body-store.ts";
import { DiskBodyStore } from "../../queue/bodies/disk-body-store.ts";
import { S3BodyStore } from "../../queue/bodies/s3-body-store.ts";
import { countPostgres, countSqlite } from "../../queue/moving/counts.ts";
import { jobsToPostgres } from "../../queue/moving/jobs-to-postgres.ts";
import type { MovedJobs } from "../../queue/moving/moved-jobs.ts";
import { seqAt } from "../../queue/postgres/numbers.ts";
import { rollPartitions } from "../../queue/postgres/partitions.ts";
import { migrateQueue } from "../../queue/postgres/schema.ts";
import { BodyFiles } from "../../queue/sqlite/body-files.ts";
import type { Bucket } from "../../s3/bucket.ts";
import { copyRecords, countRecords } from "../../store/copy-records.ts";
import { DATABASE_FILE, openPlatformDatabase } from "../../store/platform-database.ts";
import { openPostgresStore, postgresRecords } from "../../store/postgres-store.ts";
import { sqliteRecords } from "../../store/sqlite-store.ts";
import { stepsToDo } from "../data-version.ts";
import { DATABASE_HOME_FILE, homeOf } from "../state.ts";
import { KEEP_JOBS, ownDatabase, readMark, refuseMarked, refuseUsed, removeMark, writeMark } from "./database-mark.ts";
import { type MovedLayers, markBucket, moveLayers, refuseLinks, unmarkBucket } from "./layers.ts";
import { endMove, type Moved, moveFolders, writeMove } from "./move.ts";
import { bytesWords, jobWords, type MoveNeeds, type MoveResult, neededLayers, requireSame } from "./needs.ts";
import { switchEntries } from "./switch.ts";

const LAYERS = "artifacts";
const BODIES = "blobs";

export async function toDatabase(needs: MoveNeeds): Promise<MoveResult> {
  const { dataDir, move, postgres, bucket, dryRun } = needs;
  let { moved } = move;
  if (move.phase === "copying") {
    moved = await copied(needs);
    if (dryRun) return { ...moved, before: undefined };
    await writeMove(dataDir, { ...move, phase: "switching", moved });
  }
  needs.told("Changing the data directory", "");
  const folders = moveFolders(dataDir, move);
  await switchEntries(dataDir, bucket === undefined ? [BODIES] : [BODIES, LAYERS], folders);
  homeOf(dataDir, postgres.name);
  if (bucket !== undefined) await unmarkBucket(bucket);
  await removeMark(postgres);
  await endMove(dataDir);
  return { ...moved!, before: folders.before };
}

async function copied(needs: MoveNeeds): Promise<Moved> {
  const { dataDir, place, move, postgres, bucket, dryRun } = needs;
  requireEmbedded(dataDir);
  const database = openPlatformDatabase(dataDir, "full");
  try {
    if (stepsToDo(database.connection, dataDir) > 0) {
      throw new SvcError("CONFLICT", "The data are of an earlier version of svc.", {
        where: dataDir,
        help: "Bring them to this one first: svc upgrade.",
      });
    }
    for (const name of [LAYERS, BODIES]) await refuseLinks(path.join(dataDir, name));
    const mark = await readMark(postgres);
    if (mark === undefined) await refuseUsed(postgres);
    else if (mark.id !== move.id) await refuseMarked(postgres);
    const hasLayers = existsSync(path.join(dataDir, LAYERS));
    if (bucket !== undefined && hasLayers) await markBucket(bucket, move.id, !dryRun);
    if (dryRun) return await looked(needs, database);
    const owner = await ownDatabase(postgres, `move ${move.id}`, `svc platform migrate from ${place}`, needs.lost);
    try {
      await writeMove(dataDir, move);
      await writeMark(postgres, move.id, `a platform is being moved into it from ${place}, and that has not ended.`);
      const layers = await layersOf(needs, database);
      const store = await openPostgresStore(postgres);
      await store.close();
      needs.told("Records", "");
      const records = await copyRecords(sqliteRecords(database), postgresRecords(postgres));
      const jobs = await jobsOf(needs, database.connection, mark?.jobs);
      return { records, jobs, layers };
    } finally {
      await owner.close();
    }
  } finally {
    database.close();
  }
}

function requireEmbedded(dataDir: string): void {
  if (existsSync(path.join(dataDir, DATABASE_HOME_FILE))) {
    throw new SvcError("CONFLICT", "The platform of this data directory is in PostgreSQL already.", { where: dataDir });
  }
  if (existsSync(path.join(dataDir, DATABASE_FILE))) return;
  throw new SvcError("NOT_FOUND", "There is nothing to move: no platform was ever started here.", { where: dataDir });
}

async function layersOf(
  { dataDir, bucket, dryRun, told, signal }: MoveNeeds,
  database: SqliteDatabase,
): Promise<MovedLayers> {
  const folder = path.join(dataDir, LAYERS);
  const needed = await neededLayers(sqliteRecords(database));
  if (!existsSync(folder)) return inBucket(bucket, needed);
  const to = bucket === undefined || dryRun ? undefined : new S3ArtifactStore(bucket, Date.now);
  const facts = await moveLayers({
    ...{ from: await openDiskArtifactStore(folder), to, needed, signal },
    placeOf: (digest) => path.join(folder, digest.slice(0, 2), digest),
    told: (done, of, bytes) => told("Layers", `${done} of ${of}, ${bytesWords(bytes)}`),
  });
  return facts;
}

/** The platform had them in the bucket before. */
async function inBucket(bucket: Bucket | undefined, needed: ReadonlySet<string>): Promise<MovedLayers> {
  const layers = bucket && new S3ArtifactStore(bucket, Date.now);
  let count = 0;
  for (const digest of needed) if (await layers?.has(digest)) count += 1;
  if (count === needed.size) return { count, bytes: 0, missing: 0 };
  throw new SvcError(
    "CONFLICT",
    `The platform had its layers in a bucket; ${needed.size - count} of them are not in this one.`,
    {
      help: "Name the bucket that the platform used: SVC_S3_BUCKET, SVC_S3_PREFIX.",
    },
  );
}

async function jobsOf(
  { dataDir, move, bucket, query, transaction, told, signal, postgres }: MoveNeeds,
  source: DatabaseSync,
  before: string | null | undefined,
): Promise<MovedJobs> {
  await migrateQueue({ transaction });
  await rollPartitions(query, Date.now(), seqAt);
  const files = new BodyFiles(path.join(dataDir, BODIES), false);
  const bodies = await bodiesIn(dataDir, bucket);
  const jobs = await jobsToPostgres({
    ...{ source, transaction, bodies, signal, clock: Date.now },
    readBody: (reference) => files.read(reference),
    book: {
      before: before ? JSON.parse(before) : undefined,
      write: (write, state) => write(KEEP_JOBS, [JSON.stringify(state)]),
    },
    told: (moved) => told("Jobs", `${jobWords(moved)}, with ${bytesWords(moved.bodyBytes)} outside their rows`),
  });
  told("Counting", "");
  requireSame(countSqlite(source), await countPostgres(query));
  await requireBodies(bodies, jobs, `${postgres.name}, ${move.bucket || dataDir}`);
  return jobs;
}

function bodiesIn(dataDir: string, bucket: Bucket | undefined): Promise<BodyStore> | BodyStore {
  return bucket === undefined ? DiskBodyStore.open(path.join(dataDir, "bodies"), true) : new S3BodyStore(bucket);
}

const LAST_DAY = Date.UTC(9999, 0);

async function requireBodies(bodies: BodyStore, jobs: MovedJobs, where: string): Promise<void> {
  let there = 0;
  for await (const _ of bodies.list(LAST_DAY)) there += 1;
  if (there === jobs.bodies) return;
  throw new SvcError("INTERNAL", `Of ${jobs.bodies} large bodies ${there} have arrived.`, { where });
}

/** What would be moved. */
async function looked(needs: MoveNeeds, database: SqliteDatabase): Promise<Moved> {
  const { connection } = database;
  const one = (sql: string) => (connection.prepare(sql).get() as { n: number }).n;
  const outside = ["jobs.input", "jobs.output", "jobs.error", "chunks.body"].map((place) => {
    const [table, column] = place.split(".") as [string, string];
    return one(`SELECT count(*) AS n FROM ${table} WHERE typeof(${column}) = 'text'`);
  });
  return {
    records: await countRecords(sqliteRecords(database)),
    jobs: {
      open: one("SELECT count(*) AS n FROM jobs WHERE state < 2"),
      done: one("SELECT count(*) AS n FROM jobs WHERE state > 1"),
      expired: one("SELECT count(*) AS n FROM expired_jobs"),
      bodies: outside.reduce((sum, n) => sum + n, 0),
      bodyBytes: 0,
      lostBodies: 0,
    },
    layers: await layersOf(needs, database),
  };
}
