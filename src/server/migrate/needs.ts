/** What both directions of a move work with. */
import type { Kysely } from "kysely";
import { SvcError } from "../../domain/errors.ts";
import { manifestLayers } from "../../domain/manifest.ts";
import type { Postgres } from "../../postgres/postgres.ts";
import type { JobCounts } from "../../queue/moving/counts.ts";
import type { MovedJobs, Transaction } from "../../queue/moving/moved-jobs.ts";
import type { Query } from "../../queue/postgres/connection.ts";
import type { Bucket } from "../../s3/bucket.ts";
import type { Tables } from "../../store/tables.ts";
import type { Config } from "../config.ts";
import type { Move, Moved, MoveTarget } from "./move.ts";

export interface MigrateOptions {
  readonly config: Pick<Config, "dataDir" | "database" | "s3">;
  readonly to: MoveTarget;
  /** Everything is looked at, nothing changed. */
  readonly dryRun: boolean;
  /** A step, and how far it is. */
  readonly told: (step: string, detail: string) => void;
  readonly signal: AbortSignal;
}

export interface MoveNeeds extends Omit<MigrateOptions, "config" | "to"> {
  readonly dataDir: string;
  readonly place: string;
  readonly move: Move;
  readonly postgres: Postgres;
  readonly bucket: Bucket | undefined;
  readonly query: Query;
  readonly transaction: Transaction;
  /** Another took the database. */
  readonly lost: (error: SvcError) => void;
}

export type MoveResult = Moved & { readonly before: string | undefined };

/** Digests of layers that kept builds name. */
export async function neededLayers(db: Kysely<Tables>): Promise<Set<string>> {
  const builds = await db.selectFrom("builds").select("manifest").execute();
  return new Set(builds.flatMap(({ manifest }) => manifestLayers(JSON.parse(manifest))));
}

export function bytesWords(bytes: number): string {
  return `${(bytes / 1_000_000).toFixed(1)} MB`;
}

export function jobWords({ open, done, expired }: MovedJobs): string {
  return `${open + done + expired}`;
}

/** Throws unless both have the same. */
export function requireSame(source: JobCounts, target: JobCounts): void {
  const names = [...new Set([...Object.keys(source), ...Object.keys(target)])];
  const other = names.filter((name) => (source[name] ?? 0) !== (target[name] ?? 0));
  if (other.length === 0) return;
  const words = other.map((name) => `${name}: ${source[name] ?? 0} became ${target[name] ?? 0}`);
  throw new SvcError("INTERNAL", `What arrived is not what was sent: ${words.join(", ")}.`, {
    help: "Nothing was switched: the platform is where it was (docs/operate/migrate.md).",
  });
}
