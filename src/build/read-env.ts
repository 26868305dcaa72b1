import type { Diagnostic } from "./build-result.ts";
import { placeOf } from "./python-module.ts";
import { looksLikeSecret } from "./secrets.ts";
import { describeValue, type Value } from "./value.ts";

const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/;

/**
 * The variables of `env=`. A value from os.environ is read where the build runs, so that secrets stay out of the
 * source; a value in the source that looks like a key is a warning.
 */
export function readEnv(
  value: Value | undefined,
  environment: Readonly<Record<string, string | undefined>>,
  report: (diagnostic: Diagnostic) => void,
): Record<string, string> {
  if (value === undefined) return {};
  const tell = (severity: Diagnostic["severity"], rule: string, at: Value, message: string, help: string) =>
    report({ severity, rule, message, help, ...placeOf(at.module, at.node) });
  if (value.kind !== "dict") {
    const constant = value.kind !== "unknown";
    const why = constant
      ? `takes a dict, not ${describeValue(value)}`
      : `cannot be known without running the code: ${value.why}`;
    tell("error", constant ? "invalid-setting" : "not-constant", value, `env ${why}.`, 'Write env={"MODE": "fast"}.');
    return {};
  }
  const env: Record<string, string> = {};
  for (const [key, item] of value.entries) {
    if (key.kind !== "string" || !VARIABLE.test(key.value)) {
      tell(
        "error",
        "invalid-setting",
        key,
        "The name of a variable has letters, digits and _ only.",
        'Write env={"MODE": "fast"}.',
      );
      continue;
    }
    const name = key.value;
    if (item.kind === "string") {
      env[name] = item.value;
      if (!looksLikeSecret(name, item.value)) continue;
      tell(
        "warning",
        "secret-in-source",
        item,
        `The value of ${name} looks like a secret, and it stands in a file that goes into the artifact.`,
        `Write os.environ["${name}"]: the value is then taken from the environment of svc deploy and never stored in a file.`,
      );
    } else if (item.kind === "environment") {
      const found = environment[item.name] ?? (item.fallback?.kind === "string" ? item.fallback.value : undefined);
      if (found !== undefined) env[name] = found;
      else if (item.fallback === undefined || item.fallback.kind === "unknown") {
        tell(
          "error",
          "variable-not-set",
          item,
          `The variable ${item.name} is not set where the build runs.`,
          `Set it: ${item.name}=… svc deploy`,
        );
      }
    } else if (item.kind === "number" || item.kind === "boolean") {
      tell(
        "error",
        "invalid-setting",
        item,
        `The value of ${name} must be a text, not ${describeValue(item)}.`,
        "Put it in quotes.",
      );
    } else {
      const why =
        item.kind === "unknown"
          ? `cannot be known without running the code: ${item.why}`
          : `must be a text, not ${describeValue(item)}`;
      const rule = item.kind === "unknown" ? "not-constant" : "invalid-setting";
      tell("error", rule, item, `The value of ${name} ${why}.`, `Write a text, or os.environ["${name}"].`);
    }
  }
  return env;
}
