/**
 * What a data directory had is put aside, and what was made takes its place. Killed in the middle, it is done again: of the old entries
 * the database goes last, of the new ones first.
 */
import { existsSync } from "node:fs";
import { readdir, rename, rm } from "node:fs/promises";
import path from "node:path";
import { makeDurableFolder, syncFolder } from "../../lib/durable-folder.ts";
import { ifThere } from "../../lib/if-there.ts";
import { DATABASE_FILE } from "../../store/platform-database.ts";

/** `names`: of the old entries besides the database. Nothing may hold the database. */
export async function switchEntries(
  dataDir: string,
  names: readonly string[],
  { fresh, before }: { readonly fresh: string; readonly before: string },
): Promise<void> {
  const database = path.join(dataDir, DATABASE_FILE);
  await makeDurableFolder(before, 0o700);
  if (!existsSync(path.join(before, DATABASE_FILE))) {
    for (const name of names) await ifThere(rename(path.join(dataDir, name), path.join(before, name)));
    for (const suffix of ["-wal", "-shm", ""]) {
      await ifThere(rename(`${database}${suffix}`, path.join(before, `${DATABASE_FILE}${suffix}`)));
    }
    await syncFolder(before);
    await syncFolder(dataDir);
  }
  const made = (await ifThere(readdir(fresh))) ?? [];
  for (const name of [DATABASE_FILE, ...made.filter((each) => each !== DATABASE_FILE)]) {
    await ifThere(rename(path.join(fresh, name), path.join(dataDir, name)));
  }
  await syncFolder(dataDir);
  await rm(fresh, { recursive: true, force: true });
}
