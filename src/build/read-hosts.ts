import { HOST_LABEL, HOST_LABEL_RULE } from "../domain/host.ts";
import { HOST_LABELS_MAX } from "../domain/limits.ts";
import type { Value } from "./facts.ts";
import { valueReader } from "./read-retries.ts";
import type { Report } from "./sources.ts";

const WANTED = 'a label such as "gpu-a100", or a list, for machines that have one of them';

/** `hosts=` as the record has it: a comma list, "" for every machine. */
export function readHosts(value: Value | undefined, report: Report): string {
  if (value === undefined) return "";
  const { wrong } = valueReader("hosts", `Write hosts as ${WANTED}.`, report);
  const items = value.kind === "list" ? value.items : [value];
  const bad = (at: Value["at"], message: string, help: string) =>
    report({ severity: "error", rule: "invalid-setting", message, help, at });
  if (items.length === 0) bad(value.at, "hosts names no label.", "Leave it out to let workers run on every machine.");
  if (items.length > HOST_LABELS_MAX) {
    bad(value.at, `hosts names ${items.length} labels.`, `It may name ${HOST_LABELS_MAX}.`);
  }
  const labels = items.flatMap((item) => {
    if (item.kind !== "string") return wrong(item, "hosts", WANTED) ?? [];
    if (HOST_LABEL.test(item.value)) return item.value;
    const help = `${HOST_LABEL_RULE}. Several stand in a list.`;
    bad(
      item.at,
      `hosts names ${JSON.stringify(item.value)}, which cannot be a label.`,
      `${help[0]!.toUpperCase()}${help.slice(1)}`,
    );
    return [];
  });
  return [...new Set(labels)].join(",");
}
