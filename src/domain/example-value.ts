import { lastPart } from "./annotation-schema.ts";
import type { ManifestParameter } from "./manifest.ts";
import { literalValue, type PythonExpression, parsePythonExpression } from "./python-expression.ts";

const TEXT = "Hello, world. What a nice day!";

/** Types that a JSON text stands for. */
const TEXTS: Readonly<Record<string, string>> = {
  datetime: "2026-01-31T12:00:00Z",
  date: "2026-01-31",
  time: "12:00:00",
  UUID: "123e4567-e89b-12d3-a456-426614174000",
  Decimal: "1.50",
  Path: "folder/file.txt",
};

/**
 * A value a parameter accepts, from its default or its annotation. Undefined when the parameter may be left out and
 * its default says nothing (None, a computed value).
 */
export function exampleValue({ annotation, default: preset }: ManifestParameter): unknown {
  if (preset !== null) return literalValue(parsePythonExpression(preset)) ?? undefined;
  return annotation.trim() === "" ? TEXT : ofType(parsePythonExpression(annotation));
}

function ofType(type: PythonExpression | undefined): unknown {
  if (type?.kind === "union") return ofType(type.items.find((item) => !isNone(item)) ?? type.items[0]);
  if (type?.kind === "value") return typeof type.value === "string" ? ofType(parsePythonExpression(type.value)) : null;
  if (type?.kind !== "name") return {};
  const given = type.arguments ?? [];
  const name = lastPart(type.name);
  switch (name.toLowerCase()) {
    case "int":
      return 3;
    case "float":
      return 1.5;
    case "bool":
      return true;
    case "tuple":
      if (given.length > 0 && given.at(-1)!.kind !== "ellipsis") return given.map(ofType);
      return [ofItem(given[0])];
    case "list":
    case "sequence":
    case "iterable":
    case "set":
    case "frozenset":
      return [ofItem(given[0])];
    case "dict":
    case "mapping":
      return { key: given[1] === undefined || isAny(given[1]) ? "value" : ofType(given[1]) };
    case "any":
      return { key: "value" };
    case "optional":
    case "annotated":
    case "union":
      return ofType(given.find((item) => !isNone(item)));
    case "literal":
      return given[0] === undefined ? TEXT : literalValue(given[0]);
    case "str":
    case "bytes":
      return TEXT;
    default:
      // A class of the user's own: its fields are not known here.
      return TEXTS[name] ?? {};
  }
}

function ofItem(type: PythonExpression | undefined): unknown {
  return type === undefined ? TEXT : ofType(type);
}

function isNone(type: PythonExpression): boolean {
  return type.kind === "value" && type.value === null;
}

function isAny(type: PythonExpression): boolean {
  return type.kind === "name" && lastPart(type.name) === "Any";
}
