/** Makes a service of systemd: its files, its user, and the first start. */
import { existsSync, realpathSync } from "node:fs";
import { chmod, writeFile } from "node:fs/promises";
import path from "node:path";
import { SvcError } from "../../domain/errors.ts";
import { makeFolder } from "../../lib/make-folder.ts";
import { onPath } from "../../lib/on-path.ts";
import { runProcess } from "../../lib/run-process.ts";
import type { CliContext } from "../context.ts";
import type { Service, ServiceFiles } from "./service-unit.ts";
import { mainFile } from "./start.ts";

/** Into the root file system `root`, where nothing is started unless it is this machine's own. Throws SvcError. */
export async function installService(
  context: CliContext,
  root: string,
  service: Service,
  files: ServiceFiles & { /** Without systemd. */ readonly otherwise: string },
): Promise<void> {
  refuseHome(service);
  for (const tool of ["systemctl", "systemd-sysusers"]) {
    if (onPath(tool, context.env.PATH ?? "") !== undefined) continue;
    throw new SvcError("TOOL_MISSING", `${tool} is not here: this machine's services are not those of systemd.`, {
      help: files.otherwise,
    });
  }
  await write(root, files);
  const at = root === "/" ? [] : [`--root=${root}`];
  await runTool(context, files, "systemd-sysusers", ...at, `${files.name}.conf`);
  if (root === "/") await runTool(context, files, "systemctl", "daemon-reload");
  const now = root === "/" ? ["--now"] : [];
  await runTool(context, files, "systemctl", ...at, "enable", ...now, `${files.name}.service`);
}

/** With a message for what does not fit; the letters of a unit. */
export function serviceWord(pattern: RegExp): (text: string) => string {
  return (text) => {
    if (pattern.test(text)) return text;
    throw new Error("only letters that mean nothing to systemd can be used, and an absolute path");
  };
}

/** The link that stays over upgrades, where there is one: that of install.sh, or the one on the PATH. */
export function svcProgram({ env }: CliContext): string[] {
  const main = mainFile();
  const root = path.resolve(path.dirname(main), "../..");
  const launcher = [path.join(root, "bin/svc"), path.join(path.dirname(main), "svc")].find((file) => existsSync(file));
  const target = launcher ?? main;
  const found = [path.resolve(root, "../../../bin/svc"), onPath("svc", env.PATH ?? "")].find(
    (file) => file !== undefined && existsSync(file) && realpathSync(file) === realpathSync(target),
  );
  // What npm installs is a file for Node, and systemd's PATH need not have the right one.
  return launcher === undefined ? [process.execPath, found ?? target] : [found ?? target];
}

function refuseHome({ program: words }: Service): void {
  const hidden = words.find((word) => /^\/(home|root|run\/user)\//.test(word));
  if (hidden === undefined) return;
  throw new SvcError(
    "CONFLICT",
    "This svc is installed in a home folder, which other users and the service cannot see.",
    {
      where: hidden,
      help: "Install it for all: sh install.sh as root, or npm install -g.",
    },
  );
}

async function write(root: string, { name: service, unit, userLine, settingsFile, settings }: ServiceFiles) {
  const files: [name: string, text: string, mode: number][] = [
    [`/etc/systemd/system/${service}.service`, unit, 0o644],
    [`/usr/lib/sysusers.d/${service}.conf`, userLine, 0o644],
    [settingsFile, settings, 0o600],
  ];
  for (const [name, text, mode] of files) {
    const file = path.join(root, name);
    // What somebody has set stays.
    if (name === settingsFile && existsSync(file)) continue;
    try {
      makeFolder(path.dirname(file));
      await writeFile(file, text, { mode });
      await chmod(file, mode);
    } catch (error) {
      throw new SvcError("CONFLICT", `The service could not be written: ${(error as Error).message}.`, {
        where: file,
        help: "Run the command as root.",
        cause: error,
      });
    }
  }
}

async function runTool({ env }: CliContext, { name }: ServiceFiles, tool: string, ...args: string[]): Promise<void> {
  const { code, stdout, stderr } = await runProcess(tool, args, { env });
  if (code === 0) return;
  throw new SvcError("CONFLICT", `${tool} ${args.join(" ")} failed: ${(stderr || stdout).trim()}`, {
    help: `journalctl -u ${name} says more, once the service has started.`,
  });
}
