/** `svc worker join --install-service`: the agent of this machine as a service of systemd. */
import path from "node:path";
import { SvcError } from "../../domain/errors.ts";
import type { CliContext } from "../context.ts";
import { installService, serviceWord, svcProgram } from "../platform/install-service.ts";
import { type Service, serviceUser, unitText } from "../platform/service-unit.ts";
import { type JoinFlags, joinOptions } from "./join.ts";

const SETTINGS_FILE = "/etc/svc/host.env";
const DATA_DIR = "/var/lib/svc-host";
const NAME = "svc-host";
const GRACE_S = 600;
/** Beyond the grace, to end what is left. */
const STOP_S = 60;

export interface InstallFlags extends JoinFlags {
  readonly print?: boolean;
  readonly user?: string;
  readonly root?: string;
}

export async function installHost(context: CliContext, flags: InstallFlags, address: string): Promise<void> {
  const { terminal, cwd } = context;
  const { token, ...options } = joinOptions(context, { ...flags, dataDir: flags.dataDir ?? DATA_DIR }, address);
  const word = (text: string, pattern: RegExp, flag: string) => {
    try {
      return serviceWord(pattern)(text);
    } catch (error) {
      throw new SvcError("USAGE", `${flag}: ${(error as Error).message}.`);
    }
  };
  const service = {
    program: svcProgram(context),
    user: word(flags.user ?? NAME, /^[a-z_][a-z0-9_-]{0,30}$/, "--user"),
    dataDir: word(options.config.dataDir, /^\/[\w@/.+-]+$/, "--data-dir"),
  };
  const { url, fingerprint } = options.address;
  const given = word(url, /^[\w:/.[\]-]+$/, "URL");
  const where = fingerprint === undefined ? given : `${given}#${fingerprint}`;
  const unit = hostUnit(service, where, agentFlags(cwd, flags), {
    // Who its engine listens to.
    groups: options.config.driver === "docker" ? ["docker"] : [],
    graceS: flags.grace ?? GRACE_S,
  });
  if (flags.print) return terminal.write(unit);
  if (token === undefined) {
    throw new SvcError("USAGE", "A token is missing: the service joins with it.", {
      help: "Give it by --token-file FILE or SVC_HOST_TOKEN; svc host token create, where the platform is managed, makes one.",
    });
  }
  const root = flags.root === undefined ? "/" : path.resolve(cwd, flags.root);
  await installService(context, root, service, {
    name: NAME,
    unit,
    userLine: serviceUser(service, "svc host"),
    settingsFile: SETTINGS_FILE,
    settings: settings(token),
    otherwise: "svc worker join runs the agent under any service manager.",
  });
  terminal.out(`Unit      ${path.join(root, `/etc/systemd/system/${NAME}.service`)}`);
  terminal.out(`Settings  ${path.join(root, SETTINGS_FILE)}`);
  terminal.out(`Data      ${path.join(root, service.dataDir)}`);
  terminal.out(`Look at it with systemctl status ${NAME} and journalctl -u ${NAME}.`);
}

/** Told to end, it waits for what runs; told to reload, it hands all over to the version that is installed then. */
function hostUnit(
  service: Service,
  address: string,
  flags: readonly string[],
  { groups, graceS }: { readonly groups: readonly string[]; readonly graceS: number },
): string {
  const { program, dataDir } = service;
  const start = [...program, "worker", "join", address, "--data-dir", dataDir, "--grace", `${graceS}s`, ...flags];
  const environment = `HOME=${dataDir} SVC_CONFIG_DIR=${dataDir}/config SVC_CACHE_DIR=${dataDir}/cache`;
  return unitText("svc host", service, {
    start,
    environment,
    settingsFile: SETTINGS_FILE,
    reload: "/bin/kill -USR2 $MAINPID",
    groups,
    stopSeconds: graceS + STOP_S,
  });
}

/** Those that the service is started with. */
function agentFlags(cwd: string, flags: JoinFlags): string[] {
  const { name, labels, cpus, memory, gpus, disk, driver, sharedVolumes } = flags;
  const volumes = sharedVolumes === undefined ? undefined : path.resolve(cwd, sharedVolumes);
  const given = {
    name,
    labels: labels?.replace(/\s/g, ""),
    cpus,
    memory,
    gpus,
    disk,
    driver,
    "shared-volumes": volumes,
  };
  return Object.entries(given).flatMap(([flag, value]) => {
    if (value === undefined) return [];
    if (/^[\w@/.+=,-]+$/.test(String(value))) return [`--${flag}`, String(value)];
    throw new SvcError("USAGE", `--${flag} can only have letters that mean nothing to systemd.`);
  });
}

function settings(token: string): string {
  return `# Settings of this machine's svc host; systemctl restart ${NAME} takes them.
# Lets it in the first time; once it has joined the line may go.
SVC_HOST_TOKEN=${token}
`;
}
