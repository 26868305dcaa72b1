/** The driver that the configuration asks for. */
import path from "node:path";
import { fileURLToPath } from "node:url";
import envPaths from "env-paths";
import type { ArtifactStore } from "../artifacts/artifact-store.ts";
import type { RegistryLogin } from "../domain/registry.ts";
import type { HeldAddress } from "../domain/worker-protocol.ts";
import { KNOWN_TO_UV } from "../drivers/base-layers.ts";
import type { CapacityLedger } from "../drivers/capacity.ts";
import { DockerDriver } from "../drivers/docker.ts";
import { PodDriver } from "../drivers/pod/pod-driver.ts";
import { ProcessDriver } from "../drivers/process.ts";
import type { DriverHooks, LocalDriver, WorkerSpec } from "../drivers/worker-driver.ts";
import type { NetworkFolder } from "../lib/network-folder.ts";
import type { Config } from "./config.ts";
import type { ContainerCalls } from "./container-calls.ts";

const PYTHON_PATH = fileURLToPath(
  new URL(import.meta.url.endsWith(".ts") ? "../../python/src" : "../../../python/src", import.meta.url),
);

export type { LocalDriver } from "../drivers/worker-driver.ts";

interface DriverNeeds {
  readonly config: Config;
  readonly socketPath: string;
  /** Where a worker dials, when that is elsewhere than its launcher. */
  readonly workersDial?: (spec: Pick<WorkerSpec, "dial">) => string;
  /** A ticket with which their links may wait there. */
  readonly ahead?: () => string | undefined;
  /** Where launchers say what they say; default: where this process does. */
  readonly logFd?: number;
  readonly platformUrl: () => string;
  /** Of the platform on this machine, for its launcher to hold; default: none. */
  readonly heldAddresses?: () => readonly HeldAddress[];
  readonly volumesDisk: NetworkFolder;
  readonly containerCalls: Pick<ContainerCalls, "serve">;
  readonly artifacts: ArtifactStore;
  readonly ledger: CapacityLedger;
  readonly hooks: DriverHooks;
  readonly loginOf: (endpointId: string) => Promise<RegistryLogin | undefined>;
}

export function makeDriver(needs: DriverNeeds): LocalDriver {
  const { config, containerCalls, platformUrl, loginOf, logFd = 2, ...given } = needs;
  const { dataDir, volumesDir, isolation } = config;
  const common = { ...given, pythonPath: PYTHON_PATH };
  if (config.driver === "docker") {
    return new DockerDriver({
      ...common,
      ...config.docker,
      dataDir,
      isolation,
      env: config.installerEnv,
      loginOf,
      serveCalls: (hostAddress) => containerCalls.serve(hostAddress),
    });
  }
  if (config.driver === "pod") {
    return new PodDriver({ ...common, folder: config.pod.folder, dataDir, isolation, platformUrl });
  }
  return new ProcessDriver({
    ...common,
    dataDir,
    volumesMounted: config.volumesMounted,
    inPod: config.inPod,
    isolation,
    platformUrl,
    hidden: [dataDir, volumesDir, ...foldersOfUser(config.installerEnv)],
    writable: config.workerPaths,
    workerUids: config.workerUids,
    python: config.python,
    installerEnv: config.installerEnv,
    cpuWheels: onlyEmulates(config, common.ledger) ? cpuWheelsOf(config) : undefined,
    logFd,
    zygoteMemoryMb: config.zygoteMemoryMb,
  });
}

/** Where this machine's user keeps a login, built layers and platforms, and all else that has a usual place. */
function foldersOfUser(env: Config["installerEnv"]): string[] {
  const { config, cache, data } = envPaths("svc", { suffix: "" });
  const { SVC_CONFIG_DIR, SVC_CACHE_DIR, XDG_CONFIG_HOME, XDG_CACHE_HOME, XDG_DATA_HOME, XDG_RUNTIME_DIR } = env;
  const named = [SVC_CONFIG_DIR, SVC_CACHE_DIR, XDG_CONFIG_HOME, XDG_CACHE_HOME, XDG_DATA_HOME, XDG_RUNTIME_DIR];
  return [config, cache, data, ...named.flatMap((folder) => (folder ? [path.resolve(folder)] : []))];
}

function cpuWheelsOf({ cpuWheels = KNOWN_TO_UV }: Config): string | undefined {
  return cpuWheels === "off" ? undefined : cpuWheels;
}

/** No endpoint here ever sees a GPU. */
function onlyEmulates({ emulateGpu, emulatedGpus }: Config, { capacity }: CapacityLedger): boolean {
  return (emulateGpu || emulatedGpus.length > 0) && capacity.gpus.every(({ emulated }) => emulated);
}
