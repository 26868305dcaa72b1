import type { EnvValue } from "../domain/env.ts";
import { isSecretName } from "../domain/secret.ts";
import { describeValue, type Value } from "./facts.ts";
import { looksLikeSecret } from "./secrets.ts";
import type { Finding, Report, Sources } from "./sources.ts";

const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/;

/**
 * The variables of `env=`. A value from os.environ is read where the build runs, so that secrets stay out of the
 * source; a value in the source that looks like a key is a warning.
 */
export function readEnv(
  value: Value | undefined,
  environment: Readonly<Record<string, string | undefined>>,
  sources: Pick<Sources, "text">,
  report: Report,
  hide: (secret: string) => void,
): Record<string, EnvValue> {
  // As it stands in the file, where it may be escaped, or cut into "several " "literals".
  const hidePieces = (item: Value) => literalPieces(sources.text(item.at)).forEach(hide);
  if (value === undefined) return {};
  if (value.kind !== "dict") {
    const unknown = value.kind === "unknown";
    const why = unknown
      ? `cannot be known without running the code: ${value.why}`
      : `takes a dict, not ${describeValue(value)}`;
    tell(report, unknown ? "not-constant" : "invalid-setting", value, `env ${why}.`, EXAMPLE);
    return {};
  }
  const env: Record<string, EnvValue> = {};
  for (const [key, item] of value.entries) {
    if (key.kind !== "string" || !VARIABLE.test(key.value)) {
      tell(report, "invalid-setting", key, "The name of a variable has letters, digits and _ only.", EXAMPLE);
      continue;
    }
    const text = variable(key.value, item, environment, report, hidePieces);
    if (text !== undefined) env[key.value] = text;
  }
  return env;
}

const EXAMPLE = 'Write env={"MODE": "fast"}.';

/** The value of one variable; undefined when it has none, which is reported unless os.environ.get() allows it. */
function variable(
  name: string,
  item: Value,
  environment: Readonly<Record<string, string | undefined>>,
  report: Report,
  hidePieces: (secret: Value) => void,
): EnvValue | undefined {
  switch (item.kind) {
    case "string":
      if (looksLikeSecret(name, item.value)) {
        const message = `The value of ${name} looks like a secret, and it stands in a file that goes into the artifact.`;
        const help = `Write os.environ["${name}"]: the value is then taken from the environment of svc deploy and never stored in a file.`;
        tell(report, "secret-in-source", item, message, help, "warning");
        hidePieces(item);
      }
      return item.value;
    case "environment": {
      const found = environment[item.name] ?? (item.fallback?.kind === "string" ? item.fallback.value : undefined);
      if (found !== undefined || (item.fallback !== undefined && item.fallback.kind !== "unknown")) return found;
      const message = `The variable ${item.name} is not set where the build runs.`;
      return tell(report, "variable-not-set", item, message, `Set it: ${item.name}=… svc deploy`);
    }
    case "secret": {
      if (isSecretName(item.name)) return { secret: item.name };
      const message = `"${item.name}" cannot name a secret.`;
      return tell(report, "invalid-setting", item, message, "Use letters, digits, _ - and . with no digit first.");
    }
    case "unknown": {
      const message = `The value of ${name} cannot be known without running the code: ${item.why}.`;
      return tell(report, "not-constant", item, message, `Write a text, or os.environ["${name}"].`);
    }
    default: {
      const message = `The value of ${name} must be a text, not ${describeValue(item)}.`;
      return tell(
        report,
        "invalid-setting",
        item,
        message,
        `Write a text in quotes, os.environ["${name}"] or Secret("${name}").`,
      );
    }
  }
}

/** What stands between the quotes of each literal, by lines. */
function literalPieces(source: string): string[] {
  const literals = source.matchAll(/("""|'''|"|')((?:\\.|(?!\1).)*)\1/gs);
  return [...literals].flatMap((match) => match[2]!.split("\n")).filter((piece) => piece.length >= PIECE_MIN_CHARS);
}

/** Shorter pieces would blot out ordinary words all over the message. */
const PIECE_MIN_CHARS = 4;

function tell(
  report: Report,
  rule: string,
  { at }: Value,
  message: string,
  help: string,
  severity: Finding["severity"] = "error",
): undefined {
  report({ severity, rule, message, help, at });
}
