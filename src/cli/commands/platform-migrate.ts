/** `svc platform migrate`: what a platform keeps goes to a database and a bucket, or comes back. */
import { SvcError } from "../../domain/errors.ts";
import type { MigrateFacts } from "../../server/migrate/migrate.ts";
import { command, jsonFlag, switchFlag, valueFlag } from "../command.ts";
import type { CliContext } from "../context.ts";
import { formatSize } from "../format.ts";
import { dataDir as directoryOf } from "../paths.ts";
import { requireStopped } from "../platform/record.ts";
import { interruptible } from "../volume/transfer.ts";

export const migrateCommand = command({
  brief: "Move the platform's data to PostgreSQL and a bucket, or back",
  text:
    "Moves what the platform of a data directory keeps to the database of SVC_DATABASE_URL and, where one is set, the bucket of SVC_S3_…; " +
    "with --to disk it comes back. The platform must be stopped. What was killed or interrupted goes on when it is run again.",
  examples: [
    ["svc platform migrate --dry-run", "What would be moved, and whether it can be; nothing is changed"],
    ["svc platform migrate", "To the database and the bucket that the environment names"],
    ["svc platform migrate --to postgres://svc@db/svc --bucket s3://my-bucket/svc", "To these"],
    ["svc platform migrate --to disk", "Back into the data directory"],
  ],
  flags: {
    from: valueFlag("DIR", "Data directory of the platform; default: SVC_DATA_DIR or the user's data directory"),
    to: valueFlag("URL|disk", "The database, without a password; default: SVC_DATABASE_URL. disk: back from it"),
    bucket: valueFlag("URL", "s3://NAME/PREFIX; default: SVC_S3_BUCKET and SVC_S3_PREFIX"),
    dryRun: switchFlag("Look at everything and change nothing"),
    json: jsonFlag,
  },
  async run(flags) {
    const directory = directoryOf(this.env, flags.from);
    await requireStopped(directory, "these data");
    const { readConfig } = await import("../../server/config.ts");
    const { migratePlatform } = await import("../../server/migrate/migrate.ts");
    const to = flags.to === "disk" ? "disk" : "database";
    const given = { SVC_DATA_DIR: directory, ...databaseOf(flags.to), ...bucketOf(flags.bucket) };
    const config = readConfig({ ...this.env, ...given });
    const { terminal } = this;
    const progress = await terminal.progress("Looking at both sides");
    const told = (step: string, detail: string) =>
      progress.update(terminal.live && detail !== "" ? `${step}: ${detail}` : step);
    const dryRun = flags.dryRun ?? false;
    const facts = await interruptible(this, (signal) => migratePlatform({ config, to, dryRun, told, signal })).finally(
      () => progress.done(),
    );
    if (flags.json) return terminal.json(facts);
    show(this, facts);
  },
});

/** A password in it would be seen by whoever lists the machine's processes. */
function databaseOf(to: string | undefined): Record<string, string> {
  if (to === undefined || to === "disk") return {};
  if (/^[a-z]+:\/\/[^/@]*:[^/]*@|[?&]password=/i.test(to)) {
    throw new SvcError("USAGE", "A password in an argument can be read by other users of this machine.", {
      help: "Put the whole URL into SVC_DATABASE_URL, or the password into a file: SVC_DATABASE_PASSWORD_FILE.",
    });
  }
  return { SVC_DATABASE_URL: to };
}

function bucketOf(url: string | undefined): Record<string, string> {
  if (url === undefined) return {};
  const [, name, prefix = ""] = /^s3:\/\/([^/]+)(?:\/(.*))?$/.exec(url) ?? [];
  if (name === undefined) throw new SvcError("USAGE", `"${url}" is not s3://NAME or s3://NAME/PREFIX.`);
  return { SVC_S3_BUCKET: name, SVC_S3_PREFIX: prefix };
}

function show({ terminal }: CliContext, facts: MigrateFacts): void {
  const { to, dataDir, database, bucket, dryRun, records, jobs, layers } = facts;
  const all = Object.values(records).reduce((sum, n) => sum + n, 0);
  const counted = (n: number, what: string) => `${n} ${what}${n === 1 ? "" : "s"}`;
  const shown = [
    counted(records.endpoints, "endpoint"),
    counted(records.builds, "build"),
    counted(records.secrets, "secret"),
  ];
  const place = bucket === "" ? database : `${database}, bucket ${bucket}`;
  terminal.out(to === "disk" ? `From     ${place}` : `From     ${dataDir}`);
  terminal.out(to === "disk" ? `To       ${dataDir}` : `To       ${place}`);
  terminal.out(`Records  ${all} (${shown.join(", ")}, …)`);
  terminal.out(`Jobs     ${jobs.open} open, ${jobs.done} finished, ${jobs.expired} known by a line`);
  const size = dryRun ? "" : ` (${formatSize(jobs.bodyBytes)})`;
  terminal.out(`Bodies   ${jobs.bodies}${size} outside their rows`);
  terminal.out(
    `Layers   ${layers.count} (${formatSize(layers.bytes)})${bucket === "" ? ", which stay where they are" : ""}`,
  );
  if (jobs.lostBodies > 0) terminal.warn(`${jobs.lostBodies} bodies of jobs were missing or damaged before.`);
  if (layers.missing > 0) terminal.warn(`${layers.missing} layers that kept builds name were missing before.`);
  if (dryRun) terminal.out("Nothing was changed. Without --dry-run it is moved.");
  else next(terminal, facts);
}

function next(terminal: CliContext["terminal"], { to, before }: MigrateFacts): void {
  terminal.out(`What the data directory had is in ${before}; remove it when you do not need it.`);
  if (to === "disk")
    terminal.out("The database and the bucket still hold what they held: remove that when you do not need it.");
  const how =
    to === "disk" ? "without SVC_DATABASE_URL and SVC_S3_BUCKET" : "with the same SVC_DATABASE_URL and SVC_S3_…";
  terminal.out(`Next: svc platform start, ${how}.`);
}
