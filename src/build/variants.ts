/** `Model.with_options(size="large", gpu=…)`: its options checked, its settings over those of the class's own endpoint. */
import { nearest, suggestName } from "../domain/names.ts";
import { type At, describeValue, type EndpointObject, type Value } from "./facts.ts";
import { PORTED } from "./ported-settings.ts";
import { KEYWORDS } from "./read-settings.ts";
import type { Report } from "./sources.ts";

type Argument = EndpointObject["arguments"][number];
type Option = NonNullable<EndpointObject["variant"]>["options"][number];

const SETTINGS: ReadonlySet<string> = new Set([...KEYWORDS, ...PORTED]);

/** The object as an Endpoint(…) would be, and what it is called where it has no name of its own. */
export function asEndpoint(
  object: EndpointObject,
  objects: ReadonlyMap<string, EndpointObject>,
  functionName: string,
  report: Report,
): { readonly object: EndpointObject; readonly unnamed: string | undefined } {
  const { variant } = object;
  if (variant === undefined) return { object, unnamed: suggestName(functionName) };
  const isSetting = ({ name }: Argument) => name === null || name === "**" || SETTINGS.has(name);
  const settings = object.arguments.filter(isSetting);
  const given = object.arguments.filter((each) => !isSetting(each));
  for (const option of variant.options) checkDeclared(option, variant.class, report);
  for (const each of given) checkGiven(each, variant.options, variant.class, report);
  const base = objects.get(variant.of)!;
  const own = new Set(settings.map(({ name }) => name));
  const other: Record<string, string> = { gpu: "cpu", cpu: "gpu" };
  const inherited = base.arguments.filter(
    ({ name }) => name !== null && name !== "name" && !own.has(name) && !own.has(other[name] ?? name),
  );
  const merged = { ...object, arguments: [...inherited, ...settings] };
  const baseName = nameOf(base) ?? suggestName(functionName);
  return { object: merged, unnamed: nameFor(baseName, given, variant.options) };
}

function nameOf(base: EndpointObject): string | undefined {
  const named = base.arguments.find(({ name }) => name === "name" || name === null)?.value;
  return named?.kind === "string" ? named.value : undefined;
}

/** As python/src/svc/options.py has it; undefined where the values make no name. */
function nameFor(base: string, given: readonly Argument[], options: readonly Option[]): string | undefined {
  // What is wrong with these is said already.
  const wrong = given.find(
    ({ name, value }) => value.kind === "unknown" || !options.some((each) => each.name === name),
  );
  if (wrong !== undefined) return suggestName(`${base}-${wrong.name}`);
  const parts = options.flatMap(({ name }) => {
    const value = given.find((each) => each.name === name)?.value;
    return value === undefined ? [] : [partOf(name, value)];
  });
  if (parts.length === 0 || parts.includes(undefined)) return undefined;
  return suggestName([base, ...parts].join("-"));
}

function partOf(name: string, value: Value): string | undefined {
  if (value.kind === "string") return value.value;
  if (value.kind === "number")
    return value.float && Number.isInteger(value.value) ? `${value.value}.0` : `${value.value}`;
  if (value.kind === "boolean") return value.value ? name : `no-${name}`;
  return undefined;
}

function checkDeclared({ name, at, default: preset, choices }: Option, owner: string, report: Report): void {
  const error = (place: At, message: string, help: string) =>
    report({ severity: "error", rule: "invalid-option", message, help, at: place });
  if (SETTINGS.has(name)) {
    error(at, `${owner}.${name} cannot be an option: ${name}= is a setting of Endpoint(…).`, "Choose another name.");
  }
  if (preset === null) error(at, `The option ${name} has no default.`, `Write ${name} = svc.option("…").`);
  else checkJson(name, preset, report);
  if (choices !== null && choices.kind !== "list") {
    error(
      choices.at,
      `choices of the option ${name} is a list, not ${describeValue(choices)}.`,
      'Write ["small", "large"].',
    );
  }
}

function checkGiven(argument: Argument, options: readonly Option[], owner: string, report: Report): void {
  const { at, value } = argument;
  const name = argument.name!;
  const option = options.find((each) => each.name === name);
  if (option === undefined) {
    const names = options.map((each) => each.name);
    const near = nearest(name, [...names, ...SETTINGS], 1)[0];
    const has =
      names.length === 0
        ? `Declare it in the class: ${name} = svc.option("…").`
        : `It has ${names.join(", ")}; settings of Endpoint(…) may be given too.`;
    const help = near === undefined ? has : `Did you mean ${near}=?`;
    report({ severity: "error", rule: "unknown-option", message: `${owner} has no option ${name}.`, help, at });
    return;
  }
  if (!checkJson(name, value, report) || option.choices?.kind !== "list") return;
  const choices = option.choices.items;
  if (choices.some((each) => JSON.stringify(plain(each)) === JSON.stringify(plain(value)))) return;
  const shown = choices.map((each) => JSON.stringify(plain(each))).join(", ");
  const message = `${name} is one of ${shown}, not ${JSON.stringify(plain(value))}.`;
  report({ severity: "error", rule: "invalid-option", message, help: "Choose one of them.", at: value.at });
}

/** Whether it is JSON that is known now; reports when not. */
function checkJson(name: string, value: Value, report: Report): boolean {
  const wrong = strange(value);
  if (wrong === undefined) return true;
  const isUnknown = wrong.kind === "unknown";
  const message = isUnknown
    ? `The option ${name} cannot be known without running the code: ${wrong.why}.`
    : `The option ${name} takes a JSON value, not ${describeValue(wrong)}.`;
  const help = "Write a text, a number, True, False, None, or a list or dict of them.";
  report({ severity: "error", rule: isUnknown ? "not-constant" : "invalid-option", message, help, at: wrong.at });
  return false;
}

/** The first part that is no JSON. */
function strange(value: Value): Value | undefined {
  if (value.kind === "list") return value.items.map(strange).find((each) => each !== undefined);
  if (value.kind === "dict") {
    const parts = value.entries.map(([key, item]) => (key.kind === "string" ? strange(item) : key));
    return parts.find((each) => each !== undefined);
  }
  return ["string", "number", "boolean", "none"].includes(value.kind) ? undefined : value;
}

function plain(value: Value): unknown {
  if (value.kind === "list") return value.items.map(plain);
  if (value.kind === "dict") return Object.fromEntries(value.entries.map(([key, item]) => [plain(key), plain(item)]));
  return value.kind === "string" || value.kind === "number" || value.kind === "boolean" ? value.value : null;
}
