/**
 * JSON Schema of a Python annotation's source text, as the worker runtime makes it of the annotation itself
 * (python/src/svc/_values/json_schema.py). What a class of the user's own looks like is not known here: any value.
 */
import { literalValue, type PythonExpression, parsePythonExpression } from "./python-expression.ts";

export type JsonSchema = { readonly [key: string]: unknown };

const SCALARS: Readonly<Record<string, JsonSchema>> = {
  int: { type: "integer" },
  float: { type: "number" },
  bool: { type: "boolean" },
  str: { type: "string" },
  bytes: { type: "string", format: "binary" },
  bytearray: { type: "string", format: "binary" },
  File: { type: "string", format: "binary" },
  datetime: { type: "string", format: "date-time" },
  date: { type: "string", format: "date" },
  time: { type: "string", format: "time" },
  timedelta: { type: "string", format: "duration" },
  UUID: { type: "string", format: "uuid" },
  Decimal: { anyOf: [{ type: "number" }, { type: "string" }] },
};
const LISTS = /^(list|List|tuple|Tuple|set|Set|frozenset|FrozenSet|Sequence|Iterable)$/;
const DICTS = /^(dict|Dict|Mapping)$/;

/** `{}`, any value, for no annotation and for one that only Python can tell. */
export function annotationSchema(annotation: string): JsonSchema {
  return schemaOf(parsePythonExpression(annotation));
}

function schemaOf(expression: PythonExpression | undefined): JsonSchema {
  if (expression === undefined) return {};
  if (expression.kind === "union") return unionOf(expression.items);
  if (expression.kind === "value") {
    if (expression.value === null) return { type: "null" };
    return typeof expression.value === "string" ? annotationSchema(expression.value) : {};
  }
  if (expression.kind !== "name") return {};
  const name = lastPart(expression.name);
  const given = expression.arguments ?? [];
  if (name === "Annotated") return schemaOf(given[0]);
  if (name === "Optional") return unionOf([...given, { kind: "value", value: null }]);
  if (name === "Union") return unionOf(given);
  if (name === "Literal") return { enum: given.map(literalValue) };
  if (LISTS.test(name)) return listOf(name.toLowerCase(), given);
  if (DICTS.test(name)) {
    const values = given[1];
    const any = values === undefined || (values.kind === "name" && lastPart(values.name) === "Any");
    return any ? { type: "object" } : { type: "object", additionalProperties: schemaOf(values) };
  }
  return SCALARS[name] ?? {};
}

/** A union in a union is one; a member that comes twice counts once. */
function unionOf(members: readonly PythonExpression[]): JsonSchema {
  const schemas = members.flatMap((member) => {
    const schema = schemaOf(member);
    const isUnion = member.kind === "union" || (member.kind === "name" && /(^|\.)(Optional|Union)$/.test(member.name));
    return isUnion && Array.isArray(schema.anyOf) ? (schema.anyOf as JsonSchema[]) : [schema];
  });
  const different = [...new Map(schemas.map((schema) => [JSON.stringify(schema), schema])).values()];
  return different.length === 1 ? different[0]! : { anyOf: different };
}

function listOf(kind: string, given: readonly PythonExpression[]): JsonSchema {
  if (kind === "tuple" && given.length > 0 && given.at(-1)!.kind !== "ellipsis") {
    return { type: "array", prefixItems: given.map(schemaOf), minItems: given.length, maxItems: given.length };
  }
  const schema = { type: "array", items: schemaOf(given[0]) };
  return kind.endsWith("set") ? { ...schema, uniqueItems: true } : schema;
}

/** `typing.Optional` is Optional. */
export function lastPart(name: string): string {
  return name.slice(name.lastIndexOf(".") + 1);
}
