/** `svc platform install-service`: the platform as a service of systemd. */
import { existsSync, realpathSync } from "node:fs";
import { chmod, writeFile } from "node:fs/promises";
import path from "node:path";
import { SvcError } from "../../domain/errors.ts";
import { makeFolder } from "../../lib/make-folder.ts";
import { onPath } from "../../lib/on-path.ts";
import { runProcess } from "../../lib/run-process.ts";
import { command, switchFlag, valueFlag } from "../command.ts";
import type { CliContext } from "../context.ts";
import {
  SETTINGS,
  SETTINGS_FILE,
  type Service,
  serviceUnit,
  serviceUser,
  UNIT_FILE,
  USER_FILE,
} from "../platform/service-unit.ts";
import { mainFile } from "../platform/start.ts";

export const installServiceCommand = command({
  brief: "Make the platform a service of systemd, with a user of its own",
  text:
    "Writes a unit, a user for systemd-sysusers and a file with settings, then enables and starts the service. Run it as root. The first API key is " +
    "in the file first-key of the data directory.",
  examples: [
    ["svc platform install-service --print", "Show the unit and write nothing"],
    ["svc platform install-service", "Install, enable and start it"],
    ["svc platform install-service --root /mnt/image", "Into another root file system, where nothing is started"],
  ],
  flags: {
    print: switchFlag("Print the unit and write nothing"),
    user: valueFlag(
      "NAME",
      "User of the service, made when it is missing; default: svc",
      plain(/^[a-z_][a-z0-9_-]{0,30}$/),
    ),
    dataDir: valueFlag("DIR", "Directory of its data; default: /var/lib/svc", plain(/^\/[\w@/.+-]+$/)),
    root: valueFlag("DIR", "Root file system to install into; default: /"),
  },
  async run(flags) {
    const { terminal } = this;
    const service = { program: program(this), user: flags.user ?? "svc", dataDir: flags.dataDir ?? "/var/lib/svc" };
    if (flags.print) return terminal.write(serviceUnit(service));
    const root = flags.root === undefined ? "/" : path.resolve(this.cwd, flags.root);
    refuseHome(service);
    for (const tool of ["systemctl", "systemd-sysusers"]) {
      if (onPath(tool, this.env.PATH ?? "") !== undefined) continue;
      throw new SvcError("TOOL_MISSING", `${tool} is not here: this machine's services are not those of systemd.`, {
        help: "svc platform start --foreground runs the platform under any service manager.",
      });
    }
    await write(root, service);
    const at = root === "/" ? [] : [`--root=${root}`];
    await runTool(this, "systemd-sysusers", ...at, path.basename(USER_FILE));
    if (root === "/") await runTool(this, "systemctl", "daemon-reload");
    await runTool(this, "systemctl", ...at, "enable", ...(root === "/" ? ["--now"] : []), "svc.service");
    terminal.out(`Unit      ${path.join(root, UNIT_FILE)}`);
    terminal.out(`Settings  ${path.join(root, SETTINGS_FILE)}`);
    terminal.out(`Data      ${path.join(root, service.dataDir)}`);
    terminal.out(`Key       ${path.join(root, service.dataDir, "first-key")}, after the first start`);
    terminal.out("Look at it with systemctl status svc and journalctl -u svc.");
  },
});

/** With a message for what does not fit; the letters of a unit. */
function plain(pattern: RegExp): (text: string) => string {
  return (text) => {
    if (pattern.test(text)) return text;
    throw new Error("only letters that mean nothing to systemd can be used, and an absolute path");
  };
}

/** The link that stays over upgrades, where there is one: that of install.sh, or the one on the PATH. */
function program({ env }: CliContext): string[] {
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

async function write(root: string, service: Service): Promise<void> {
  const files: [name: string, text: string, mode: number][] = [
    [UNIT_FILE, serviceUnit(service), 0o644],
    [USER_FILE, serviceUser(service), 0o644],
    [SETTINGS_FILE, SETTINGS, 0o600],
  ];
  for (const [name, text, mode] of files) {
    const file = path.join(root, name);
    // What somebody has set stays.
    if (name === SETTINGS_FILE && existsSync(file)) continue;
    try {
      makeFolder(path.dirname(file));
      await writeFile(file, text);
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

async function runTool({ env }: CliContext, tool: string, ...args: string[]): Promise<void> {
  const { code, stdout, stderr } = await runProcess(tool, args, { env });
  if (code === 0) return;
  throw new SvcError("CONFLICT", `${tool} ${args.join(" ")} failed: ${(stderr || stdout).trim()}`, {
    help: "journalctl -u svc says more, once the service has started.",
  });
}
