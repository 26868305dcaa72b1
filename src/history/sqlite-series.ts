/**
 * Series in the history's file. Steps are numbered as they come, for no clock that is set may make others outlive their time:
 *
 *   step of 10 s ──its minute is over──▶ step of 1 min ──its quarter is over──▶ step of 15 min
 *
 * Each is kept until so many of its kind came after it. What is not added up yet is read from the shorter steps.
 */
import { setImmediate } from "node:timers/promises";
import {
  HISTORY_ROWS_AT_ONCE,
  SERIES_MAX_BYTES,
  SERIES_MINUTE_MS,
  SERIES_MINUTES_KEPT,
  SERIES_POINTS_DEFAULT,
  SERIES_POINTS_MAX,
  SERIES_QUARTER_MS,
  SERIES_QUARTERS_KEPT,
  SERIES_STEP_MS,
  SERIES_STEPS_KEPT,
} from "../domain/limits.ts";
import { MACHINE, type Recorded, RecordedSum, ROUTE_MARK } from "../domain/series.ts";
import { getOrInsert } from "../lib/get-or-insert.ts";
import type { HistoryDatabase } from "./history-database.ts";
import { seriesAnswer } from "./series-answer.ts";
import type { SeriesAnswer, SeriesParts, SeriesQuestion, SeriesStore } from "./series-store.ts";
import { floorTo, parse, SeriesSweeps, type StepRow } from "./series-sweeps.ts";

const TIERS = [
  { stepMs: SERIES_STEP_MS, kept: SERIES_STEPS_KEPT },
  { stepMs: SERIES_MINUTE_MS, kept: SERIES_MINUTES_KEPT },
  { stepMs: SERIES_QUARTER_MS, kept: SERIES_QUARTERS_KEPT },
] as const;

/** The sum over all endpoints. */
const ALL = "all";
/** In the machine's rows: how many samples a step has. */
const SAMPLES = "samples";

export class SqliteSeries implements SeriesStore {
  readonly #history: HistoryDatabase;
  readonly #sql: ReturnType<typeof statements>;
  readonly #sweeps: SeriesSweeps;
  /** Number by id. */
  readonly #subjects = new Map<string, number>();
  readonly #maxBytes: number;

  constructor(history: HistoryDatabase, maxBytes = SERIES_MAX_BYTES) {
    this.#history = history;
    this.#maxBytes = maxBytes;
    history.connection.exec(TABLES);
    this.#sql = statements(history);
    this.#sweeps = new SeriesSweeps(history);
    this.#recall();
    history.onUndone(() => this.#recall());
  }

  #recall(): void {
    this.#subjects.clear();
    const subjects = this.#sql.subjects.all() as { id: string; number: number }[];
    for (const { id, number } of subjects) this.#subjects.set(id, number);
  }

  record(...step: Parameters<SeriesStore["record"]>): void {
    this.#history.later(() => this.#record(...step));
  }

