/** What the machine has, and what is promised to the workers that run on it. */
import { availableParallelism, totalmem } from "node:os";
import { SvcError } from "../domain/errors.ts";
import { gpuMatches } from "../domain/gpu.ts";
import { GPU_MACHINE, type MachineType, machineType } from "../domain/machine-type.ts";
import { runProcess } from "../lib/run-process.ts";
import type { Capacity, WorkerSpec } from "./worker-driver.ts";

const GB = 1024 ** 3;

interface CapacityOptions {
  readonly cpuOvercommit: number;
  readonly memoryOvercommit: number;
  readonly emulateGpu: boolean;
}

/** What one worker takes of the machine. The launcher keeps it for a platform that comes back after a crash. */
export interface Share {
  readonly vcpus: number;
  readonly memoryGb: number;
  /** Indexes of the GPUs it owns. */
  readonly gpus: readonly number[];
}

/** Product strings of this machine's GPUs; none when there is no driver. */
export async function findGpus(): Promise<string[]> {
  const result = await runProcess("nvidia-smi", ["--query-gpu=name", "--format=csv,noheader"]).catch(() => undefined);
  if (result?.code !== 0) return [];
  return result.stdout.split("\n").flatMap((line) => (line.trim() === "" ? [] : [line.trim()]));
}

/** Whether workers that ask for these GPUs run on the CPU instead, because the configuration says so. */
export function emulatesGpu({ emulatesGpu: allowed, gpus }: Capacity, gpuIds: string): boolean {
  return allowed && gpuIds !== "" && !gpus.some((product) => gpuMatches(gpuIds, product));
}

export class CapacityLedger {
  readonly #options: CapacityOptions;
  readonly #gpus: readonly string[];
  readonly capacity: Capacity;
  readonly #shares = new Map<string, Share>();

  constructor(options: CapacityOptions, gpus: readonly string[]) {
    this.#options = options;
    this.#gpus = gpus;
    this.capacity = {
      vcpus: availableParallelism() * options.cpuOvercommit,
      memoryGb: Math.floor((totalmem() / GB) * options.memoryOvercommit),
      gpus,
      emulatesGpu: options.emulateGpu,
    };
  }

  /** Books the worker's share, or throws NO_CAPACITY saying what is missing. */
  book(spec: WorkerSpec): Share {
    const machine = machineOf(spec);
    const { vcpus, memoryGb } = this.capacity;
    const used = { vcpus: 0, memoryGb: 0, gpus: new Set<number>() };
    for (const share of this.#shares.values()) {
      used.vcpus += share.vcpus;
      used.memoryGb += share.memoryGb;
      for (const gpu of share.gpus) used.gpus.add(gpu);
    }
    if (used.vcpus + machine.vcpus > vcpus) throw full(`${machine.vcpus} vCPU`, `${vcpus - used.vcpus} of ${vcpus}`);
    if (used.memoryGb + machine.memoryGb > memoryGb) {
      throw full(`${machine.memoryGb} GB memory`, `${memoryGb - used.memoryGb} of ${memoryGb}`);
    }
    const gpus = this.#gpusFor(spec, used.gpus);
    const share = { vcpus: machine.vcpus, memoryGb: machine.memoryGb, gpus };
    this.#shares.set(spec.workerId, share);
    return share;
  }

  /** A worker that was started by an earlier platform runs: what it has is taken, whether there is room or not. */
  restore(workerId: string, share: Share): void {
    this.#shares.set(workerId, share);
  }

  free(workerId: string): void {
    this.#shares.delete(workerId);
  }

  #gpusFor(spec: WorkerSpec, taken: ReadonlySet<number>): number[] {
    if (spec.gpuIds === "") return [];
    const fitting = this.#gpus.flatMap((product, index) => (gpuMatches(spec.gpuIds, product) ? [index] : []));
    const free = fitting.filter((index) => !taken.has(index)).slice(0, spec.gpuCount);
    if (free.length === spec.gpuCount) return free;
    if (this.#options.emulateGpu) return [];
    if (fitting.length === 0) {
      throw new SvcError("NO_CAPACITY", `No GPU available: this machine has none of ${spec.gpuIds}.`, {
        help: "Jobs stay IN_QUEUE. Add a machine with such a GPU, or start the platform with --emulate-gpu to try the endpoint on the CPU.",
      });
    }
    throw full(`${spec.gpuCount} GPU`, `${free.length} of ${fitting.length}`);
  }
}

export function machineOf(spec: Pick<WorkerSpec, "instanceIds">): MachineType {
  return machineType(spec.instanceIds) ?? GPU_MACHINE;
}

function full(needed: string, free: string): SvcError {
  return new SvcError("NO_CAPACITY", `The machine is full: a worker needs ${needed}, ${free} is free.`);
}
