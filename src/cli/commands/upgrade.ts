/** `svc upgrade`: from the data of an earlier svc to this one, with a way back. */
import { SvcError } from "../../domain/errors.ts";
import { VERSION } from "../../domain/version.ts";
import { command, switchFlag, valueFlag } from "../command.ts";
import { dataDir as directoryOf } from "../paths.ts";

export const upgradeCommand = command({
  brief: "Bring the data of an earlier svc to this version",
  text:
    "After a newer svc was installed: says what changes, stops the platform of this machine, backs its data up, brings them to this version " +
    "and starts the platform again. It ends with the way back.",
  examples: [
    ["svc upgrade", "Say what changes, ask, and do it"],
    ["svc upgrade --backup /var/backups/svc-before --force", "Without asking, with the backup there"],
  ],
  flags: {
    backup: valueFlag("DIR", "Folder to be made for the backup; default: beside the data directory"),
    dataDir: valueFlag("DIR", "Directory of the platform's data; default: SVC_DATA_DIR or the user's data directory"),
    force: switchFlag("Do not ask; required where there is no terminal"),
  },
  aliases: { f: "force" },
  async run({ backup, dataDir, force }) {
    const { terminal } = this;
    const directory = directoryOf(this.env, dataDir);
    const { Upgrade } = await import("../platform/upgrade.ts");
    const upgrade = await Upgrade.find(this, directory, backup);
    if (upgrade.isDone) {
      terminal.out(`Nothing to upgrade: ${upgrade.reason}.`);
      return;
    }
    for (const line of upgrade.plan()) terminal.out(line);
    if (!force) {
      if (!terminal.interactive) {
        throw new SvcError("USAGE", "svc upgrade asks before it changes anything, and there is no terminal here.", {
          help: "Run it with --force.",
        });
      }
      if (!(await terminal.confirm("Go on?", false))) return this.answerNo();
    }
    await upgrade.run();
    terminal.out(`The data are of ${VERSION} now.`);
    for (const line of upgrade.wayBack()) terminal.out(line);
  },
});
