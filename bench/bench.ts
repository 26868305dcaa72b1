/** What a benchmark gets and gives. Ratios are what counts: the machines are noisy. */
import { getOrInsert } from "../src/lib/get-or-insert.ts";

export interface BenchOptions {
  readonly rounds: number;
  /** Only this part, of a benchmark that has parts. */
  readonly part?: string | undefined;
}

export interface Bar {
  readonly value: number;
  /** As a reader says it: "≤ 5 ms", "≥ 1.5". */
  readonly bar: string;
  readonly holds: boolean;
}

export interface BenchResult {
  readonly conditions: Readonly<Record<string, string>>;
  /** Medians over the rounds. */
  readonly figures: Readonly<Record<string, number>>;
  readonly bars: Readonly<Record<string, Bar>>;
}

export type Bench = (options: BenchOptions) => Promise<BenchResult>;

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/** What a program took, from its start to its end; the processor time is that of all it started and waited for, too. */
export interface Run {
  readonly ms: number;
  readonly processorMs: number;
}

/** Values of figures, several of each, by names that end in " ms" where a run is noted. */
export class Seen {
  readonly #values = new Map<string, number[]>();

  readonly note = (name: string, value: number | Run): void => {
    if (typeof value === "number") getOrInsert(this.#values, name, () => []).push(value);
    else {
      this.note(name, value.ms);
      this.note(`${name.replace(/ ms$/, "")}, processor time ms`, value.processorMs);
    }
  };

  of(name: string): readonly number[] {
    return this.#values.get(name) ?? [];
  }

  medians(): Record<string, number> {
    return Object.fromEntries([...this.#values].map(([name, values]) => [name, median(values)]));
  }
}

export function atMost(value: number, limit: number, unit = ""): Bar {
  return { value, bar: `≤ ${limit}${unit}`, holds: value <= limit };
}

export function atLeast(value: number, limit: number, unit = ""): Bar {
  return { value, bar: `≥ ${limit}${unit}`, holds: value >= limit };
}
