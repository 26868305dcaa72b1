/**
 * When an endpoint's function is called by itself. A tick is a moment of the calendar; which ones are due is decided by the
 * time of day alone, so it can be asked again at any time with the same answer.
 */
import { createRequire } from "node:module";
import { durationText } from "./duration.ts";
import { INLINE_BODY_MAX_BYTES, SCHEDULE_EVERY_MAX_MS, SCHEDULE_EVERY_MIN_MS } from "./limits.ts";

export const MISSED = ["skip", "once"] as const;
export const OVERLAPS = ["queue", "skip"] as const;

export interface Schedule {
  /** Five fields of cron; "" where `everyMs` stands. */
  readonly cron: string;
  /** At whole multiples since the epoch; 0 where `cron` stands. */
  readonly everyMs: number;
  /** IANA name: where the fields of `cron` are read. */
  readonly timezone: string;
  /** The job's input. */
  readonly input: Readonly<Record<string, unknown>>;
  /** Of ticks that nobody was there for: none runs, or one for all of them. */
  readonly missed: (typeof MISSED)[number];
  /** While the job of the tick before is not over: the next one is queued, or left out. */
  readonly overlap: (typeof OVERLAPS)[number];
}

/** As a record keeps it; "" for none. */
export function storedSchedule(schedule: Schedule | null | undefined): string {
  if (!schedule) return "";
  const { cron, everyMs, timezone, input, missed, overlap } = schedule;
  return JSON.stringify({ cron, everyMs, timezone, input, missed, overlap });
}

/** What storedSchedule() made. */
export function readSchedule(stored: string): Schedule | undefined {
  return stored === "" ? undefined : (JSON.parse(stored) as Schedule);
}

/** "0 3 * * * (Europe/Berlin)", "every 10m". */
export function scheduleText({ cron, everyMs, timezone }: Schedule): string {
  return cron === "" ? `every ${durationText(everyMs)}` : `${cron} (${timezone})`;
}

/** Every rule that it breaks, as sentences. */
export function scheduleProblems(schedule: Schedule): string[] {
  const { cron, everyMs, timezone, input } = schedule;
  const problems: string[] = [];
  if ((cron === "") === (everyMs === 0)) problems.push("Give schedule or every, one of the two.");
  const zone = timezoneProblem(timezone);
  if (zone !== undefined) problems.push(zone);
  if (everyMs !== 0 && !(everyMs >= SCHEDULE_EVERY_MIN_MS && everyMs <= SCHEDULE_EVERY_MAX_MS)) {
    problems.push(
      `every is a time from ${durationText(SCHEDULE_EVERY_MIN_MS)} to ${durationText(SCHEDULE_EVERY_MAX_MS)}.`,
    );
  }
  const pattern = cron === "" || zone !== undefined ? undefined : cronProblem(cron);
  if (pattern !== undefined) problems.push(pattern);
  const bytes = Buffer.byteLength(JSON.stringify(input));
  if (bytes > INLINE_BODY_MAX_BYTES) {
    problems.push(`schedule_input takes ${bytes} bytes; at most ${INLINE_BODY_MAX_BYTES} are allowed.`);
  }
  return problems;
}

/** Why it is no expression of five fields that comes true some day. */
export function cronProblem(cron: string): string | undefined {
  try {
    if (crons("UTC", cron).nextRun() !== null) return undefined;
    return `The schedule ${JSON.stringify(cron)} never comes: no day has that date.`;
  } catch (error) {
    const [, why = ""] = /^CronPattern: (.*?)\.?$/s.exec((error as Error).message) ?? [];
    const parts = cron.trim().split(/\s+/).length;
    const reason =
      parts === 5 || cron.startsWith("@") ? why : `it has ${cron.trim() === "" ? 0 : parts} of five fields`;
    return `The schedule ${JSON.stringify(cron)} is no cron expression: ${reason}.`;
  }
}

export function timezoneProblem(timezone: string): string | undefined {
  try {
    new Intl.DateTimeFormat("en", { timeZone: timezone });
    return undefined;
  } catch {
    return `There is no time zone ${JSON.stringify(timezone)}.`;
  }
}

/** The first tick behind `after`, in milliseconds since the epoch; undefined when none follows. */
export function nextTick({ cron, everyMs, timezone }: Schedule, after: number): number | undefined {
  if (cron === "") return (Math.floor(after / everyMs) + 1) * everyMs;
  return crons(timezone, cron).nextRun(new Date(after))?.getTime();
}

/** What is used of the library. */
interface Cron {
  nextRun(after?: Date): Date | null;
}
interface CronLibrary {
  readonly Cron: new (pattern: string, options: { timezone: string; mode: "5-part" }) => Cron;
}

const PARSED_MAX = 10_000;
const parsed = new Map<string, Cron>();
let library: CronLibrary | undefined;

/** Parsing one takes a millisecond. */
function crons(timezone: string, cron: string): Cron {
  const key = `${timezone} ${cron}`;
  let known = parsed.get(key);
  if (known === undefined) {
    // Loaded by the first schedule: most builds have none.
    library ??= createRequire(import.meta.url)("croner") as CronLibrary;
    known = new library.Cron(cron, { timezone, mode: "5-part" });
    if (parsed.size >= PARSED_MAX) parsed.clear();
    parsed.set(key, known);
  }
  return known;
}
