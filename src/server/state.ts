/**
 * Where the platform keeps its state. The data directory is always one process's alone: the file `platform.db` in it is locked.
 * With SVC_DATABASE_URL the store is in PostgreSQL.
 */
import { randomUUID } from "node:crypto";
import { existsSync, readFileSync } from "node:fs";
import { hostname } from "node:os";
import path from "node:path";
import type { DatabaseSync } from "node:sqlite";
import { SvcError } from "../domain/errors.ts";
import { TAIL_LOST_TOLD_MS } from "../domain/limits.ts";
import type { Log } from "../lib/log.ts";
import { makePrivateFile } from "../lib/private-file.ts";
import { SealedText } from "../lib/sealed-text.ts";
import type { SqliteDatabase } from "../lib/sqlite.ts";
import { type Durability, readDurability } from "../postgres/durability.ts";
import { PlatformOwner } from "../postgres/owner.ts";
import { Postgres } from "../postgres/postgres.ts";
import { openPlatformDatabase } from "../store/platform-database.ts";
import { openPostgresStore } from "../store/postgres-store.ts";
import { type SealedAnew, sealPostgresAnew, sealSqliteAnew } from "../store/seal-anew.ts";
import { openSqliteStore } from "../store/sqlite-store.ts";
import type { Store } from "../store/store.ts";
import type { Config } from "./config.ts";
import { refuseNewer } from "./data-version.ts";
import { shareIdentity } from "./identity.ts";
import { refuseMarked } from "./migrate/database-mark.ts";
import { refuseMoving } from "./migrate/move.ts";
import type { Replica } from "./replica.ts";
import { keyId, readSecretKeys, type SecretKeys } from "./secret-keys.ts";
import type { Sharing } from "./sharing.ts";

/** Says that the directory belongs to a platform whose store is in PostgreSQL. */
export const DATABASE_HOME_FILE = "database.json";

export interface PlatformState {
  /** Of the data directory. */
  readonly database: SqliteDatabase;
  readonly store: Store;
  readonly secretKeys: SecretKeys;
  readonly seal: SealedText;
  /** What was sealed with older keys; undefined when there are none. */
  readonly sealedAnew: SealedAnew | undefined;
  /** Undefined: all is in the data directory. */
  readonly postgres: Postgres | undefined;
  /** What its commits were worth at the start; undefined without it. */
  readonly durability: Durability | undefined;
  /** Resolves when what other platforms have changed in the store is known here. */
  readonly caughtUp?: () => Promise<void>;
  /** Closes the store, and the ways to the databases. */
  close(): Promise<void>;
}

interface StateNeeds {
  readonly config: Pick<Config, "dataDir" | "durability" | "database" | "secretKeys" | "workerListen">;
  readonly log: Log;
  /** Called when the data directory is this process's, before its keys are read. */
  readonly beforeKeys?: () => Promise<void>;
  /** Takes calls for the platform that has the database while this one waits for it. */
  readonly replica?: Pick<Replica | Sharing, "id" | "take" | "other"> | undefined;
  /** Another platform took the database: this one must end. */
  readonly lost: (error: SvcError) => void;
  /** Told of writes for which PostgreSQL has no room. */
  readonly full: (error: SvcError) => void;
}

export async function openState({ config, beforeKeys, ...needs }: StateNeeds): Promise<PlatformState> {
  const { dataDir } = config;
  refuseMoving(dataDir);
  const database = openPlatformDatabase(dataDir, config.durability);
  refuseNewer(database, dataDir);
  try {
    await beforeKeys?.();
    const secretKeys = readSecretKeys(dataDir, config.secretKeys);
    const seal = new SealedText(...secretKeys);
    const common = { database, secretKeys, seal };
    if (config.database === undefined) {
      refuseWithoutPostgres(dataDir);
      const store = await openSqliteStore(database, seal);
      const sealedAnew = seal.hasOlderKeys ? await sealSqliteAnew(database, seal) : undefined;
      tellSealed(needs.log, secretKeys, sealedAnew);
      const postgres = undefined;
      return {
        ...common,
        store,
        sealedAnew,
        postgres,
        durability: undefined,
        close: () => closeAll([store, database]),
      };
    }
    refuseEmbedded(database.connection, dataDir);
    const opened = await openPostgres(config.database, config, { database, seal, secretKeys, ...needs });
    tellSealed(needs.log, secretKeys, opened.sealedAnew);
    return { ...common, ...opened };
  } catch (error) {
    database.close();
    throw error;
  }
}

