/** What of the machine, or of all that workers run on, is promised to workers, and what is in use, by whomever. */
import { cpus } from "node:os";
import type { Share } from "../domain/capacity.ts";
import type { LiveHost } from "../domain/host.ts";
import { SERIES_HOSTS_MAX } from "../domain/limits.ts";
import { wholeOf } from "../domain/placement.ts";
import { type Recorded, SAMPLES_END } from "../domain/series.ts";
import type { Capacity } from "../drivers/worker-driver.ts";
import type { GpuUse } from "./gpu-meter.ts";

const GB = 1024 ** 3;

export interface MachineUse {
  readonly vcpus: { readonly total: number; readonly promised: number; readonly used: number };
  /** GB. */
  readonly memory: { readonly total: number; readonly promised: number; readonly used: number };
  /** Numbers of GPUs. `measured`: those that nvidia-smi says something of. */
  readonly gpus: { readonly total: number; readonly promised: number; readonly measured: readonly GpuUse[] };
}

/** Busy and all time of the machine's CPUs so far, in milliseconds. */
function cpuTimes(): { busy: number; all: number } {
  let busy = 0;
  let all = 0;
  for (const { times } of cpus()) {
    const { user, nice, sys, irq, idle } = times;
    busy += user + nice + sys + irq;
    all += user + nice + sys + irq + idle;
  }
  return { busy, all };
}

export class MachineMeter {
  #times = cpuTimes();
  #usedVcpus = 0;

  /** CPUs in use are those of the time since the last call; hosts that joined say themselves what is in use of them. */
  read({ shares, ...fleet }: Capacity, measured: readonly GpuUse[]): MachineUse {
    const { hardware } = fleet;
    const { vcpus, memoryGb, gpus } = wholeOf(fleet);
    const times = cpuTimes();
    const passed = times.all - this.#times.all;
    // Called twice in a moment, the kernel's counters have not moved.
    if (passed > 0) this.#usedVcpus = Math.min(1, (times.busy - this.#times.busy) / passed) * hardware.vcpus;
    if (passed > 0) this.#times = times;
    const { machines } = fleet;
    const isOwnIn = machines === undefined || machines.some(({ id }) => id === "");
    const others = (machines ?? []).flatMap(({ inUse, name }) => (inUse === undefined ? [] : [{ ...inUse, name }]));
    const usedBy = (own: number, of: (one: (typeof others)[number]) => number) =>
      others.reduce((all, one) => all + of(one), isOwnIn ? own : 0);
    const measuredGpus = [
      ...(isOwnIn ? measured : []),
      ...others.flatMap(({ gpus: some, name }) => some.map((gpu) => ({ ...gpu, host: name }))),
    ];
    const held = [...shares.values()];
    const sum = (of: (share: (typeof held)[number]) => number) => held.reduce((all, share) => all + of(share), 0);
    return {
      vcpus: { total: vcpus, promised: sum((share) => share.vcpus), used: usedBy(this.#usedVcpus, (one) => one.vcpus) },
      memory: {
        total: memoryGb,
        promised: sum((share) => share.memoryGb),
        used: usedBy(Math.max(0, hardware.memoryGb - process.availableMemory() / GB), (one) => one.memoryGb),
      },
      gpus: {
        total: gpus.length,
        promised: sum(gpusOf),
        measured: measuredGpus,
      },
    };
  }
}

/** Of each machine that joined and is here, once its agent has measured it. */
export function recordedHosts(hosts: readonly LiveHost[]): Map<string, Recorded> {
  const some = hosts.toSorted((a, b) => (a.id < b.id ? -1 : 1)).slice(0, SERIES_HOSTS_MAX);
  return new Map(
    some.flatMap(({ id, machine, inUse, workers }) => {
      if (machine === undefined || inUse === undefined) return [];
      const sum = (of: (share: Share) => number) => workers.reduce((all, { share }) => all + of(share), 0);
      const { vcpus, memoryGb, gpus } = machine;
      const recorded = recordedUse({
        vcpus: { total: vcpus, promised: sum((share) => share.vcpus), used: inUse.vcpus },
        memory: { total: memoryGb, promised: sum((share) => share.memoryGb), used: inUse.memoryGb },
        gpus: { total: gpus.length, promised: sum(gpusOf), measured: inUse.gpus },
      });
      return [[id, recorded] as const];
    }),
  );
}

export function recordedUse({ vcpus, memory, gpus }: MachineUse): Recorded {
  return {
    numbers: {
      "machine.vcpuPromised": vcpus.promised,
      "machine.vcpuUsed": rounded(vcpus.used),
      "machine.vcpuFree": rounded(Math.max(0, vcpus.total - vcpus.promised)),
      "machine.gbPromised": memory.promised,
      "machine.gbUsed": rounded(memory.used),
      "machine.gbFree": rounded(Math.max(0, memory.total - memory.promised)),
      "machine.gpuPromised": gpus.promised,
      "machine.gpuFree": Math.max(0, gpus.total - gpus.promised),
      ...whereKnown("machine.gpuUsed", known(gpus.measured, "busy")),
      ...whereKnown("machine.gpuGbUsed", known(gpus.measured, "memoryGb")),
    },
    histograms: {},
  };
}

function gpusOf({ gpus, gpuFraction = 1 }: Share): number {
  return gpus.length * gpuFraction;
}

/** Of all GPUs together; undefined when it is known of none. */
export function known(gpus: readonly GpuUse[], of: "busy" | "memoryGb"): number | undefined {
  const values = gpus.flatMap((gpu) => gpu[of] ?? []);
  return values.length === 0 ? undefined : values.reduce((sum, value) => sum + value, 0);
}

function whereKnown(name: string, value: number | undefined): Record<string, number> {
  return value === undefined ? {} : { [name]: rounded(value), [`${name}${SAMPLES_END}`]: 1 };
}

function rounded(value: number): number {
  return Math.round(value * 1000) / 1000;
}
