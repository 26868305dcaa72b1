/**
 * Reads steps and sums them. Questions about the same steps that are asked at once share one sweep, and sweeps take turns: however
 * much is asked, each row is read once, and the platform's other work waits for some hundred rows at most.
 */
import { setImmediate } from "node:timers/promises";
import { HISTORY_ROWS_AT_ONCE } from "../domain/limits.ts";
import { type Recorded, RecordedSum } from "../domain/series.ts";
import { getOrInsert } from "../lib/get-or-insert.ts";
import type { HistoryDatabase } from "./history-database.ts";

export interface SweepRange {
  /** Whose steps: their numbers. */
  readonly subjects: readonly number[];
  /** Steps of this kind, and of shorter ones those that are not added up yet. */
  readonly tier: number;
  /** Milliseconds that are summed as one. */
  readonly step: number;
  /** Milliseconds since the epoch. */
  readonly from: number;
  readonly to: number;
}

/** By the begin of the step. */
export type Sums = ReadonlyMap<number, RecordedSum>;

interface Sweep {
  readonly metrics: Set<string>;
  readonly sums: Promise<Sums>;
}

export interface StepRow {
  readonly subject: number;
  readonly at: number;
  readonly seq: number;
  readonly data: string;
}

export class SeriesSweeps {
  readonly #sql: ReturnType<typeof statements>;
  /** That have not begun. */
  readonly #waiting = new Map<string, Sweep>();
  #last: Promise<unknown> = Promise.resolve();

  constructor(history: HistoryDatabase) {
    this.#sql = statements(history);
  }

  read(range: SweepRange, metric: string): Promise<Sums> {
    const key = JSON.stringify(range);
    const sweep = getOrInsert(this.#waiting, key, () => this.#place(key, range));
    sweep.metrics.add(metric);
    return sweep.sums;
  }

  #place(key: string, range: SweepRange): Sweep {
    const metrics = new Set<string>();
    const sums = this.#last.then(async () => {
      await setImmediate();
      this.#waiting.delete(key);
      return await this.#sweep(range, metrics);
    });
    this.#last = sums.catch(() => {});
    return { metrics, sums };
  }

  async #sweep({ subjects, tier, step, from, to }: SweepRange, metrics: ReadonlySet<string>): Promise<Sums> {
    const sums = new Map<number, RecordedSum>();
    const parts = this.#parts(tier);
    for (const subject of subjects) {
      for (const { tier: of, since, last } of parts) {
        let after = { at: from, seq: 0 };
        let rows: StepRow[];
        do {
          rows = this.#sql.range.all(of, subject, after.at, after.seq, to, since, last) as unknown as StepRow[];
          for (const { at, data } of rows)
            getOrInsert(sums, floorTo(at, step), () => new RecordedSum()).add(parse(data), metrics);
          if (rows.length > 0) await setImmediate();
          after = rows.at(-1) ?? after;
        } while (rows.length === HISTORY_ROWS_AT_ONCE);
      }
    }
    return sums;
  }

  /** The steps of each kind that count: what is written or added up meanwhile is neither missed nor counted twice. */
  #parts(tier: number): { tier: number; since: number; last: number }[] {
    const parts = [];
    let since = 0;
    for (let of = tier; of >= 0; of--) {
      const { seq: last, rolled } = this.#sql.tier.get(of) as { seq: number; rolled: number };
      parts.push({ tier: of, since, last });
      since = rolled;
    }
    return parts;
  }
}

function statements({ connection }: HistoryDatabase) {
  return {
    tier: connection.prepare("SELECT seq, rolled FROM series_tiers WHERE tier = ?"),
    range: connection.prepare(`SELECT subject, at, seq, data FROM series_steps
      WHERE tier = ? AND subject = ? AND (at, seq) > (?, ?) AND at < ? AND seq > ? AND seq <= ?
      ORDER BY at, seq LIMIT ${HISTORY_ROWS_AT_ONCE}`),
  };
}

export function floorTo(at: number, stepMs: number): number {
  return Math.floor(at / stepMs) * stepMs;
}

export function parse(data: string): Recorded {
  const { n = {}, h = {} } = JSON.parse(data) as { n?: Recorded["numbers"]; h?: Recorded["histograms"] };
  return { numbers: n, histograms: h };
}
