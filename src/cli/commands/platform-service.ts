/** `svc platform install-service`: the platform as a service of systemd. */
import path from "node:path";
import { command, switchFlag, valueFlag } from "../command.ts";
import { installService, serviceWord, svcProgram } from "../platform/install-service.ts";
import { SETTINGS, SETTINGS_FILE, serviceUnit, serviceUser, UNIT_FILE } from "../platform/service-unit.ts";

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
      serviceWord(/^[a-z_][a-z0-9_-]{0,30}$/),
    ),
    dataDir: valueFlag("DIR", "Directory of its data; default: /var/lib/svc", serviceWord(/^\/[\w@/.+-]+$/)),
    root: valueFlag("DIR", "Root file system to install into; default: /"),
  },
  async run(flags) {
    const { terminal } = this;
    const service = { program: svcProgram(this), user: flags.user ?? "svc", dataDir: flags.dataDir ?? "/var/lib/svc" };
    if (flags.print) return terminal.write(serviceUnit(service));
    const root = flags.root === undefined ? "/" : path.resolve(this.cwd, flags.root);
    await installService(this, root, service, {
      name: "svc",
      unit: serviceUnit(service),
      userLine: serviceUser(service),
      settingsFile: SETTINGS_FILE,
      settings: SETTINGS,
      otherwise: "svc platform start --foreground runs the platform under any service manager.",
    });
    terminal.out(`Unit      ${path.join(root, UNIT_FILE)}`);
    terminal.out(`Settings  ${path.join(root, SETTINGS_FILE)}`);
    terminal.out(`Data      ${path.join(root, service.dataDir)}`);
    terminal.out(`Key       ${path.join(root, service.dataDir, "first-key")}, after the first start`);
    terminal.out("Look at it with systemctl status svc and journalctl -u svc.");
  },
});
