/** Which lines of a log a reader wants. Lines are looked at as they are stored, so that a whole log costs no parsing. */
import { SvcError } from "../domain/errors.ts";
import { LOG_TAIL_DEFAULT_LINES, LOG_TAIL_MAX_LINES } from "../domain/limits.ts";
import { atLeast, LOG_LEVELS, type LogLevel } from "../domain/log-level.ts";

const TEXT = '"text":';

export interface LogFilter {
  /** Newest lines. */
  readonly tail: number;
  /** Milliseconds since the epoch. */
  readonly since: number | undefined;
  readonly until: number | undefined;
  wants(line: string): boolean;
}

/** Reads `tail`, `job`, `since` and `until` (ms since the epoch), `level` and `grep` of a query. Throws BAD_INPUT. */
export function logFilter(query: URLSearchParams): LogFilter {
  const tail = wholeNumber(query, "tail", LOG_TAIL_MAX_LINES) ?? LOG_TAIL_DEFAULT_LINES;
  const since = wholeNumber(query, "since", Number.MAX_SAFE_INTEGER);
  const until = wholeNumber(query, "until", Number.MAX_SAFE_INTEGER);
  const job = query.get("job");
  const level = leastLevel(query.get("level"));
  const grep = query.get("grep");
  const tests: ((head: string, text: () => string) => boolean)[] = [];
  if (since !== undefined) tests.push((head) => timeOf(head) >= since);
  if (until !== undefined) tests.push((head) => timeOf(head) <= until);
  if (job !== null) {
    const member = `"job":${JSON.stringify(job)},`;
    tests.push((head) => head.includes(member));
  }
  if (level !== undefined) tests.push((head) => atLeast(levelIn(head), level));
  if (grep !== null) {
    const part = JSON.stringify(grep).slice(1, -1).toLowerCase();
    tests.push((_head, text) => text().toLowerCase().includes(part));
  }
  return {
    ...{ tail, since, until },
    wants(line) {
      const at = line.indexOf(TEXT);
      const head = line.slice(0, at);
      return tests.every((test) => test(head, () => line.slice(at + TEXT.length)));
    },
  };
}

/** When a stored line was printed: the number at its beginning. */
export function timeOf(line: string): number {
  return Number(line.slice('{"at":'.length, line.indexOf(",")));
}

function levelIn(head: string): LogLevel {
  return LOG_LEVELS.find((level) => head.includes(`"level":"${level}",`)) ?? "info"; // lines of before had none
}

function leastLevel(text: string | null): LogLevel | undefined {
  if (text === null) return undefined;
  const level = LOG_LEVELS.find((known) => known === text);
  if (level === undefined)
    throw new SvcError("BAD_INPUT", `level must be one of ${LOG_LEVELS.join(", ")}, not ${text}.`);
  return level;
}

function wholeNumber(query: URLSearchParams, name: string, max: number): number | undefined {
  const text = query.get(name);
  if (text === null) return undefined;
  const value = Number(text);
  if (Number.isInteger(value) && value >= 0 && value <= max && text.trim() !== "") return value;
  throw new SvcError("BAD_INPUT", `${name} must be a whole number from 0 to ${max}, not ${text}.`);
}
