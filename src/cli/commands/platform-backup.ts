/** `svc platform backup` and `restore`: the data of this machine's platform, in a folder. */
import path from "node:path";
import { command, jsonFlag, switchFlag, valueFlag } from "../command.ts";
import { dataDir as directoryOf } from "../paths.ts";
import { livingPlatform, requireStopped } from "../platform/record.ts";
import { interruptible } from "../volume/transfer.ts";

const dataDir = valueFlag(
  "DIR",
  "Directory of the platform's data; default: SVC_DATA_DIR or the user's data directory",
);

export const backupCommand = command({
  brief: "Copy the platform's data into a folder, also while it runs",
  text:
    "Copies what the platform keeps into a new folder: jobs, builds, secrets and the key that opens them, of one moment. The platform goes on " +
    "meanwhile. Volumes are copied only with --volumes: workers may write to them meanwhile. What is in PostgreSQL or a bucket is not copied.",
  examples: [
    ["svc platform backup /var/backups/svc-monday", "Jobs, builds, keys, secrets, logs"],
    ["svc platform backup /mnt/svc --volumes", "Files of volumes too"],
  ],
  parameters: [{ placeholder: "DIR", brief: "Folder to be made" }],
  flags: { volumes: switchFlag("Copy the files of volumes too"), dataDir, json: jsonFlag },
  async run(flags, folder) {
    const { terminal } = this;
    const directory = directoryOf(this.env, flags.dataDir);
    const target = path.resolve(this.cwd, folder!);
    const holder = await livingPlatform(directory);
    const { backUp } = await import("../../server/backup.ts");
    const progress = await terminal.progress(`Copying ${directory}`);
    const volumes = flags.volumes ?? false;
    const facts = await interruptible(this, (signal) => backUp(directory, target, { holder, volumes, signal })).finally(
      () => progress.done(),
    );
    if (flags.json) return terminal.json({ path: target, ...facts });
    terminal.out(`Backup   ${target} (${facts.files} files, ${(facts.bytes / 1_000_000).toFixed(1)} MB)`);
    if (facts.database !== undefined) {
      terminal.out(`Records  not copied, nor jobs: they are in ${facts.database}, which has backups of its own`);
      terminal.out("Layers   not copied where they are in a bucket");
    }
    if (!facts.volumes) terminal.out("Volumes  not copied (--volumes copies them)");
    terminal.out("It opens all secrets: keep it as safe as the data directory.");
    terminal.out(`To put it back: svc platform stop, then svc platform restore ${target}`);
  },
});

export const restoreCommand = command({
  brief: "Put a backup in the place of the platform's data",
  text:
    "Replaces the platform's data by a backup. The platform must be stopped. What was there is kept in a folder below the data directory; " +
    "volumes stay as they are unless the backup has them.",
  examples: [["svc platform restore /var/backups/svc-monday", "What the platform knew on Monday"]],
  parameters: [{ placeholder: "DIR", brief: "Folder that svc platform backup made" }],
  flags: { dataDir, json: jsonFlag },
  async run(flags, folder) {
    const { terminal } = this;
    const directory = directoryOf(this.env, flags.dataDir);
    const source = path.resolve(this.cwd, folder!);
    await requireStopped(directory, "these data");
    const { readBackup, restore } = await import("../../server/backup.ts");
    const { at, version, database } = readBackup(source);
    const before = await restore(directory, source);
    if (flags.json) return terminal.json({ dataDir: directory, at, version, before });
    terminal.out(`Restored ${directory} as it was at ${at}${version === undefined ? "" : ` (svc ${version})`}.`);
    if (database !== undefined) terminal.out(`Its records and jobs are as they are now in ${database}.`);
    if (before !== undefined) terminal.out(`What was there is in ${before}; remove it when you do not need it.`);
    terminal.out("Next: svc platform start. Workers start anew; jobs that ran at that moment run again.");
  },
});
