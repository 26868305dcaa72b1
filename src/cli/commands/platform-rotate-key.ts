/** `svc platform rotate-key`: a new key for the secrets of this machine's platform. */
import { command, jsonFlag, valueFlag } from "../command.ts";
import { dataDir as directoryOf } from "../paths.ts";
import { requireStopped } from "../platform/record.ts";

export const rotateKeyCommand = command({
  brief: "Seal all secrets with a new key",
  text:
    "Makes a new secret.key, seals with it what the old one had sealed (secrets, variables, registry logins), and throws the old one away. The platform must be " +
    "stopped. Backups from before keep the old key; signed URLs from before are not valid any more.",
  examples: [["svc platform rotate-key", "After somebody may have seen the old key"]],
  flags: {
    dataDir: valueFlag("DIR", "Directory of the platform's data; default: SVC_DATA_DIR or the user's data directory"),
    json: jsonFlag,
  },
  async run(flags) {
    const directory = directoryOf(this.env, flags.dataDir);
    await requireStopped(directory, "its key");
    const { readConfig } = await import("../../server/config.ts");
    const { rotateKey } = await import("../../server/rotate-key.ts");
    const { terminal } = this;
    const progress = await terminal.progress("Sealing secrets anew");
    const say = (line: string) => progress.update(line);
    const config = readConfig({ ...this.env, SVC_DATA_DIR: directory });
    const rotated = await rotateKey(config, { info: say, error: say }).finally(() => progress.done());
    if (flags.json) return terminal.json(rotated);
    terminal.out(`Key      ${rotated.key}`);
    terminal.out(`Sealed   ${rotated.renewed} values with it`);
    if (rotated.unreadable > 0) {
      terminal.out(`Lost     ${rotated.unreadable} values that the old key did not open either: set them again`);
    }
    terminal.out("Next: svc platform start, and a new backup: older ones hold the old key.");
  },
});
