/** The platform, or the agent of a host, as a service of systemd: its unit, its user, and the file with its settings. */

/** Of letters that mean nothing to systemd. */
export interface Service {
  /** The words that start svc: absolute paths. */
  readonly program: readonly string[];
  readonly user: string;
  readonly dataDir: string;
}

/** What is written, and what systemd calls it. */
export interface ServiceFiles {
  /** Without ".service". */
  readonly name: string;
  readonly unit: string;
  readonly userLine: string;
  readonly settingsFile: string;
  /** Kept where it is there already. */
  readonly settings: string;
}

export const UNIT_FILE = "/etc/systemd/system/svc.service";
export const SETTINGS_FILE = "/etc/svc/platform.env";
export const USER_FILE = "/usr/lib/sysusers.d/svc.conf";

export function serviceUnit(service: Service): string {
  const { program, dataDir } = service;
  const start = [...program, "platform", "start", "--foreground", "--key-file", `${dataDir}/first-key`];
  const environment = `HOME=${dataDir} SVC_DATA_DIR=${dataDir} SVC_CONFIG_DIR=${dataDir}/config SVC_CACHE_DIR=${dataDir}/cache`;
  return unitText("svc platform", service, { start, environment, settingsFile: SETTINGS_FILE });
}

/**
 * Workers have namespaces, a view of the machine and groups of their own, which an ordinary user makes below what the unit allows. So it
 * delegates its group, and it leaves out what forbids namespaces, what covers parts of /proc (an ordinary user may then mount none), and
 * what closes devices (GPUs).
 */
export function unitText(
  description: string,
  { user, dataDir }: Service,
  {
    start,
    environment,
    settingsFile,
    reload,
    groups = [],
    stopSeconds = 120,
  }: {
    readonly start: readonly string[];
    readonly environment: string;
    readonly settingsFile: string;
    readonly reload?: string;
    /** That its user is in besides. */
    readonly groups?: readonly string[];
    readonly stopSeconds?: number;
  },
): string {
  return `[Unit]
Description=${description}
After=network-online.target
Wants=network-online.target
# Below a mount whose disk is not there yet it would find nothing, and begin anew.
RequiresMountsFor=${dataDir}

[Service]
Type=exec
User=${user}
Group=${user}
${groups.length === 0 ? "" : `SupplementaryGroups=${groups.join(" ")}\n`}ExecStartPre=+/usr/bin/install -d -m 0700 -o ${user} -g ${user} ${dataDir}
ExecStart=${start.join(" ")}
${reload === undefined ? "" : `ExecReload=${reload}\n`}Environment=${environment}
EnvironmentFile=-${settingsFile}
Restart=on-failure
RestartSec=2
# Running work is finished or handed back; the workers are then ended with it.
KillMode=mixed
TimeoutStopSec=${stopSeconds}
# A group for each worker.
Delegate=yes
LimitNOFILE=65536
OOMPolicy=continue
UMask=0077

NoNewPrivileges=yes
ProtectSystem=full
ProtectHome=yes
PrivateTmp=yes
ProtectKernelModules=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
CapabilityBoundingSet=
AmbientCapabilities=
KeyringMode=private

[Install]
WantedBy=multi-user.target
`;
}

/** For systemd-sysusers, which makes the user. */
export function serviceUser({ user, dataDir }: Service, description = "svc platform"): string {
  return `u ${user} - "${description}" ${dataDir}\n`;
}

/** Settings that a service most often needs; docs/reference/config.md has all. */
export const SETTINGS = `# Settings of the svc platform (docs/reference/config.md); systemctl restart svc takes them.
# Where callers reach it, through a proxy with TLS:
#SVC_PUBLIC_URL=https://svc.example.org
# That proxy, so that callers are told apart:
#SVC_TRUSTED_PROXIES=127.0.0.1
# Load-balanced endpoints on hosts of their own:
#SVC_DOMAIN=svc.example.org
#SVC_RATE_LIMITS=1
#SVC_DURABILITY=full
`;
