import type { CliContext } from "../context.ts";
import { dataDir } from "../paths.ts";
import { logPath, runningPlatform } from "../platform/record.ts";

/** Exit code 1 when it does not run, so that scripts can ask. */
export async function platformStatus(
  this: CliContext,
  flags: { readonly json?: boolean; readonly dataDir?: string },
): Promise<void> {
  const { terminal } = this;
  const directory = dataDir(this.env, flags.dataDir);
  const record = await runningPlatform(directory);
  if (record === undefined) this.answerNo();
  if (flags.json) {
    terminal.json({ running: record !== undefined, ...record, dataDir: directory, log: logPath(directory) });
    return;
  }
  terminal.out(`State    ${record === undefined ? "stopped" : "running"}`);
  if (record !== undefined) {
    terminal.out(`URL      ${record.url}`);
    terminal.out(`Process  ${record.pid}, since ${new Date(record.startedAt).toISOString()}`);
    terminal.out(`Version  ${record.version}`);
  }
  terminal.out(`Data     ${directory}`);
  terminal.out(`Log      ${logPath(directory)}`);
  if (record === undefined) terminal.note("Start it with svc platform start.");
}
