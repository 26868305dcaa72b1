/** `schedule=` or `every=`, and what goes with them. */
import { SCHEDULE_EVERY_MAX_MS, SCHEDULE_EVERY_MIN_MS } from "../domain/limits.ts";
import { firstCall, type ManifestFunction } from "../domain/manifest.ts";
import { nearest } from "../domain/names.ts";
import { cronProblem, MISSED, OVERLAPS, type Schedule, scheduleProblems, timezoneProblem } from "../domain/schedule.ts";
import type { Value } from "./facts.ts";
import { valueReader } from "./read-retries.ts";
import type { Finding, Report } from "./sources.ts";

export const SCHEDULE_KEYWORDS = ["schedule", "timezone", "every", "schedule_input", "missed", "overlap"] as const;
type Keyword = (typeof SCHEDULE_KEYWORDS)[number];

const EXAMPLE = 'Write schedule="0 3 * * *" (minute, hour, day, month, weekday), or every="10m".';

export interface DeclaredSchedule {
  readonly schedule: Schedule;
  /** What says when. */
  readonly when: Value;
  readonly input: Value | undefined;
}

export function readSchedule(given: ReadonlyMap<string, Value>, report: Report): DeclaredSchedule | undefined {
  const { wrong, duration } = valueReader("schedule", EXAMPLE, report);
  const tell = ({ at }: Value, message: string, help: string) =>
    report({ severity: "error", rule: "invalid-setting", message, help, at });
  const cron = given.get("schedule");
  const every = given.get("every");
  const when = cron ?? every;
  if (when === undefined) {
    for (const keyword of SCHEDULE_KEYWORDS) {
      const value = given.get(keyword);
      if (value !== undefined) tell(value, `${keyword}= says nothing without a schedule.`, EXAMPLE);
    }
    return undefined;
  }
  if (cron !== undefined && every !== undefined)
    tell(every, "Give schedule or every, not both.", "Remove one of the two.");
  const choice = <T extends string>(keyword: Keyword, choices: readonly T[], otherwise: T): T => {
    const value = given.get(keyword);
    if (value === undefined) return otherwise;
    const found = value.kind === "string" ? choices.find((each) => each === value.value) : undefined;
    if (found === undefined) wrong(value, keyword, choices.map((each) => JSON.stringify(each)).join(" or "));
    return found ?? otherwise;
  };
  const timezone = given.get("timezone");
  if (timezone !== undefined && timezone.kind !== "string")
    wrong(timezone, "timezone", 'a text such as "Europe/Berlin"');
  const zone = timezone?.kind === "string" ? timezone.value : "UTC";
  const noZone = timezone === undefined ? undefined : timezoneProblem(zone);
  if (noZone !== undefined) tell(timezone!, noZone, zoneHelp(zone));
  if (timezone !== undefined && cron === undefined) {
    tell(timezone, "timezone goes with schedule=: every= counts from midnight in UTC.", "Remove timezone=.");
  }
  if (cron !== undefined && cron.kind !== "string") wrong(cron, "schedule", "a text of five fields");
  const noCron = cron?.kind === "string" ? cronProblem(cron.value) : undefined;
  if (noCron !== undefined) tell(cron!, noCron, EXAMPLE);
  const input = given.get("schedule_input");
  const schedule: Schedule = {
    cron: cron?.kind === "string" ? cron.value.trim() : "",
    everyMs: every === undefined ? 0 : (duration(every, "every", SCHEDULE_EVERY_MIN_MS, SCHEDULE_EVERY_MAX_MS) ?? 0),
    timezone: zone,
    input: (input && readInput(input, wrong)) ?? {},
    missed: choice("missed", MISSED, "skip"),
    overlap: choice("overlap", OVERLAPS, "queue"),
  };
  const tooLarge = scheduleProblems(schedule).find((problem) => problem.startsWith("schedule_input"));
  if (tooLarge !== undefined) tell(input!, tooLarge, "Keep what is large in a file, or read it in the function.");
  return { schedule, when, input };
}

function zoneHelp(zone: string): string {
  const near = nearest(zone, Intl.supportedValuesOf("timeZone"), 1)[0];
  return near === undefined ? 'Use a name like "Europe/Berlin".' : `Did you mean "${near}"?`;
}

type Wrong = ReturnType<typeof valueReader>["wrong"];

function readInput(value: Value, wrong: Wrong): Schedule["input"] | undefined {
  if (value.kind !== "dict") return wrong(value, "schedule_input", "a dict of constants");
  return plain(value, wrong) as Schedule["input"] | undefined;
}

/** As JSON has it; undefined where that cannot be, which is reported. */
function plain(value: Value, wrong: Wrong): unknown {
  switch (value.kind) {
    case "string":
    case "number":
    case "boolean":
      return value.value;
    case "none":
      return null;
    case "list":
      return value.items.map((item) => plain(item, wrong));
    case "dict":
      return Object.fromEntries(
        value.entries.flatMap(([key, item]) => {
          if (key.kind === "string") return [[key.value, plain(item, wrong)]];
          return wrong(key, "schedule_input", "texts as keys") ?? [];
        }),
      );
    default:
      return wrong(value, "schedule_input", "constants that JSON has");
  }
}

/** What speaks against calling this function with the schedule's input. */
export function scheduleFindings(
  { schedule, when, input }: DeclaredSchedule,
  kind: string,
  fn: ManifestFunction | undefined,
): Finding[] {
  const finding = ({ at }: Value, message: string, help: string): Finding => ({
    severity: "error",
    rule: "schedule",
    message,
    help,
    at,
  });
  if (kind !== "queue" || fn === undefined) {
    const help = "Declare a second, queue-based Endpoint(...) for it, which may call this one.";
    return [finding(when, "A schedule makes jobs, and a load-balanced endpoint has none.", help)];
  }
  const { method, parameters } = firstCall(fn);
  if (method !== undefined) {
    const help = `Give ${fn.name} a __call__, or declare the scheduled function as an endpoint of its own.`;
    return [finding(when, `${fn.name} has several methods, and a tick names none.`, help)];
  }
  const names = parameters.map(({ name }) => name);
  const takesAny = names.some((name) => name.startsWith("**"));
  const missing = parameters.filter(
    (each) => each.default === null && !each.name.startsWith("*") && !(each.name in schedule.input),
  );
  const unknown = Object.keys(schedule.input).filter((name) => !takesAny && !names.includes(name));
  const signature = `${fn.name}(${names.join(", ")})`;
  return [
    ...(missing.length === 0
      ? []
      : [
          finding(
            input ?? when,
            `A tick gives ${signature} no ${missing.map(({ name }) => name).join(", ")}.`,
            `Write schedule_input={"${missing[0]!.name}": …}, or give the parameter a default.`,
          ),
        ]),
    ...unknown.map((name) =>
      finding(input ?? when, `${signature} has no parameter ${name}.`, "Remove it from schedule_input."),
    ),
  ];
}
