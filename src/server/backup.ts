/**
 * Backups of a data directory: a folder with the same files, from one moment, and `backup.json`, which is written last. What a
 * platform makes again by itself stays out: unpacked layers, base packages, sockets, its log.
 */
import { randomUUID } from "node:crypto";
import { constants, type Dirent, existsSync, lstatSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { copyFile, lchown, mkdir, readdir, readlink, rename, rm, symlink, utimes } from "node:fs/promises";
import path from "node:path";
import { backup as copyDatabase, DatabaseSync } from "node:sqlite";
import { setTimeout as delay } from "node:timers/promises";
import { SvcError } from "../domain/errors.ts";
import { POLL_FIRST_MS, SYNCS_AT_ONCE } from "../domain/limits.ts";
import { explained, lackOf } from "../domain/storage.ts";
import { makeFolder } from "../lib/make-folder.ts";
import { isDamagedError, type SqliteDatabase } from "../lib/sqlite.ts";
import { syncTree } from "../lib/sync-tree.ts";
import { DATABASE_FILE, openPlatformDatabase } from "../store/platform-database.ts";
import { dataVersion, stepsToDo } from "./data-version.ts";
import { snapshotFolder } from "./snapshots.ts";
import { databaseOf } from "./state.ts";

const MANIFEST = "backup.json";
const VOLUMES = "volumes";
const LEFT_OUT =
  /^(platform\.json|launcher\.json|volumes-folder\.json|platform\.log|run|tmp|layers|layer-cache|base|snapshots|restored-.*|before-restore-.*|migrated-.*|before-migrate-.*|.*\.db(-wal|-shm)?)$/;

export interface BackupFacts {
  /** Of the svc that used the data last; undefined where it did not say. */
  readonly version: string | undefined;
  /** ISO 8601. */
  readonly at: string;
  readonly volumes: boolean;
  /** The PostgreSQL that has the records and jobs, which are not in the backup; undefined: they are. */
  readonly database: string | undefined;
  readonly files: number;
  readonly bytes: number;
}

/** A platform that runs on the data directory. */
export interface Holder {
  readonly pid: number;
  readonly version: string;
  /** It makes snapshots of its databases when it is asked. */
  readonly snapshots?: boolean;
}

/**
 * Copies `dataDir` into the new folder `target`, which is there when it is whole. Throws FILES_EXIST when it is there already,
 * CONFLICT when the platform cannot be copied while it runs. Aborting `signal` ends it, with nothing left.
 */
export async function backUp(
  dataDir: string,
  target: string,
  options: { readonly holder: Holder | undefined; readonly volumes: boolean; readonly signal?: AbortSignal },
): Promise<BackupFacts> {
  const { holder, volumes, signal } = options;
  if (!existsSync(path.join(dataDir, DATABASE_FILE))) {
    throw new SvcError("NOT_FOUND", "There is nothing to back up: no platform was ever started here.", {
      where: dataDir,
    });
  }
  if (existsSync(target)) {
    throw new SvcError("FILES_EXIST", `"${target}" is there already.`, { help: "Name a folder that is to be made." });
  }
  if (`${target}/`.startsWith(`${dataDir}/`)) {
    throw new SvcError("USAGE", "A backup inside the data directory would be lost with it.", { where: target });
  }
  if (holder !== undefined && !holder.snapshots) {
    throw new SvcError(
      "CONFLICT",
      `The platform that runs is of an earlier version (${holder.version}), which cannot be copied meanwhile.`,
      {
        help: "Stop it first: svc platform stop.",
      },
    );
  }
  const part = `${target}.${process.pid}.part`;
  try {
    makeFolder(path.dirname(target));
    await mkdir(part, { mode: 0o700 });
    const leftOut = (name: string) => LEFT_OUT.test(name) || (name === VOLUMES && !volumes);
    // Files of before and after the moment of the databases: what those name is among them.
    await copyEntries(dataDir, part, leftOut, signal);
    await (holder === undefined ? copyHere(dataDir, part) : copyOf(holder, dataDir, part, signal));
    await copyEntries(dataDir, part, leftOut, signal);
    const facts = {
      version: dataVersion(dataDir),
      at: new Date().toISOString(),
      volumes,
      database: databaseOf(dataDir),
      ...(await sizeOf(part)),
    };
    writeFileSync(path.join(part, MANIFEST), `${JSON.stringify(facts, undefined, 2)}\n`, { mode: 0o600 });
    await syncTree(part, SYNCS_AT_ONCE);
    await rename(part, target);
    return facts;
  } catch (error) {
    await rm(part, { recursive: true, force: true });
    throw notWritten(error, target);
  }
}

/** In a user's words, when the machine refused it. */
function notWritten(error: unknown, target: string): unknown {
  const { code, message } = error as NodeJS.ErrnoException;
  if (error instanceof SvcError || lackOf(error) !== undefined) return explained(error);
  if (!/^E[A-Z]+$/.test(code ?? "")) return error;
  return new SvcError("CONFLICT", `The backup could not be written: ${message}.`, {
    where: target,
    help: "Name a folder that this user can make.",
    cause: error,
  });
}

/** What a backup says of itself. Throws NOT_FOUND for a folder that is none. */
export function readBackup(source: string): BackupFacts {
  try {
    return JSON.parse(readFileSync(path.join(source, MANIFEST), "utf8"));
  } catch (error) {
    throw new SvcError("NOT_FOUND", `"${source}" is no backup of svc: it has no readable ${MANIFEST}.`, {
      help: "Name a folder that svc platform backup made.",
      cause: error,
    });
  }
}

/**
 * Puts a backup in the place of what is in `dataDir`, which no platform may use. What was there is moved into a folder in it, whose
 * path is resolved; undefined when there was nothing. Throws DATA_DIRECTORY for a backup of a newer version.
 */
export async function restore(dataDir: string, source: string): Promise<string | undefined> {
  const { volumes } = readBackup(source);
  makeFolder(dataDir, 0o700);
  const held = hold(dataDir);
  try {
    return await replace(dataDir, source, volumes);
  } finally {
    held?.close();
  }
}

/** Keeps a platform from starting on what is moved; on a damaged database none starts. */
function hold(dataDir: string): SqliteDatabase | undefined {
  if (!existsSync(path.join(dataDir, DATABASE_FILE))) return undefined;
  try {
    return openPlatformDatabase(dataDir, "normal");
  } catch (error) {
    if (isDamagedError((error as SvcError).cause)) return undefined;
    throw error;
  }
}

async function replace(dataDir: string, source: string, volumes: boolean): Promise<string | undefined> {
  const stamp = `${new Date().toISOString().replace(/[-:]|\..*/g, "")}-${process.pid}`;
  const fresh = path.join(dataDir, `restored-${stamp}`);
  const before = path.join(dataDir, `before-restore-${stamp}`);
  try {
    await mkdir(fresh, { mode: 0o700 });
    await copyEntries(source, fresh, (name) => name === MANIFEST);
    const database = new DatabaseSync(path.join(fresh, DATABASE_FILE));
    try {
      stepsToDo(database, source);
    } finally {
      database.close();
    }
    await syncTree(fresh, SYNCS_AT_ONCE);
  } catch (error) {
    rmSync(fresh, { recursive: true, force: true });
    throw lackOf(error) === undefined ? error : explained(error);
  }
  const kept = (name: string) => /^(before-restore|restored)-/.test(name) || (name === VOLUMES && !volumes);
  const moved = (await readdir(dataDir)).filter((name) => !kept(name));
  if (moved.length > 0) await mkdir(before, { mode: 0o700 });
  for (const name of moved) await rename(path.join(dataDir, name), path.join(before, name));
  for (const name of await readdir(fresh)) await rename(path.join(fresh, name), path.join(dataDir, name));
  await rm(fresh, { recursive: true });
  return moved.length > 0 ? before : undefined;
}

/** Holding it meanwhile keeps a platform from starting on it. */
async function copyHere(dataDir: string, part: string): Promise<void> {
  const database = openPlatformDatabase(dataDir, "normal");
  try {
    for (const name of await databases(dataDir)) {
      const own = name === DATABASE_FILE ? database.connection : new DatabaseSync(path.join(dataDir, name));
      await copyDatabase(own, path.join(part, name));
      if (own !== database.connection) own.close();
    }
  } finally {
    database.close();
  }
}

async function databases(folder: string): Promise<string[]> {
  return (await readdir(folder)).filter((name) => name.endsWith(".db"));
}

/** The platform itself copies what it holds. */
async function copyOf(holder: Holder, dataDir: string, part: string, abort?: AbortSignal): Promise<void> {
  const folder = snapshotFolder(dataDir);
  const id = randomUUID();
  const [wanted, done, made] = [`${id}.wanted`, `${id}.done`, id].map((name) => path.join(folder, name)) as [
    string,
    string,
    string,
  ];
  writeFileSync(wanted, "", { mode: 0o600 });
  try {
    signal(holder.pid);
    while (!existsSync(done)) {
      signal(holder.pid, 0);
      await delay(POLL_FIRST_MS, undefined, { signal: abort });
    }
    const { error } = JSON.parse(readFileSync(done, "utf8")) as { error: string };
    if (error !== "") {
      throw new SvcError("CONFLICT", `The platform could not copy its databases: ${error}.`, {
        help: "svc platform logs says more.",
      });
    }
    for (const name of await databases(made)) await copyFile(path.join(made, name), path.join(part, name));
  } finally {
    for (const file of [wanted, done, made]) rmSync(file, { recursive: true, force: true });
  }
}

/** Throws CONFLICT when it is gone. */
function signal(pid: number, number: "SIGUSR2" | 0 = "SIGUSR2"): void {
  try {
    process.kill(pid, number);
  } catch (error) {
    throw new SvcError(
      "CONFLICT",
      `The platform (process ${pid}) cannot be asked for a copy: it ended, or it is another user's.`,
      {
        help: "Run the command again, as the platform's user.",
        cause: error,
      },
    );
  }
}

/** Copies what `into` does not have yet, with modes and, as root, owners. Links stay links; what goes away meanwhile is left out. */
async function copyEntries(
  from: string,
  into: string,
  leftOut: (name: string) => boolean = () => false,
  abort?: AbortSignal,
): Promise<void> {
  for (const entry of await readdir(from, { withFileTypes: true }).catch(unlessGone([]))) {
    abort?.throwIfAborted();
    if (leftOut(entry.name)) continue;
    const [source, target] = [path.join(from, entry.name), path.join(into, entry.name)];
    if (entry.isDirectory() && !existsSync(target)) await copyFolder(source, target);
    if (entry.isDirectory()) await copyEntries(source, target, undefined, abort);
    else if (!isThere(target)) await copyOne(entry, source, target).catch(unlessGone(undefined));
  }
}

async function copyFolder(source: string, target: string): Promise<void> {
  const { mode } = lstatSync(source);
  await mkdir(target, { mode: mode & 0o7777 });
  await own(source, target);
}

async function copyOne(entry: Dirent, source: string, target: string): Promise<void> {
  if (entry.isSymbolicLink()) await symlink(await readlink(source), target);
  else if (entry.isFile()) {
    await copyFile(source, target, constants.COPYFILE_FICLONE);
    const { atime, mtime } = lstatSync(source);
    await utimes(target, atime, mtime);
  } else return;
  await own(source, target);
}

async function own(source: string, target: string): Promise<void> {
  if (process.getuid?.() !== 0) return;
  const { uid, gid } = lstatSync(source);
  await lchown(target, uid, gid);
}

function isThere(file: string): boolean {
  return lstatSync(file, { throwIfNoEntry: false }) !== undefined;
}

function unlessGone<T>(instead: T): (error: NodeJS.ErrnoException) => T {
  return (error) => {
    if (error.code === "ENOENT") return instead;
    throw error;
  };
}

async function sizeOf(folder: string): Promise<{ files: number; bytes: number }> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  const bytes = files.reduce((sum, { parentPath, name }) => sum + lstatSync(path.join(parentPath, name)).size, 0);
  return { files: files.length, bytes };
}