  async #record(...[at, endpoints, machine, hosts = new Map()]: Parameters<SeriesStore["record"]>): Promise<void> {
    const seq = this.#nextSeq(0);
    const sums = new Map<string, RecordedSum>();
    const sumOf = (id: string) => getOrInsert(sums, id, () => new RecordedSum());
    let rows = 0;
    for (const [id, recorded] of endpoints) {
      const { environmentId } = recorded;
      this.#insert(0, id, at, seq, recorded);
      const summed = withoutRoutes(recorded);
      sumOf(ALL).add(summed);
      if (environmentId !== null) sumOf(environmentId).add(summed);
      if (++rows % HISTORY_ROWS_AT_ONCE === 0) await setImmediate();
    }
    for (const [id, { recorded }] of sums) {
      this.#insert(0, id, at, seq, recorded);
      if (++rows % HISTORY_ROWS_AT_ONCE === 0) await setImmediate();
    }
    for (const [id, recorded] of [[MACHINE, machine] as const, ...hosts]) {
      this.#insert(0, id, at, seq, { ...recorded, numbers: { ...recorded.numbers, [SAMPLES]: 1 } });
    }
    for (let tier = 1; tier < TIERS.length; tier++) await this.#addUp(tier, at);
    for (const [tier, { kept }] of TIERS.entries()) this.#sql.prune.run(tier, tier, kept);
    if (seq % (SERIES_MINUTE_MS / SERIES_STEP_MS) === 0) this.#shrink();
  }

  /** Writes the steps of the tier that are over at `now`. */
  async #addUp(tier: number, now: number): Promise<void> {
    const { stepMs } = TIERS[tier]!;
    const { rolled } = this.#sql.tier.get(tier) as { rolled: number };
    const steps = this.#sql.steps.all(tier - 1, this.#number(MACHINE), rolled) as { seq: number; at: number }[];
    const over = steps.filter(({ at }) => floorTo(at, stepMs) !== floorTo(now, stepMs));
    const until = over.at(-1)?.seq;
    if (until === undefined) return;
    const sums = new Map<number, Map<number, RecordedSum>>();
    const rows = this.#sql.between.all(tier - 1, rolled, until) as unknown as StepRow[];
    for (const [index, { subject, at, data }] of rows.entries()) {
      const start = floorTo(at, stepMs);
      const subjects = getOrInsert(sums, start, () => new Map<number, RecordedSum>());
      getOrInsert(subjects, subject, () => new RecordedSum()).add(parse(data));
      if (index % HISTORY_ROWS_AT_ONCE === HISTORY_ROWS_AT_ONCE - 1) await setImmediate();
    }
    for (const [start, subjects] of sums) {
      const seq = this.#nextSeq(tier);
      let written = 0;
      for (const [subject, { recorded }] of subjects) {
        this.#sql.insert.run(tier, subject, start, seq, text(recorded));
        if (++written % HISTORY_ROWS_AT_ONCE === 0) await setImmediate();
      }
    }
    this.#sql.setRolled.run(until, tier);
  }

  /** Too large: of each kind the oldest tenth goes, the machine's steps too. */
  #shrink(): void {
    const { bytes } = this.#sql.usedBytes.get() as { bytes: number };
    if (bytes <= this.#maxBytes) return;
    for (const tier of TIERS.keys()) this.#sql.pruneTenth.run(tier, tier, tier);
  }

  async read(question: SeriesQuestion): Promise<SeriesAnswer> {
    return seriesAnswer(question, [await this.parts(question)]);
  }

  async parts({ metric, ids, from, to, stepMs }: SeriesQuestion): Promise<SeriesParts> {
    await this.#history.flush();
    const ofMachine = ids === "all" || ids.length === 0 ? [MACHINE] : ids;
    const named = metric.ofMachine ? ofMachine : ids === "all" ? [ALL] : ids;
    const numbersOf = (some: readonly string[]) => some.flatMap((id) => this.#subjects.get(id) ?? []);
    const { tier, step } = this.#resolution(from, to, stepMs);
    const first = floorTo(from, step);
    const range = { tier, step, from: first, to };
    const { samples = SAMPLES } = metric;
    const [looked, sums] = await Promise.all([
      this.#sweeps.read({ ...range, subjects: numbersOf(metric.ofMachine ? ofMachine : [MACHINE]) }, samples),
      this.#sweeps.read({ ...range, subjects: numbersOf(named) }, metric.name),
    ]);
    const nothing: Recorded = { numbers: {}, histograms: {} };
    const steps = [...looked].map(
      ([at, sum]) => [at, sum.number(samples), only(metric.name, sums.get(at)?.recorded ?? nothing)] as const,
    );
    return { stepMs: step, steps };
  }

  /** The longest steps that are no longer than asked for, unless longer ones reach further back to `from`. */
  #resolution(from: number, to: number, wantedMs: number | undefined): { tier: number; step: number } {
    const atLeast = Math.max(SERIES_STEP_MS, (to - from) / SERIES_POINTS_MAX);
    const wanted = Math.max(atLeast, wantedMs ?? (to - from) / SERIES_POINTS_DEFAULT);
    let tier = TIERS.findLastIndex(({ stepMs }) => stepMs <= wanted);
    const oldest = TIERS.map(
      (_, index) => (this.#sql.oldest.get(index, this.#subjects.get(MACHINE) ?? 0) as { at: number | null }).at,
    );
    // The first of the longer steps begins before the first of the shorter ones also where both tell of the same time.
    const reachesFurther = (index: number) =>
      index < TIERS.length && (oldest[index] ?? Infinity) + TIERS[index]!.stepMs <= oldest[index - 1]!;
    while (from < (oldest[tier] ?? 0) && reachesFurther(tier + 1)) tier++;
    const { stepMs } = TIERS[tier]!;
    return { tier, step: Math.ceil(Math.max(wanted, stepMs) / stepMs) * stepMs };
  }

  async routeMetrics(endpointId: string): Promise<string[]> {
    const subject = this.#subjects.get(endpointId);
    if (subject === undefined) return [];
    const names = new Set<string>();
    for (const { data } of [
      ...this.#sql.newest.all(0, subject),
      ...this.#sql.newest.all(1, subject),
    ] as unknown as StepRow[]) {
      for (const name of Object.keys(parse(data).numbers)) if (name.includes(ROUTE_MARK)) names.add(name);
    }
    return [...names].sort();
  }

  async endpointIds(): Promise<string[]> {
    return [...this.#subjects.keys()].filter((id) => id !== MACHINE && id !== ALL);
  }

  async forget(id: string): Promise<void> {
    this.#history.later(() => {
      const subject = this.#subjects.get(id);
      if (subject === undefined) return;
      for (const tier of TIERS.keys()) this.#sql.forget.run(tier, subject);
      this.#sql.forgetSubject.run(subject);
      this.#subjects.delete(id);
    });
  }

  #insert(tier: number, id: string, at: number, seq: number, recorded: Recorded): void {
    this.#sql.insert.run(tier, this.#number(id), at, seq, text(recorded));
  }

  #number(id: string): number {
    const known = this.#subjects.get(id);
    if (known !== undefined) return known;
    const { number } = this.#sql.addSubject.get(id) as { number: number };
    this.#subjects.set(id, number);
    return number;
  }

  #nextSeq(tier: number): number {
    return (this.#sql.nextSeq.get(tier) as { seq: number }).seq;
  }
}

