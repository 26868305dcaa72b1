import type { ManifestParameter } from "../../domain/manifest.ts";

const TEXT = "Hello, world. What a nice day!";

/**
 * A value a parameter accepts, from its default or its annotation. Undefined when the parameter may be left out and
 * its default says nothing (None, a computed value).
 */
export function exampleValue({ annotation, default: preset }: ManifestParameter): unknown {
  if (preset !== null) return literal(preset);
  return ofAnnotation(annotation);
}

/** Python's simple literals; undefined for everything else, None included. */
function literal(source: string): unknown {
  const text = source.trim();
  if (text === "True") return true;
  if (text === "False") return false;
  if (/^[+-]?(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?$/i.test(text)) return Number(text);
  const string = /^(["'])([^"'\\{}]*)\1$/.exec(text);
  return string?.[2];
}

function ofAnnotation(annotation: string): unknown {
  const type = unwrapped(annotation.trim());
  const [, name = "", argument = ""] = /^([\w.]+)(?:\[(.*)\])?$/s.exec(type) ?? [];
  switch (name.replace(/^.*\./, "").toLowerCase()) {
    case "int":
      return 3;
    case "float":
      return 1.5;
    case "bool":
      return true;
    case "list":
    case "sequence":
    case "iterable":
    case "set":
    case "tuple":
      return [ofAnnotation(argument.split(",")[0] ?? "")];
    case "dict":
    case "mapping":
    case "any":
      return { key: "value" };
    case "literal":
      return literal(argument.split(",")[0] ?? "") ?? TEXT;
    case "str":
    case "bytes":
    case "":
      return TEXT;
    default:
      // A class of the user's own: its fields are not known here.
      return {};
  }
}

/** `Optional[X]`, `X | None`, `Annotated[X, …]` and quoted annotations mean X here. */
function unwrapped(type: string): string {
  const bare = type.replace(/^["'](.*)["']$/s, "$1").trim();
  const wrapped = /^(?:[\w.]*\.)?(?:Optional|Annotated|Union)\[(.*)\]$/s.exec(bare);
  if (wrapped !== null) return unwrapped(firstPart(wrapped[1]!, ","));
  const first = firstPart(bare, "|");
  if (first !== bare) return unwrapped(first === "None" ? bare.slice(bare.indexOf("|") + 1).trim() : first);
  return bare;
}

/** The part before the first `separator` that stands outside brackets and quotes. */
function firstPart(text: string, separator: string): string {
  let depth = 0;
  let quote = "";
  for (const [index, char] of [...text].entries()) {
    if (quote !== "") quote = char === quote ? "" : quote;
    else if (char === '"' || char === "'") quote = char;
    else if (char === "[" || char === "(") depth++;
    else if (char === "]" || char === ")") depth--;
    else if (char === separator && depth === 0) return text.slice(0, index).trim();
  }
  return text;
}
