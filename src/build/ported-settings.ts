/**
 * What declarations of projects of the same family say in their own words: what has a meaning here is translated, the rest
 * is noted, so that such a project builds once its import line names svc.
 */
import { machineType } from "../domain/machine-type.ts";
import { describeValue, type Value } from "./facts.ts";
import type { Report } from "./sources.ts";

/** Keywords that only they have. */
export const PORTED = ["datacenter", "flashboot", "template", "accelerate_downloads", "min_cuda_version"] as const;

/** By keyword. */
type Given = Map<string, Value>;

/** Why each has no meaning. */
const WITHOUT_MEANING: Partial<Record<(typeof PORTED)[number], string>> = {
  datacenter: "workers run on the platform's own machines.",
  accelerate_downloads: "the platform installs what it needs before a worker starts.",
  min_cuda_version: "the driver of the platform's machines decides.",
};

/** `given` in the words of svc. */
export function translatePorted(given: Given, report: Report): Given {
  const note = (value: Value, message: string, help = "Leave it out: nothing changes.") =>
    report({ severity: "warning", rule: "no-meaning", message, help, at: value.at });
  for (const [keyword, why] of Object.entries(WITHOUT_MEANING)) {
    const value = given.get(keyword);
    if (value !== undefined) note(value, `${keyword}= has no meaning here: ${why}`);
  }
  const wrong = (value: Value, message: string, help: string) =>
    report({ severity: "error", rule: "invalid-setting", message, help, at: value.at });

  const flashboot = given.get("flashboot");
  if (flashboot !== undefined && flashboot.kind !== "boolean") {
    const message = `flashboot takes True or False, not ${describeValue(flashboot)}.`;
    wrong(flashboot, message, 'Write boot="SVCBOOT" or boot="OFF".');
  } else if (flashboot !== undefined && given.has("boot")) {
    note(flashboot, "flashboot= has no meaning beside boot=.");
  } else if (flashboot !== undefined) {
    given.set("boot", { kind: "string", value: flashboot.value ? "SVCBOOT" : "OFF", at: flashboot.at });
  }

  const template = given.get("template");
  if (template !== undefined) {
    if (template.kind === "made" && template.class === "PodTemplate") takeTemplate(given, fieldsOf(template), note);
    else wrong(template, `template takes a PodTemplate, not ${describeValue(template)}.`, "Write image= and env=.");
  }

  const volume = given.get("volume");
  const volumes = volume?.kind === "list" ? volume.items : volume === undefined ? [] : [volume];
  const [first] = volumes.map((each) => asVolume(each, note));
  if (first !== undefined) given.set("volume", first);
  if (volumes.length > 1) {
    note(volume!, "volume= names several volumes: workers have the first.", "Name the one that is meant.");
  }
  const mounts = given.get("volumes");
  if (mounts?.kind === "dict") {
    given.set("volumes", { ...mounts, entries: mounts.entries.map(([key, each]) => [key, asVolume(each, note)]) });
  }

  const cpu = given.get("cpu");
  if (cpu?.kind === "list" && cpu.items.length > 0 && cpu.items.every((each) => each.kind === "string")) {
    const wrongOne = cpu.items.find((each) => machineType(each.value) === undefined);
    given.set("cpu", wrongOne ?? cpu.items[0]!);
    if (wrongOne === undefined && cpu.items.length > 1) {
      note(cpu, "cpu= names several sizes: workers get the first.", "Name the one that is meant.");
    }
  }
  for (const keyword of PORTED) given.delete(keyword);
  return given;
}

type Note = (value: Value, message: string, help?: string) => void;
type Made = Value & { kind: "made" };

/** The fields that say something; the first positional one is the name. */
function fieldsOf(made: Made): Map<string, Value> {
  const fields = made.arguments.map(([name, value]) => [name ?? "name", value] as const);
  return new Map(fields.filter(([, value]) => !isEmpty(value)));
}

function isEmpty(value: Value): boolean {
  if (value.kind === "string") return value.value === "";
  if (value.kind === "list") return value.items.length === 0;
  return value.kind === "none" || (value.kind === "boolean" && !value.value);
}

/** Its image and variables count where the endpoint gives none of its own. */
function takeTemplate(given: Given, fields: ReadonlyMap<string, Value>, note: Note): void {
  for (const [field, value] of fields) {
    if (field === "name") continue;
    if (field === "imageName" && !given.has("image")) given.set("image", value);
    else if (field === "env" && value.kind === "list") given.set("env", withEntries(value, given.get("env")));
    else if (field === "env" && value.kind === "dict") given.set("env", merged(value, given.get("env")));
    else note(value, `PodTemplate(${field}=…) has no meaning here: only its imageName and env have.`);
  }
}

/** Texts of `[{"key": …, "value": …}]`. */
function withEntries(list: Value & { kind: "list" }, own: Value | undefined): Value {
  const entries = list.items.map((item): readonly [Value, Value] => {
    const field = (name: string) =>
      item.kind === "dict" ? item.entries.find(([key]) => key.kind === "string" && key.value === name)?.[1] : undefined;
    return [field("key") ?? item, field("value") ?? item];
  });
  return merged({ kind: "dict", entries, at: list.at }, own);
}

function merged(before: Value & { kind: "dict" }, own: Value | undefined): Value {
  if (own === undefined) return before;
  return own.kind === "dict" ? { ...own, entries: [...before.entries, ...own.entries] } : own;
}

/** A NetworkVolume as a Volume, whose limit is its size; any other value as it is. */
function asVolume(value: Value, note: Note): Value {
  if (value.kind !== "made" || value.class !== "NetworkVolume") return value;
  const fields = fieldsOf(value);
  const size = fields.get("size");
  const isWhole = size?.kind === "number" && Number.isInteger(size.value) && size.value > 0;
  const rest = [...fields.keys()].filter((field) => !["name", "id", ...(isWhole ? ["size"] : [])].includes(field));
  if (rest.length > 0) {
    const shown = rest.map((field) => `${field}=`).join(", ");
    note(value, `${shown} of a NetworkVolume has no meaning here: a volume is a folder of its environment.`);
  }
  const name = fields.get("name") ?? fields.get("id");
  if (name === undefined) return { kind: "unknown", why: "NetworkVolume(…) has no name", at: value.at };
  if (!isWhole) return name;
  const limit: Value = { kind: "string", value: `${size.value}GB`, at: size.at };
  return {
    kind: "made",
    class: "Volume",
    arguments: [
      ["name", name],
      ["size_limit", limit],
    ],
    at: value.at,
  };
}
