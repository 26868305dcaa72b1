/**
 * Copies of the databases, made by the process that holds them while it goes on:
 *
 *   svc platform backup ── snapshots/ID.wanted, SIGUSR2 ──▶ platform ── snapshots/ID/*.db, then snapshots/ID.done ──▶ svc
 *
 * Who may put a file there and send the signal may read the data directory anyway.
 */
import { mkdirSync, readdirSync, rmSync } from "node:fs";
import path from "node:path";
import { backup, type DatabaseSync } from "node:sqlite";
import { setTimeout as pause } from "node:timers/promises";
import { SNAPSHOT_BUSY_MAX_MS, SNAPSHOT_BUSY_PAUSE_MS } from "../domain/limits.ts";
import type { Log } from "../lib/log.ts";
import { writeFileAtomic } from "../lib/write-file-atomic.ts";

const FOLDER = "snapshots";

export function snapshotFolder(dataDir: string): string {
  return path.join(dataDir, FOLDER);
}

export class Snapshots {
  readonly #folder: string;
  readonly #databases: Readonly<Record<string, DatabaseSync>>;
  readonly #log: Log;
  #last: Promise<void> = Promise.resolve();
  #ended = false;

  /** `databases`: by the names of their files. What an earlier process left half done is removed. */
  constructor(dataDir: string, databases: Readonly<Record<string, DatabaseSync>>, log: Log) {
    this.#folder = snapshotFolder(dataDir);
    this.#databases = databases;
    this.#log = log;
    rmSync(this.#folder, { recursive: true, force: true });
    mkdirSync(this.#folder, { mode: 0o700 });
  }

  /** Makes those that are wanted, one after the other. */
  make(): void {
    this.#last = this.#last
      .then(() => this.#makeAll())
      .catch((error) => this.#log.error("a snapshot failed", { error }));
  }

  /** Resolves when none is being made; later ones are not. */
  async close(): Promise<void> {
    this.#ended = true;
    await this.#last;
  }

  async #makeAll(): Promise<void> {
    for (const name of readdirSync(this.#folder).filter((each) => each.endsWith(".wanted"))) {
      if (this.#ended) return;
      const id = name.slice(0, -".wanted".length);
      rmSync(path.join(this.#folder, name));
      const error = await this.#copy(path.join(this.#folder, id)).then(
        () => "",
        (thrown) => String(thrown.message ?? thrown),
      );
      if (error !== "") this.#log.error("the databases could not be copied for a backup", { error });
      await writeFileAtomic(path.join(this.#folder, `${id}.done`), JSON.stringify({ error }), 0o600);
    }
  }

  async #copy(folder: string): Promise<void> {
    mkdirSync(folder, { mode: 0o700 });
    for (const [name, database] of Object.entries(this.#databases)) {
      await copyOf(database, path.join(folder, name));
    }
  }
}

/** Node gives up where its very first step finds that the database is being written to: with SQLite's code for no error. */
async function copyOf(database: DatabaseSync, file: string): Promise<void> {
  const until = performance.now() + SNAPSHOT_BUSY_MAX_MS;
  for (;;) {
    try {
      await backup(database, file);
      return;
    } catch (error) {
      if ((error as { errcode?: number }).errcode !== 0) throw error;
      if (performance.now() > until) throw new Error("they are being written to all the time", { cause: error });
      rmSync(file, { force: true });
      await pause(SNAPSHOT_BUSY_PAUSE_MS);
    }
  }
}
