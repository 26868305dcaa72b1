/** `retries=`: a number of further attempts, or Retries(…). */
import { durationMs } from "../domain/duration.ts";
import { type EndpointSettings, NO_RETRIES } from "../domain/endpoint.ts";
import { RETRIES_MAX, RETRY_BACKOFF_MAX, RETRY_DELAY_MAX_MS } from "../domain/limits.ts";
import { nearest } from "../domain/names.ts";
import { describeValue, type Value } from "./facts.ts";
import type { Report } from "./sources.ts";

type RetrySettings = Pick<EndpointSettings, "retriesMax" | "retryDelayMs" | "retryBackoff" | "retryMaxDelayMs">;

const KEYWORDS = ["max", "delay", "backoff", "max_delay", "on"] as const;
const EXAMPLE =
  'Write retries=3, or retries=Retries(max=3, delay="2s", backoff=2.0, max_delay="5m", on=(ConnectionError,)).';

export function readRetries(value: Value | undefined, report: Report): RetrySettings {
  if (value === undefined) return NO_RETRIES;
  const { wrong, number, duration } = valueReader("retries", EXAMPLE, report);
  if (value.kind === "number")
    return { ...NO_RETRIES, retriesMax: number(value, "retries", 0, RETRIES_MAX, true) ?? 0 };
  if (value.kind !== "made" || value.class !== "Retries") {
    wrong(value, "retries", "a number, or Retries(…) with constants");
    return NO_RETRIES;
  }
  const given = new Map<string, Value>();
  for (const [index, [keyword, item]] of value.arguments.entries()) {
    const name = keyword ?? (index === 0 ? "max" : "**");
    const near = nearest(name, KEYWORDS, 1)[0];
    const help = near === undefined ? EXAMPLE : `Did you mean ${near}=?`;
    if ((KEYWORDS as readonly string[]).includes(name)) given.set(name, item);
    else if (name === "**")
      report(finding("invalid-setting", item, "Retries() takes max and then keywords only.", EXAMPLE));
    else report(finding("unknown-keyword", item, `Retries() takes no keyword ${name}=.`, help));
  }
  const max = given.get("max");
  if (max === undefined) report(finding("invalid-setting", value, "Retries() needs max=.", EXAMPLE));
  checkClasses(given.get("on"), wrong, report);
  const read = <T>(name: string, how: (item: Value) => T | undefined, otherwise: T): T => {
    const item = given.get(name);
    return (item && how(item)) ?? otherwise;
  };
  return {
    retriesMax: read("max", (item) => number(item, "max", 0, RETRIES_MAX, true), 0),
    retryDelayMs: read("delay", (item) => duration(item, "delay", 0, RETRY_DELAY_MAX_MS), NO_RETRIES.retryDelayMs),
    retryBackoff: read("backoff", (item) => number(item, "backoff", 1, RETRY_BACKOFF_MAX), NO_RETRIES.retryBackoff),
    retryMaxDelayMs: read(
      "max_delay",
      (item) => duration(item, "max_delay", 0, RETRY_DELAY_MAX_MS),
      NO_RETRIES.retryMaxDelayMs,
    ),
  };
}

type Wrong = (value: Value, name: string, wanted: string) => undefined;

/** What a worker matches against what was raised; here it is only seen that they can be classes. */
function checkClasses(value: Value | undefined, wrong: Wrong, report: Report): void {
  if (value === undefined) return;
  const items = value.kind === "list" ? value.items : [value];
  for (const item of items) {
    const isName = item.kind === "string" && /^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$/.test(item.value);
    if (item.kind !== "class" && !isName)
      wrong(item, "on", 'exception classes or their dotted names such as "requests.Timeout"');
  }
  if (items.length === 0) {
    const help = "Leave on= out to try again after every Exception.";
    report(finding("invalid-setting", value, "on names no class, so nothing would be tried again.", help));
  }
}

function finding(rule: string, { at }: Value, message: string, help: string) {
  return { severity: "error", rule, message, help, at } as const;
}

/** Readers of one keyword's values that report what is wrong with them, with `example` as the help. */
export function valueReader(keyword: string, example: string, report: Report) {
  const wrong: Wrong = (value, name, wanted) => {
    const unknown = value.kind === "unknown" || value.kind === "environment";
    const why =
      value.kind === "unknown"
        ? value.why
        : `${value.kind === "environment" ? value.name : ""} is an environment variable`;
    const message = unknown
      ? `${name} cannot be known without running the code: ${why}.`
      : `${name === keyword ? "" : `${keyword}: `}${name} takes ${wanted}, not ${describeValue(value)}.`;
    report(finding(unknown ? "not-constant" : "invalid-setting", value, message, example));
    return undefined;
  };
  const number = (value: Value, name: string, min: number, max: number, whole = false): number | undefined => {
    const wanted = `a ${whole ? "whole " : ""}number from ${min} to ${max}`;
    if (value.kind !== "number") return wrong(value, name, wanted);
    if (value.value >= min && value.value <= max && !(whole && !Number.isInteger(value.value))) return value.value;
    return wrong(value, name, wanted);
  };
  /** Seconds, or a text with a unit. Milliseconds. */
  const duration = (value: Value, name: string, min: number, max: number): number | undefined => {
    const ms =
      value.kind === "number" ? value.value * 1000 : value.kind === "string" ? durationMs(value.value) : undefined;
    if (ms !== undefined && ms >= min && ms <= max) return Math.round(ms);
    const range = `from ${min / 1000} to ${max / 1000} seconds`;
    return wrong(value, name, `seconds, or a text such as "500ms", "2s", "5m", "1h", ${range}`);
  };
  return { wrong, number, duration };
}
