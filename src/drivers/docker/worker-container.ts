/**
 * The container of one endpoint's revision: the launcher and all its workers. It sees the endpoint's code, the runtime and
 * the folder of the platform's socket, all read-only, its volumes, its environment's cache and a temporary folder in memory; nothing of the platform or of
 * other endpoints. It has no capabilities, no way to new privileges, and a network of the driver's own.
 */
import type { ContainerCreateOptions } from "dockerode";
import { CONTAINER_EXTRA_BYTES, CONTAINER_WORKER_PIDS } from "../../domain/limits.ts";

/** Paths inside. */
export const INSIDE = {
  runtime: "/opt/svc/python",
  source: "/opt/svc/source",
  dependencies: "/opt/svc/dependencies",
  cache: "/opt/svc/cache",
  socketDir: "/run/svc",
  temp: "/tmp",
} as const;

export const CPU_PERIOD_US = 100_000;

/** What one worker may use. */
export interface WorkerShare {
  readonly memoryBytes: number;
  readonly vcpus: number;
}

export interface Mount {
  readonly from: string;
  readonly to: string;
  readonly writable?: boolean;
}

export interface ContainerPlan {
  readonly name: string;
  readonly imageId: string;
  readonly python: string;
  /** `uid:gid` that may connect to the platform's socket. */
  readonly user: string;
  readonly hostUsers: boolean;
  readonly mounts: readonly Mount[];
  readonly network: string;
  /** What the engine runs it with; "" is the engine's own choice. */
  readonly runtime: string;
  readonly share: WorkerShare;
  /** Names it can look up: "name:address". */
  readonly extraHosts: readonly string[];
  readonly gpus: boolean;
  readonly labels: Readonly<Record<string, string>>;
}

export function containerOptions(plan: ContainerPlan): ContainerCreateOptions {
  const { memoryBytes } = plan.share;
  return {
    name: plan.name,
    Image: plan.imageId,
    // The launcher reads its secret from stdin: it must not stand in what `docker inspect` shows.
    Entrypoint: [],
    Cmd: [plan.python, "-I", "-S", `${INSIDE.runtime}/svc/_runtime/launcher.py`],
    OpenStdin: true,
    StdinOnce: true,
    User: plan.user,
    WorkingDir: "/",
    Env: [`HOME=${INSIDE.temp}`],
    Healthcheck: { Test: ["NONE"] },
    Labels: plan.labels,
    HostConfig: {
      Init: true,
      Runtime: plan.runtime === "" ? undefined : plan.runtime,
      ReadonlyRootfs: true,
      CapDrop: ["ALL"],
      SecurityOpt: ["no-new-privileges:true"],
      IpcMode: "private",
      UsernsMode: plan.hostUsers ? "host" : undefined,
      NetworkMode: plan.network,
      ExtraHosts: plan.extraHosts,
      Mounts: plan.mounts.map(({ from, to, writable }) => {
        return { Type: "bind", Source: from, Target: to, ReadOnly: writable !== true };
      }),
      // Both are the container's memory and count against its limit.
      Tmpfs: { [INSIDE.temp]: `rw,exec,nosuid,nodev,mode=1777,size=${memoryBytes}` },
      ShmSize: Math.floor(memoryBytes / 2),
      DeviceRequests: plan.gpus ? [{ Driver: "nvidia", Count: -1, Capabilities: [["gpu"]] }] : [],
      LogConfig: { Type: "json-file", Config: { "max-size": "1m", "max-file": "1" } },
      ...containerLimits(plan.share, 1),
    },
  };
}

/** Limits of the container with so many workers in it, for its creation and for the engine's update call. */
export function containerLimits({ memoryBytes, vcpus }: WorkerShare, workers: number) {
  const memory = memoryBytes * workers + CONTAINER_EXTRA_BYTES;
  return {
    Memory: memory,
    MemorySwap: memory,
    CpuPeriod: CPU_PERIOD_US,
    CpuQuota: Math.round(vcpus * workers * CPU_PERIOD_US),
    PidsLimit: CONTAINER_WORKER_PIDS * (workers + 1),
  };
}
