/** Mixed calls for a time, while memory and descriptors of the platform's processes and the rows of its tables are measured. */
import { copyFileSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as delay } from "node:timers/promises";
import { DATABASE_FILE } from "../../src/store/platform-database.ts";
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
    const processes = { driver: "processes", platform: subject.pid, dataDir: subject.dataDir } as const;
    const pids = await Promise.all(PROCESSES.map((name) => pidOf(name, processes, () => 0)));
    const rows: Record<string, number>[] = [];
    try {
      for (let n = 0; n < SAMPLES; n++) {
        await delay((seconds * 1000) / SAMPLES);
        const counted = rowsOf(subject.dataDir);
        if (counted !== undefined) rows.push(counted);
        for (const [index, name] of PROCESSES.entries()) {
          const pid = pids[index];
          if (pid !== undefined) samples[name]!.push(sampleOf(pid));
        }
      }
    } finally {
      await traffic.stop();
    }
    const growth = Object.fromEntries(Object.entries(samples).map(([name, all]) => [name, growthOf(all)]));
    const tables: Record<string, readonly [number, number]> = {};
    for (const name of Object.keys(rows[0] ?? {})) tables[name] = quarters(rows.map((each) => each[name] ?? 0));
    return { done: traffic.done, failed: traffic.failed, growth, tables };
  } finally {
    await subject.close();
  }
}

export function sampleOf(pid: number): Sample {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  const rssMb = Number(/VmRSS:\s+(\d+)/.exec(status)?.[1]) / 1024;
  return { rssMb, descriptors: readdirSync(`/proc/${pid}/fd`).length };
}

/** Of every table, in a copy: the platform keeps the file to itself. Undefined when it was written to meanwhile. */
export function rowsOf(dataDir: string): Record<string, number> | undefined {
  const copy = mkdtempSync(path.join(tmpdir(), "svc-rows-"));
  try {
    for (const end of ["", "-wal"]) {
      copyFileSync(path.join(dataDir, DATABASE_FILE + end), path.join(copy, DATABASE_FILE + end));
    }
    return countRows(path.join(copy, DATABASE_FILE));
  } catch {
    return undefined;
  } finally {
    rmSync(copy, { recursive: true, force: true });
  }
}

function countRows(file: string): Record<string, number> {
  const database = new DatabaseSync(file);
  try {
    const tables = database.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all() as { name: string }[];
    const count = (name: string) => Number(database.prepare(`SELECT count(*) AS n FROM "${name}"`).get()?.n);
    return Object.fromEntries(tables.map(({ name }) => [name, count(name)]));
  } finally {
    database.close();
  }
}

function growthOf(samples: readonly Sample[]): Growth {
  return {
    rssMb: quarters(samples.map(({ rssMb }) => rssMb)),
    descriptors: quarters(samples.map(({ descriptors }) => descriptors)),
  };
}

/** Medians of the second and of the last quarter. */
function quarters(values: readonly number[]): [number, number] {
  const quarter = Math.floor(values.length / 4);
  return [middle(values.slice(quarter, 2 * quarter)), middle(values.slice(-quarter))];
}

function middle(values: readonly number[]): number {
  return [...values].sort((a, b) => a - b)[values.length >> 1] ?? 0;
}
