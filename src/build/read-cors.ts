import { isOrigin, ORIGIN_HELP } from "../domain/cors.ts";
import type { Value } from "./facts.ts";
import { valueReader } from "./read-retries.ts";
import type { Report } from "./sources.ts";

const WANTED = 'a list of origins such as ["https://example.com"], or "*" for every page';

/** `cors=` as the record has it: "*", a comma list, or "" for none. */
export function readCors(value: Value | undefined, report: Report): string {
  if (value === undefined) return "";
  const { wrong } = valueReader("cors", `Write cors as ${WANTED}.`, report);
  const items = value.kind === "list" ? value.items : [value];
  const origins = items.flatMap((item) => {
    if (item.kind !== "string") return wrong(item, "cors", WANTED) ?? [];
    const origin = item.value.trim().toLowerCase();
    if (isOrigin(origin)) return origin;
    const message = `cors names ${JSON.stringify(item.value)}, which is no origin.`;
    const help = `An origin has no path: ${ORIGIN_HELP}`;
    report({ severity: "error", rule: "invalid-setting", message, help, at: item.at });
    return [];
  });
  return origins.includes("*") ? "*" : [...new Set(origins)].join(",");
}
