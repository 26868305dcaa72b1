/** Parameters of a function as schemas with the values to try them with. */
import { exampleValue } from "../build/example-value.ts";
import type { JsonSchema, ManifestFunction, ManifestParameter } from "../domain/manifest.ts";

export type Operation = {
  readonly operationId: string;
  readonly tags: readonly string[];
  /** The docstring's first line. */
  readonly summary: string;
  readonly description?: string;
  readonly parameters?: readonly JsonSchema[];
  readonly requestBody?: JsonSchema;
  readonly responses: JsonSchema;
  /** For the explorer: "run" and "runsync" make a job, "job" asks about one. */
  readonly "x-svc": { readonly kind: "run" | "runsync" | "job" | "route"; readonly endpoint: string };
};

/** Those a caller can name: no *args, **kwargs. */
export function named(parameters: readonly ManifestParameter[]): ManifestParameter[] {
  return parameters.filter(({ name }) => /^[\p{L}_][\p{L}\p{N}_]*$/u.test(name) && name !== "self");
}

export function isRequired({ default: preset }: ManifestParameter): boolean {
  return preset === null;
}

/** An object with the parameters as its fields. */
export function fieldsSchema(parameters: readonly ManifestParameter[]): JsonSchema {
  const properties = Object.fromEntries(parameters.map((each) => [each.name, each.schema]));
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
