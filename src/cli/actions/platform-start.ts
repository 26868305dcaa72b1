import type { CliContext } from "../context.ts";
import { dataDir } from "../paths.ts";
import { logPath, runningPlatform } from "../platform/record.ts";
import { startEmbedded } from "../platform/start.ts";

interface StartFlags {
  readonly port?: number;
  readonly host?: string;
  readonly dataDir?: string;
  readonly emulateGpu?: boolean;
  readonly durability?: "normal" | "full";
  readonly driver?: "process" | "docker";
  readonly foreground?: boolean;
  readonly withParent?: boolean;
  readonly json?: boolean;
}

export async function start(this: CliContext, flags: StartFlags): Promise<void> {
  const { terminal } = this;
  const options = { ...flags, dataDir: dataDir(this.env, flags.dataDir) };
  const running = await runningPlatform(options.dataDir);
  if (running !== undefined) {
    if (flags.json) terminal.json({ ...running, started: false, dataDir: options.dataDir });
    else terminal.out(`The platform already runs at ${running.url} (process ${running.pid}).`);
    return;
  }
  if (flags.foreground) {
    const { runForeground } = await import("../platform/foreground.ts");
    return runForeground(this, options);
  }
  const platform = await startEmbedded(this, options);
  if (flags.json) {
    terminal.json({ ...platform, started: true, dataDir: options.dataDir, log: logPath(options.dataDir) });
    return;
  }
  terminal.out(`URL    ${platform.url}`);
  terminal.out(`Data   ${options.dataDir}`);
  terminal.out(`Log    ${logPath(options.dataDir)}`);
  if (platform.firstKey !== undefined) {
    terminal.out(`Key    ${platform.firstKey}  (shown only now; stored for your svc commands)`);
  }
  terminal.out();
  if (options.dataDir !== dataDir(this.env)) {
    terminal.out(`For other commands: export SVC_DATA_DIR=${options.dataDir}`);
  }
  terminal.out("Next: svc deploy, in a project's directory. Stop the platform with svc platform stop.");
}
