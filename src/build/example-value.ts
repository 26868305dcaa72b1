import type { JsonSchema, ManifestParameter } from "../domain/manifest.ts";

const TEXT = "Hello, world. What a nice day!";

/** Texts of a format that a worker makes another type of. */
const TEXTS: Readonly<Record<string, string>> = {
  "date-time": "2026-01-31T12:00:00Z",
  date: "2026-01-31",
  time: "12:00:00",
  uuid: "123e4567-e89b-12d3-a456-426614174000",
};

/**
 * A value a parameter accepts, from its default or its schema. Undefined when the parameter may be left out and its
 * default says nothing (None, a computed value). A build of an earlier version has no schemas.
 */
export function exampleValue({ annotation, default: preset, schema = {} }: ManifestParameter): unknown {
  if (preset !== null) return schema.default;
  if (/\bPath$/.test(annotation)) return "folder/file.txt";
  return annotation.trim() === "" ? TEXT : ofSchema(schema);
}

function ofSchema(schema: JsonSchema): unknown {
  const { type, format, anyOf, prefixItems, items, properties, additionalProperties } = schema as {
    type?: string;
    format?: string;
    anyOf?: JsonSchema[];
    prefixItems?: JsonSchema[];
    items?: JsonSchema;
    properties?: Readonly<Record<string, JsonSchema>>;
    additionalProperties?: JsonSchema;
  };
  if (schema.default !== undefined) return schema.default;
  if (anyOf !== undefined) return ofSchema(anyOf.find((each) => each.type !== "null") ?? { type: "null" });
  if (Array.isArray(schema.enum)) return schema.enum[0];
  switch (type) {
    case "integer":
      return 3;
    case "number":
      return 1.5;
    case "boolean":
      return true;
    case "string":
      return TEXTS[format ?? ""] ?? TEXT;
    case "null":
      return null;
    case "array":
      if (prefixItems !== undefined) return prefixItems.map(ofSchema);
      return [items === undefined || Object.keys(items).length === 0 ? TEXT : ofSchema(items)];
    case "object":
      if (properties !== undefined)
        return Object.fromEntries(Object.entries(properties).map(([name, field]) => [name, ofSchema(field)]));
      return { key: additionalProperties === undefined ? "value" : ofSchema(additionalProperties) };
    default:
      // Only running Python can tell.
      return {};
  }
}
