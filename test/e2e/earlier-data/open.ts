/** A data directory as an earlier version left it, unpacked for a test. */
import assert from "node:assert/strict";
import { globSync, mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { DatabaseSync } from "node:sqlite";
import { runProcess } from "../../../src/lib/run-process.ts";
import { removeFolder } from "../../remove-folder.ts";
import { type CliResult, svc } from "../platform.ts";

const FOLDER = import.meta.dirname;

/** By the commit that made them. */
export const EARLIER = globSync("*.tar.gz", { cwd: FOLDER }).map((name) => name.slice(0, -".tar.gz".length));

interface About {
  /** Of a key with all rights, made for this fixture. */
  readonly key: string;
  readonly endpoints: { readonly double: string; readonly later: string };
  readonly jobs: { readonly finished: string; readonly queued: string };
}

export interface EarlierData {
  readonly dataDir: string;
  readonly about: About;
  readonly env: Readonly<Record<string, string>>;
  /** svc for this data directory. */
  run(args: readonly string[], more?: Record<string, string>): Promise<CliResult>;
}

/** What runs on it ends with the test. */
export async function openEarlier(t: { after(work: () => Promise<void>): void }, commit: string): Promise<EarlierData> {
  const dir = mkdtempSync(path.join(tmpdir(), "svc-earlier-"));
  const dataDir = path.join(dir, "data");
  const env = { SVC_DATA_DIR: dataDir, SVC_CONFIG_DIR: path.join(dir, "config"), SVC_PORT: "0" };
  const run: EarlierData["run"] = (args, more = {}) => svc(args, { env: { ...env, ...more } });
  t.after(async () => {
    await run(["platform", "stop", "--now"]);
    await removeFolder(dir);
  });
  const archive = path.join(FOLDER, `${commit}.tar.gz`);
  const { code, stderr } = await runProcess("tar", ["-xzf", archive, "-C", dir, "--no-same-owner"]);
  assert.equal(code, 0, stderr);
  inDatabase(dataDir, (database) => {
    // As if it had been left just now: jobs do not live for ever.
    const { at } = database.prepare("SELECT max(created_at) AS at FROM jobs").get() as { at: number };
    const columns = ["created_at", "started_at", "finished_at", "expires_at"];
    database.exec(
      `UPDATE jobs SET ${columns.map((column) => `${column} = ${column} + ${Date.now() - at}`).join(", ")}`,
    );
  });
  const about: About = JSON.parse(readFileSync(path.join(dir, "about.json"), "utf8"));
  return { dataDir, about, env, run };
}

/** In the platform's database, which no platform holds. */
export function inDatabase<T>(dataDir: string, work: (database: DatabaseSync) => T): T {
  const database = new DatabaseSync(path.join(dataDir, "platform.db"));
  try {
    return work(database);
  } finally {
    database.close();
  }
}

/** Whether its tables are those of a version that knew schedules. */
export function hasLaterTables(dataDir: string): boolean {
  const columns = inDatabase(dataDir, (database) => database.prepare("PRAGMA table_info(endpoints)").all());
  return columns.some(({ name }) => name === "schedule");
}
