/** TypeScript of what endpoints take and return, from the JSON Schemas of their functions' annotations. */
import type { EndpointKind } from "../domain/endpoint.ts";
import type { JsonSchema, ManifestFunction, ManifestParameter } from "../domain/manifest.ts";

export interface TypedEndpoint {
  readonly name: string;
  readonly kind: EndpointKind;
  readonly functions: readonly ManifestFunction[];
  /** Of a load-balanced endpoint: "POST /path" and its function, undefined where that is not known. */
  readonly routes: readonly (readonly [route: string, fn: ManifestFunction | undefined])[];
}

const HEAD = `// What endpoints take and return, as \`svc types\` printed it.
//
//   import { Endpoint } from "svc/client";
//   import type { Endpoints } from "./endpoints.js";
//
//   const hello = new Endpoint<Endpoints["hello"]["input"], Endpoints["hello"]["output"]>({ url, apiKey });
`;

/** A module with the interface `Endpoints`. */
export function typescriptTypes(endpoints: readonly TypedEndpoint[]): string {
  const members = endpoints.flatMap((endpoint) => [
    ...docOf(endpoint),
    ...block(
      key(endpoint.name),
      endpoint.kind === "queue" ? queueMembers(endpoint.functions[0]) : routeMembers(endpoint),
    ),
  ]);
  return `${HEAD}\nexport interface Endpoints {\n${indented(members).join("\n")}\n}\n`;
}

function queueMembers(fn: ManifestFunction | undefined): string[] {
  if (fn === undefined) return callMembers([], undefined);
  const methods = Object.entries(fn.methodParameters ?? {}).filter(([name]) => name !== "__call__");
  const unnamed = fn.kind === "function" || methods.length === 1 || "__call__" in (fn.methodParameters ?? {});
  const named = methods.flatMap(([name, parameters]) =>
    block(key(name), callMembers(parameters, fn.methodReturns?.[name])),
  );
  return [
    ...(unnamed ? callMembers(fn.parameters, fn.returns) : []),
    ...(named.length > 0 ? [...comment('With `{ method: "…" }` among the options.'), ...block("methods", named)] : []),
  ];
}

function callMembers(parameters: readonly ManifestParameter[], returns: JsonSchema | undefined): string[] {
  return [`input: ${fieldsType(parameters)};`, `output: ${typeOf(returns ?? {}, "output")};`];
}

function routeMembers({ routes }: TypedEndpoint): string[] {
  return block(
    "routes",
    routes.flatMap(([route, fn]) => block(JSON.stringify(route), routeType(route, fn))),
  );
}

function routeType(route: string, fn: ManifestFunction | undefined): string[] {
  const [method = "GET", path = "/"] = route.split(" ");
  if (fn === undefined || method === "ANY") return ["output: unknown;"];
  const inPath = new Set([...path.matchAll(/\{(\w+)[^}]*\}/g)].map((match) => match[1]!));
  const given = method === "WEBSOCKET" ? fn.parameters.slice(1) : fn.parameters;
  const rest = given.filter(({ name }) => !inPath.has(name));
  const place = ["POST", "PUT", "PATCH"].includes(method) ? "body" : "query";
  return [
    ...(inPath.size > 0 ? [`path: ${fieldsType(given.filter(({ name }) => inPath.has(name)))};`] : []),
    `${place}: ${fieldsType(rest)};`,
    ...(method === "WEBSOCKET" ? [] : [`output: ${typeOf(fn.returns ?? {}, "output")};`]),
  ];
}

function fieldsType(parameters: readonly ManifestParameter[]): string {
  const fields = parameters
    .filter(({ name }) => !name.startsWith("*"))
    .map((each) => `${key(each.name)}${each.default === null ? "" : "?"}: ${typeOf(each.schema, "input")}`);
  if (parameters.some(({ name }) => name.startsWith("**"))) fields.push("[name: string]: unknown");
  return fields.length === 0 ? "Record<string, never>" : `{ ${fields.join("; ")} }`;
}

/** Times that are given as texts come back as seconds. */
function typeOf(schema: JsonSchema, side: "input" | "output"): string {
  if (Array.isArray(schema.enum)) return union(schema.enum.map((value) => JSON.stringify(value)));
  if (Array.isArray(schema.anyOf)) return union(schema.anyOf.map((member) => typeOf(member as JsonSchema, side)));
  switch (schema.type) {
    case "integer":
    case "number":
      return "number";
    case "boolean":
    case "null":
      return schema.type;
    case "string":
      return schema.format === "duration" && side === "output" ? "number" : "string";
    case "array":
      if (Array.isArray(schema.prefixItems))
        return `[${schema.prefixItems.map((item) => typeOf(item as JsonSchema, side)).join(", ")}]`;
      return `Array<${typeOf((schema.items ?? {}) as JsonSchema, side)}>`;
    case "object":
      if (schema.properties !== undefined) return objectType(schema, side);
      return `Record<string, ${typeOf((schema.additionalProperties ?? {}) as JsonSchema, side)}>`;
    default:
      return "unknown";
  }
}

/** A class of the project. What comes back has every field. */
function objectType({ properties, required }: JsonSchema, side: "input" | "output"): string {
  const needed = new Set(required as readonly string[] | undefined);
  const fields = Object.entries(properties as Readonly<Record<string, JsonSchema>>).map(([name, schema]) => {
    return `${key(name)}${side === "output" || needed.has(name) ? "" : "?"}: ${typeOf(schema, side)}`;
  });
  return fields.length === 0 ? "Record<string, never>" : `{ ${fields.join("; ")} }`;
}

function union(members: readonly string[]): string {
  return members.includes("unknown") ? "unknown" : [...new Set(members)].join(" | ");
}

function docOf({ functions }: TypedEndpoint): string[] {
  const [line = ""] = (functions.length === 1 ? functions[0]!.doc : "").split("\n");
  return line === "" ? [] : comment(line);
}

function comment(text: string): string[] {
  return [`/** ${text.replaceAll("*/", "*\\/")} */`];
}

function block(name: string, members: readonly string[]): string[] {
  return [`${name}: {`, ...indented(members), "};"];
}

function indented(lines: readonly string[]): string[] {
  return lines.map((line) => `  ${line}`);
}

function key(name: string): string {
  return /^[A-Za-z_$][\w$]*$/.test(name) ? name : JSON.stringify(name);
}
