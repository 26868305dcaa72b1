/** Mixed calls for a time, while memory and descriptors of the platform's processes are measured. */
import { readdirSync, readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { pidOf } from "./faults.ts";
import { Subject } from "./subject.ts";
import { startTraffic, TRAFFIC_PROJECT } from "./traffic.ts";

interface Sample {
  readonly rssMb: number;
  readonly descriptors: number;
}

export interface Growth {
  /** Medians of the second and of the last quarter: the first is the warm-up. */
  readonly rssMb: readonly [number, number];
  readonly descriptors: readonly [number, number];
}

const PROCESSES = ["platform", "launcher", "zygote"] as const;
const SAMPLES = 60;

export async function soak(seconds: number) {
  const subject = await Subject.start();
  try {
    const urls = await subject.set(TRAFFIC_PROJECT(0));
    const traffic = startTraffic(subject, urls);
    const samples = Object.fromEntries(PROCESSES.map((name) => [name, [] as Sample[]]));
    // The same zygote each time.
    const processes = { platform: subject.pid, dataDir: subject.dataDir };
    const pids = await Promise.all(PROCESSES.map((name) => pidOf(name, processes, () => 0)));
    try {
      for (let n = 0; n < SAMPLES; n++) {
        await delay((seconds * 1000) / SAMPLES);
        for (const [index, name] of PROCESSES.entries()) {
          const pid = pids[index];
          if (pid !== undefined) samples[name]!.push(sampleOf(pid));
        }
      }
    } finally {
      await traffic.stop();
    }
    const growth = Object.fromEntries(Object.entries(samples).map(([name, all]) => [name, growthOf(all)]));
    return { done: traffic.done, failed: traffic.failed, growth };
  } finally {
    await subject.close();
  }
}

function sampleOf(pid: number): Sample {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const rssMb = Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024;
  return { rssMb, descriptors: readdirSync(`/proc/${pid}/fd`).length };
}

function growthOf(samples: readonly Sample[]): Growth {
  const quarter = Math.floor(samples.length / 4);
  const early = samples.slice(quarter, 2 * quarter);
  const late = samples.slice(-quarter);
  const both = (read: (sample: Sample) => number): [number, number] => [
    middle(early.map(read)),
    middle(late.map(read)),
  ];
  return { rssMb: both(({ rssMb }) => rssMb), descriptors: both(({ descriptors }) => descriptors) };
}

function middle(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[values.length >> 1] ?? 0;
}
