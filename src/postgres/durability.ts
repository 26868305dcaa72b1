/** What a commit of this PostgreSQL is worth, as its settings say for the platform's sessions. */
import type { Postgres } from "./postgres.ts";

export interface CommitSettings {
  readonly fsync: string;
  readonly synchronous_commit: string;
  readonly synchronous_standby_names: string;
}

export interface Durability {
  /** What survives what. */
  readonly words: string;
  /** A crash of the database's machine alone takes back what was answered. */
  readonly isUnsafe: boolean;
}

export function durabilityOf(settings: CommitSettings): Durability {
  const { fsync, synchronous_commit: commit, synchronous_standby_names: standbys } = settings;
  if (fsync === "off")
    return unsafe(
      "fsync is off: a crash of the database's machine may damage all of it, not only lose the last moments",
    );
  if (commit === "off")
    return unsafe("synchronous_commit is off: a crash of the database loses what was committed in the last moments");
  const alone = "a commit survives a crash of the database; a failover to a standby may lose the last moments";
  if (standbys.trim() === "") return safe(`${alone} (no synchronous standby)`);
  if (commit === "local") return safe(`${alone} (synchronous_commit = local)`);
  const where = commit === "remote_write" ? "handed to the system of" : "on the disk of";
  return safe(`a commit is ${where} a synchronous standby too (${standbys.trim()}): a failover to it loses nothing`);
}

/** Read from the database as it is now. */
export async function readDurability(postgres: Postgres): Promise<Durability> {
  const names = ["fsync", "synchronous_commit", "synchronous_standby_names"] as const;
  const columns = names.map((name) => `current_setting('${name}') AS ${name}`);
  const { rows } = await postgres.query<CommitSettings>(`SELECT ${columns.join(", ")}`);
  return durabilityOf(rows[0]!);
}

function safe(words: string): Durability {
  return { words, isUnsafe: false };
}

function unsafe(words: string): Durability {
  return { words, isUnsafe: true };
}