async function openPostgres(
  { access, connectionsMax }: NonNullable<Config["database"]>,
  config: StateNeeds["config"],
  {
    database,
    seal,
    secretKeys,
    log,
    replica,
    lost,
    full,
  }: Omit<StateNeeds, "config" | "beforeKeys"> & Pick<PlatformState, "database" | "seal" | "secretKeys">,
) {
  const { dataDir } = config;
  const postgres = new Postgres({
    access,
    connectionsMax,
    full,
    told: (away) => {
      if (away !== undefined) log.error(`${away.message} ${away.help}`);
      else log.info("the database is back");
    },
    lostTail: () => log.error(TAIL_LOST),
  });
  const [home, place] = [homeOf(dataDir, postgres.name), `${dataDir} on ${hostname()}`];
  const waits = (other: string) => {
    if (replica !== undefined) replica.other(other);
    else log.info(`Another platform uses ${postgres.name}: ${other}. This one waits until that ends.`);
  };
  const owner = new PlatformOwner(postgres, { id: replica?.id ?? randomUUID(), home, place, waits, lost });
  try {
    await (replica?.take({ postgres, seal, secretKeys, owner, home, place }) ?? owner.take());
    await refuseMarked(postgres);
    const store = await openPostgresStore(postgres, seal);
    await shareIdentity(postgres, seal, config);
    const sealedAnew = seal.hasOlderKeys ? await sealPostgresAnew(postgres, seal) : undefined;
    const durability = await readDurability(postgres);
    log.info("the store is in PostgreSQL", { database: postgres.name });
    if (durability.isUnsafe) log.error(`The database may lose what was answered: ${durability.words}.`);
    else log.info(`of the database: ${durability.words}`);
    const close = () => closeAll([store, owner, postgres, database]);
    return { postgres, store, sealedAnew, durability, caughtUp: () => store.caughtUp(), close };
  } catch (error) {
    await closeAll([owner, postgres]);
    throw error;
  }
}

function tellSealed(log: Log, [newest, ...older]: SecretKeys, sealed: SealedAnew | undefined): void {
  if (sealed === undefined) return;
  const { renewed, unreadable } = sealed;
  const names = older.map(keyId).join(", ");
  log.info(`Secrets are sealed with key ${keyId(newest)} now; of what is stored nothing needs ${names}.`, { renewed });
  if (unreadable > 0) log.error("Some secrets are sealed with a key that is not here: set them again.", { unreadable });
}

async function closeAll(parts: readonly { close(): Promise<void> | void }[]): Promise<void> {
  for (const part of parts) await part.close();
}

/** A name that no other data directory has. Stays when the directory is moved. */
export function homeOf(dataDir: string, name: string): string {
  const file = path.join(dataDir, DATABASE_HOME_FILE);
  makePrivateFile(file, `${JSON.stringify({ home: randomUUID(), database: name })}\n`);
  return (JSON.parse(readFileSync(file, "utf8")) as { home: string }).home;
}

/** What the PostgreSQL is called that the directory's platform has its records in; undefined: they are in the directory. */
export function databaseOf(dataDir: string): string | undefined {
  const file = path.join(dataDir, DATABASE_HOME_FILE);
  if (!existsSync(file)) return undefined;
  return (JSON.parse(readFileSync(file, "utf8")) as { database: string }).database;
}

/** Its jobs and files would look like those of endpoints that are gone, and be removed. */
function refuseEmbedded(connection: DatabaseSync, dataDir: string): void {
  const tables = connection.prepare("SELECT 1 FROM sqlite_master WHERE name = 'endpoints'").get();
  if (tables === undefined) return;
  const { n } = connection
    .prepare("SELECT (SELECT count(*) FROM apps) + (SELECT count(*) FROM endpoints) AS n")
    .get() as {
    n: number;
  };
  if (n === 0) return;
  throw new SvcError(
    "DATA_DIRECTORY",
    "The data directory holds an embedded platform, whose apps are not in the database.",
    {
      where: dataDir,
      help: "Move it there with svc platform migrate, or leave SVC_DATABASE_URL out (docs/operate/migrate.md).",
    },
  );
}

function refuseWithoutPostgres(dataDir: string): void {
  const database = databaseOf(dataDir);
  if (database === undefined) return;
  throw new SvcError("DATA_DIRECTORY", `The data directory belongs to a platform whose apps are in ${database}.`, {
    where: dataDir,
    help: `Set SVC_DATABASE_URL. To begin anew without that database, remove ${DATABASE_HOME_FILE} in it.`,
  });
}

const TAIL_LOST =
  "The database lacks the end of what it had stored: a standby took over that had not got it. Jobs of that end are lost; the others were read again.";

/** What whoever looks at the platform is told while the database is away, and for a day after it lost something. */
export function databaseNotices(postgres: Postgres | undefined, now = performance.now()): string[] {
  const { away, tailLostAt } = postgres ?? {};
  const isRecent = tailLostAt !== undefined && now - tailLostAt < TAIL_LOST_TOLD_MS;
  return [
    ...(away === undefined ? [] : [`${away.message} ${away.help} Nothing is deployed and no worker starts meanwhile.`]),
    ...(isRecent ? [`${TAIL_LOST} A synchronous standby loses nothing (docs/operate/postgresql.md).`] : []),
  ];
}
