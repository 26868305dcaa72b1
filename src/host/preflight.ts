/** Whether this machine can be a host: everything that is in the way at once, each with what to do. */
import { existsSync, readdirSync } from "node:fs";
import { AGENT_CLOCK_MAX_MS, AGENT_CLOCK_TOLD_MS, AGENT_DISK_MIN_BYTES } from "../domain/agent-limits.ts";
import { SvcError } from "../domain/errors.ts";
import { type CapacityLedger, hardware } from "../drivers/capacity.ts";
import { connectEngine } from "../drivers/docker/engine.ts";
import { Interpreters } from "../drivers/interpreter.ts";
import { libc } from "../lib/libc.ts";
import { isLoopback } from "../lib/loopback.ts";
import type { Config } from "../server/config.ts";
import { dialPinned, findWorkerPort, type JoinAddress, type WorkerPort } from "./dial.ts";
import { type Caps, freeDisk, offeredMachine } from "./machine-facts.ts";

export interface Finding {
  readonly message: string;
  readonly help?: string | undefined;
}

interface Preflight {
  readonly ledger: CapacityLedger;
  /** Undefined: the platform was not reached, which is among the problems. */
  readonly port: WorkerPort | undefined;
  readonly reach: SvcError | undefined;
  readonly problems: readonly SvcError[];
  readonly warnings: readonly Finding[];
}

interface Given {
  readonly config: Config;
  readonly address: JoinAddress;
  readonly caps: Caps;
  readonly folder: string;
}

export async function preflight({ config, address, caps, folder }: Given): Promise<Preflight> {
  const [ledger, port, disk, tools, system] = await Promise.all([
    offeredMachine(config, caps),
    reach(address),
    diskProblem(folder),
    toolProblem(config),
    systemProblem(config),
  ]);
  const clock = port instanceof SvcError ? {} : clockFinding(port.clockAheadMs);
  const containers = port instanceof SvcError ? undefined : containerProblem(config, address, port);
  const cap = config.driver === "pod" ? undefined : capProblem(ledger, caps);
  const found = [disk, tools, system, containers, cap, clock.problem];
  const problems = found.filter((one) => one !== undefined);
  const warnings = [clock.warning, gpuWarning(ledger)].filter((one) => one !== undefined);
  if (port instanceof SvcError) return { ledger, port: undefined, reach: port, problems, warnings };
  return { ledger, port, reach: undefined, problems, warnings };
}

/** One error for all of them; undefined when there are none. */
export function togetherAs(problems: readonly SvcError[]): SvcError | undefined {
  const [first] = problems;
  if (problems.length < 2) return first;
  const lines = problems.flatMap(({ message, help }) => [`- ${message}`, ...(help === undefined ? [] : [`  ${help}`])]);
  return new SvcError("CONFLICT", `This machine cannot join yet, for ${problems.length} reasons:`, {
    help: lines.join("\n"),
  });
}

/** URL, and the port for machines with the certificate that was pinned. */
async function reach(address: JoinAddress): Promise<WorkerPort | SvcError> {
  try {
    const port = await findWorkerPort(address);
    (await dialPinned(address, port)).destroy();
    return port;
  } catch (error) {
    if (error instanceof SvcError) return error;
    throw error;
  }
}

async function diskProblem(folder: string): Promise<SvcError | undefined> {
  const free = await freeDisk(folder);
  if (free >= AGENT_DISK_MIN_BYTES) return undefined;
  const mb = (bytes: number) => Math.floor(bytes / 1024 ** 2);
  return new SvcError(
    "STORAGE_FULL",
    `The disk of ${folder} has ${mb(free)} MB free, and ${mb(AGENT_DISK_MIN_BYTES)} are needed.`,
    {
      help: "Make room there, or choose a folder on another disk: --data-dir DIR.",
    },
  );
}