const TABLES = `
  CREATE TABLE IF NOT EXISTS series_subjects (number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE);
  CREATE TABLE IF NOT EXISTS series_tiers (tier INTEGER PRIMARY KEY, seq INTEGER NOT NULL, rolled INTEGER NOT NULL);
  CREATE TABLE IF NOT EXISTS series_steps (
    tier INTEGER NOT NULL, subject INTEGER NOT NULL, at INTEGER NOT NULL, seq INTEGER NOT NULL, data TEXT NOT NULL,
    PRIMARY KEY (tier, subject, at, seq)
  ) WITHOUT ROWID;
  CREATE INDEX IF NOT EXISTS series_by_seq ON series_steps (tier, seq);
  INSERT OR IGNORE INTO series_tiers VALUES (0, 0, 0), (1, 0, 0), (2, 0, 0);
`;

function statements({ connection }: HistoryDatabase) {
  const sql = (text: string) => connection.prepare(text);
  return {
    subjects: sql("SELECT id, number FROM series_subjects"),
    addSubject: sql(
      "INSERT INTO series_subjects (id) VALUES (?) ON CONFLICT (id) DO UPDATE SET id = excluded.id RETURNING number",
    ),
    forgetSubject: sql("DELETE FROM series_subjects WHERE number = ?"),
    tier: sql("SELECT seq, rolled FROM series_tiers WHERE tier = ?"),
    nextSeq: sql("UPDATE series_tiers SET seq = seq + 1 WHERE tier = ? RETURNING seq"),
    setRolled: sql("UPDATE series_tiers SET rolled = ? WHERE tier = ?"),
    insert: sql("INSERT OR REPLACE INTO series_steps (tier, subject, at, seq, data) VALUES (?, ?, ?, ?, ?)"),
    steps: sql("SELECT seq, at FROM series_steps WHERE tier = ? AND subject = ? AND seq > ? ORDER BY seq"),
    between: sql("SELECT subject, at, seq, data FROM series_steps WHERE tier = ? AND seq > ? AND seq <= ?"),
    newest: sql(
      "SELECT subject, at, seq, data FROM series_steps WHERE tier = ? AND subject = ? ORDER BY at DESC LIMIT 360",
    ),
    oldest: sql("SELECT min(at) AS at FROM series_steps WHERE tier = ? AND subject = ?"),
    prune: sql("DELETE FROM series_steps WHERE tier = ? AND seq <= (SELECT seq FROM series_tiers WHERE tier = ?) - ?"),
    pruneTenth: sql(
      `DELETE FROM series_steps WHERE tier = ? AND seq <= (
         SELECT min(seq) + (max(seq) - min(seq)) / 10 FROM series_steps WHERE tier = ?
       ) AND seq < (SELECT max(seq) FROM series_steps WHERE tier = ?)`,
    ),
    forget: sql("DELETE FROM series_steps WHERE tier = ? AND subject = ?"),
    usedBytes: sql(
      "SELECT (page_count - freelist_count) * page_size AS bytes FROM pragma_page_count, pragma_freelist_count, pragma_page_size",
    ),
  };
}

function text({ numbers, histograms }: Recorded): string {
  return JSON.stringify({ n: numbers, h: histograms });
}

/** Questions that were asked at once are answered together. */
function only(name: string, { numbers, histograms }: Recorded): Recorded {
  return {
    numbers: name in numbers ? { [name]: numbers[name]! } : {},
    histograms: name in histograms ? { [name]: histograms[name]! } : {},
  };
}

function withoutRoutes({ numbers, histograms }: Recorded): Recorded {
  return {
    numbers: Object.fromEntries(Object.entries(numbers).filter(([name]) => !name.includes(ROUTE_MARK))),
    histograms,
  };
}
