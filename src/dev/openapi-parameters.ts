/** Parameters of a function as schemas with the values to try them with. */
import { annotationSchema, type JsonSchema } from "../domain/annotation-schema.ts";
import { exampleValue } from "../domain/example-value.ts";
import type { ManifestFunction, ManifestParameter } from "../domain/manifest.ts";
import { literalValue, parsePythonExpression } from "../domain/python-expression.ts";

/** Those a caller can name: no *args, **kwargs. */
export function namedParameters(fn: ManifestFunction): ManifestParameter[] {
  return fn.parameters.filter(({ name }) => /^[\p{L}_][\p{L}\p{N}_]*$/u.test(name) && name !== "self");
}

export function isRequired({ default: preset }: ManifestParameter): boolean {
  return preset === null;
}

/** Schema of the annotation, with the default where it is a literal other than None. */
export function parameterSchema({ annotation, default: preset }: ManifestParameter): JsonSchema {
  const schema = annotationSchema(annotation);
  const value = preset === null ? undefined : literalValue(parsePythonExpression(preset));
  return value === undefined || value === null ? schema : { ...schema, default: value };
}

/** An object with the parameters as its fields. */
export function fieldsSchema(parameters: readonly ManifestParameter[]): JsonSchema {
  const properties = Object.fromEntries(parameters.map((each) => [each.name, parameterSchema(each)]));
  const required = parameters.filter(isRequired).map(({ name }) => name);
  return { type: "object", properties, ...(required.length > 0 ? { required } : {}) };
}

/** A value for each field that says something. */
export function fieldsExample(parameters: readonly ManifestParameter[]): Record<string, unknown> {
  const pairs = parameters.map((parameter) => [parameter.name, exampleValue(parameter)] as const);
  return Object.fromEntries(pairs.filter(([, value]) => value !== undefined));
}

/** The docstring's first line, and what follows it. */
export function docParts(fn: ManifestFunction): { readonly summary: string; readonly description?: string } {
  const [first = "", ...rest] = fn.doc.trim().split("\n");
  const words = fn.name.replaceAll("_", " ");
  const summary = first === "" ? words.charAt(0).toUpperCase() + words.slice(1) : first;
  const description = rest.join("\n").trim();
  return description === "" ? { summary } : { summary, description };
}