async function toolProblem(config: Config): Promise<SvcError | undefined> {
  try {
    if (config.driver === "docker") await connectEngine(config.installerEnv);
    if (config.driver === "process") {
      const { version } = await new Interpreters(config.python).default();
      if (Number(version.split(".")[1]) < 10) {
        throw new SvcError("TOOL_MISSING", `This machine has Python ${version}.`, {
          help: "Install Python 3.10 or newer, or name it by SVC_PYTHON.",
        });
      }
    }
    return undefined;
  } catch (error) {
    if (error instanceof SvcError) return error;
    throw error;
  }
}

/** Builds are made for Linux with glibc. The platform looks at the architecture: it knows its own. */
async function systemProblem({ driver }: Config): Promise<SvcError | undefined> {
  if (process.platform !== "linux") {
    return new SvcError("CONFLICT", `Builds are made for Linux, and this machine has ${process.platform}.`, {
      help: "Join from a Linux machine, or from a virtual one here.",
    });
  }
  // Containers bring their own C library.
  if (driver !== "process" || !(await libc()).startsWith("musl")) return undefined;
  return new SvcError("CONFLICT", "Builds are made for glibc, and this machine has musl.", {
    help: "Run workers in containers: --driver docker. Or join from a distribution with glibc.",
  });
}

/** Loopback is another one in each container. */
function containerProblem({ driver, docker }: Config, { url }: JoinAddress, port: WorkerPort): SvcError | undefined {
  const far = [new URL(url).hostname.replace(/^\[|\]$/g, ""), port.host].find(isLoopback);
  if (driver !== "docker" || docker.network === "host" || far === undefined) return undefined;
  return new SvcError(
    "CONFLICT",
    `Containers of this machine cannot reach the platform at ${far}: there, that is the container itself.`,
    {
      help: "Join with an address of the platform that other machines reach, as https://svc.example.com#FINGERPRINT.",
    },
  );
}

function capProblem({ capacity }: CapacityLedger, { cpus, memoryGb, gpus }: Caps): SvcError | undefined {
  const has = hardware();
  const lines: string[] = [];
  if (cpus !== undefined && cpus > has.vcpus) lines.push(`--cpus ${cpus}, and it has ${has.vcpus}`);
  if (memoryGb !== undefined && memoryGb > has.memoryGb) {
    lines.push(`--memory ${memoryGb}, and it has ${Math.floor(has.memoryGb * 10) / 10} GB`);
  }
  const real = capacity.gpus.filter(({ emulated }) => !emulated).length;
  if (gpus !== undefined && gpus > real) lines.push(`--gpus ${gpus}, and it has ${real}`);
  if (lines.length === 0) return undefined;
  return new SvcError("INVALID_SETTING", `More is offered than this machine has: ${lines.join("; ")}.`, {
    help: "These flags offer less than there is. Without them everything is offered.",
  });
}

export function clockFinding(aheadMs: number | undefined): { problem?: SvcError; warning?: Finding } {
  if (aheadMs === undefined || Math.abs(aheadMs) < AGENT_CLOCK_TOLD_MS) return {};
  const message = `This machine's clock is ${Math.round(Math.abs(aheadMs) / 1000)} s ${aheadMs > 0 ? "behind" : "ahead of"} the platform's.`;
  const help = "Set it by NTP: timedatectl set-ntp true.";
  if (Math.abs(aheadMs) < AGENT_CLOCK_MAX_MS) return { warning: { message, help } };
  return { problem: new SvcError("CONFLICT", message, { help }) };
}

function gpuWarning({ capacity }: CapacityLedger): Finding | undefined {
  const folder = "/proc/driver/nvidia/gpus";
  if (capacity.gpus.some(({ emulated }) => !emulated) || !existsSync(folder) || readdirSync(folder).length === 0) {
    return undefined;
  }
  return {
    message: "This machine has GPUs, and nvidia-smi does not list them: they are not offered.",
    help: "Install the driver's tools.",
  };
}
