/** What the machine has, and what is promised to the workers that run on it. */
import { availableParallelism, totalmem } from "node:os";
import { gpuClash, type Host, type Lack, type Machine, needOf, place, type Share } from "../domain/capacity.ts";
import { SvcError } from "../domain/errors.ts";
import { onPath } from "../lib/on-path.ts";
import { runProcess } from "../lib/run-process.ts";
import type { Capacity, WorkerSpec } from "./worker-driver.ts";

const GB = 1024 ** 3;

interface CapacityOptions {
  readonly cpuOvercommit: number;
  readonly memoryOvercommit: number;
  readonly emulateGpu: boolean;
  /** Product strings of GPUs that the machine is to be taken to have. */
  readonly emulatedGpus: readonly string[];
}

/** What this process may use: in a container that may be less than the machine has. */
export function hardware(): Host {
  const bytes = Math.min(totalmem(), process.constrainedMemory() || Number.POSITIVE_INFINITY);
  return { vcpus: availableParallelism(), memoryGb: bytes / GB };
}

/** Product strings of this machine's GPUs in the order of the PCI bus; none when the search path has no driver's program. */
export async function findGpus(searchPath = "/usr/bin:/bin"): Promise<string[]> {
  // A process that cannot begin costs as much as one that does.
  const program = onPath("nvidia-smi", searchPath);
  if (program === undefined) return [];
  const result = await runProcess(program, ["--query-gpu=name", "--format=csv,noheader"]).catch(() => undefined);
  if (result?.code !== 0) return [];
  return result.stdout.split("\n").flatMap((line) => (line.trim() === "" ? [] : [line.trim()]));
}

export class CapacityLedger {
  readonly capacity: Capacity;
  readonly #machine: Machine;
  readonly #shares = new Map<string, Share>();

  constructor(options: CapacityOptions, gpus: readonly string[], host = hardware()) {
    this.#machine = {
      hardware: host,
      vcpus: host.vcpus * options.cpuOvercommit,
      memoryGb: Math.floor(host.memoryGb * options.memoryOvercommit),
      gpus: [
        ...gpus.map((product) => ({ product, emulated: false })),
        ...options.emulatedGpus.map((product) => ({ product, emulated: true })),
      ],
      emulatesGpu: options.emulateGpu,
    };
    this.capacity = { ...this.#machine, shares: this.#shares };
  }

  /** Books the worker's share, or throws NO_CAPACITY saying what is missing. */
  book(spec: WorkerSpec): Share {
    const share = spec.share === undefined ? this.#place(spec) : this.#told(spec.share);
    if ("lack" in share) throw new SvcError("NO_CAPACITY", share.lack, { help: share.help });
    this.#shares.set(spec.workerId, share);
    return share;
  }

  #place(spec: WorkerSpec): Share | Lack {
    const need = needOf(this.#machine, spec, spec.gpuPreference);
    return place(this.#machine, this.#shares.values(), need, spec.beyondCapacity);
  }

  /** vCPUs and memory may be promised beyond what is there; a GPU is not. */
  #told(share: Share): Share | Lack {
    return gpuClash(this.#machine, this.#shares.values(), share) ?? share;
  }

  /** Books the worker's share for a start, which frees it when it fails. Throws NO_CAPACITY, and what `start` throws. */
  async withShare(spec: WorkerSpec, start: (share: Share) => Promise<void> | void): Promise<void> {
    const share = this.book(spec);
    try {
      await start(share);
    } catch (error) {
      this.free(spec.workerId);
      throw error;
    }
  }

  /** A worker that was started by an earlier platform runs: what it has is taken, whether there is room or not. */
  restore(workerId: string, share: Share): void {
    this.#shares.set(workerId, share);
  }

  free(workerId: string): void {
    this.#shares.delete(workerId);
  }

  /** What a worker is told of its GPUs; nothing for a CPU endpoint. */
  gpuEnv(spec: Pick<WorkerSpec, "gpuIds">, share: Share): Readonly<Record<string, string>> {
    if (spec.gpuIds === "") return {};
    return {
      // As nvidia-smi counts them; CUDA by itself puts the fastest first.
      CUDA_DEVICE_ORDER: "PCI_BUS_ID",
      CUDA_VISIBLE_DEVICES: this.#realGpus(share).join(","),
      SVC_GPU_FRACTION: String(share.gpuFraction ?? 1),
    };
  }

  /** Whether the worker has a GPU that is not emulated. */
  hasGpu(share: Share): boolean {
    return this.#realGpus(share).length > 0;
  }

  #realGpus(share: Share): number[] {
    return share.gpus.filter((index) => this.#machine.gpus[index]?.emulated === false);
  }
}
