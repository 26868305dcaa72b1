/** The operation of a load-balanced route, as python/src/svc/_runtime/http/openapi.py has it for the deployed endpoint. */
import { exampleValue } from "../build/example-value.ts";
import type { JsonSchema, ManifestParameter } from "../domain/manifest.ts";
import type { LocalRoute } from "./local-routes.ts";
import { idOf } from "./openapi-jobs.ts";
import type { Operation } from "./openapi-parameters.ts";
import { docParts, fieldsExample, fieldsSchema, isRequired, named } from "./openapi-parameters.ts";

const BODY_METHODS = ["POST", "PUT", "PATCH"];
const OPENAPI_METHODS = ["GET", "PUT", "POST", "DELETE", "OPTIONS", "HEAD", "PATCH", "TRACE"];
const CONVERTER = /\{([^}:]+):[^}]*\}/g;

/** None for a WebSocket, which OpenAPI has no words for; a whole application is its first page. */
export function routeOperation(route: LocalRoute, tag: string) {
  const method = route.method === "ANY" ? "GET" : route.method;
  if (!OPENAPI_METHODS.includes(method)) return [];
  const path = route.path.replace(CONVERTER, "{$1}");
  const { parameters, body } = placesOf(route, method);
  const operation: Operation = {
    operationId: `${idOf(route.path)}_${method.toLowerCase()}`,
    tags: [tag],
    ...docParts(route.function),
    ...(parameters.length > 0 ? { parameters } : {}),
    ...(body === undefined ? {} : { requestBody: body }),
    responses: responsesOf(route, parameters.length > 0 || body !== undefined),
    "x-svc": { kind: "route", endpoint: route.endpoint },
  };
  return [{ path, method: method.toLowerCase(), operation }];
}

/** What comes by the path, the query and the body. */
function placesOf(route: LocalRoute, method: string): { parameters: JsonSchema[]; body: JsonSchema | undefined } {
  const inPath = new Set([...route.routePath.matchAll(/\{([^}:]+)(?::[^}]*)?\}/g)].map((match) => match[1]!));
  const all = named(route.function.parameters);
  const members = all.filter((parameter) => !inPath.has(parameter.name));
  const upload = members.find(readsUpload);
  const others = members.filter((parameter) => parameter !== upload);
  const byQuery = BODY_METHODS.includes(method) ? [] : others;
  const fields = BODY_METHODS.includes(method) ? others : [];
  return {
    parameters: [
      ...all.filter((parameter) => inPath.has(parameter.name)).map(pathParameter),
      ...byQuery.map(queryParameter),
    ],
    body: upload === undefined ? bodyOf(fields) : binary(upload),
  };
}

function pathParameter(parameter: ManifestParameter): JsonSchema {
  const example = exampleValue({ ...parameter, default: null });
  const shown = typeof example === "string" ? wordOf(example) : example;
  const { default: _, ...schema } = parameter.schema;
  return { name: parameter.name, in: "path", required: true, schema, example: typeof shown === "object" ? "1" : shown };
}

/** A word is a nicer part of a path than a sentence. */
function wordOf(text: string): string {
  return /\s/.test(text) ? "hello" : text;
}

function queryParameter(parameter: ManifestParameter): JsonSchema {
  const required = isRequired(parameter);
  const shown = { name: parameter.name, in: "query", required, schema: parameter.schema };
  return required ? { ...shown, example: exampleValue(parameter) } : shown;
}

function bodyOf(fields: readonly ManifestParameter[]): JsonSchema | undefined {
  const [first] = fields;
  if (first === undefined) return undefined;
  if (fields.length === 1 && isBytes(first.annotation)) return binary(first);
  if (fields.length === 1 && takesWholeBody(first.schema)) {
    const { default: _, ...schema } = first.schema;
    const example = exampleValue(first) ?? {};
    return { required: isRequired(first), content: { "application/json": { schema, example } } };
  }
  const hasFile = fields.some(({ annotation }) => isBytes(annotation));
  const kind = hasFile ? "multipart/form-data" : "application/json";
  const example = hasFile ? {} : { example: fieldsExample(fields) };
  return { required: fields.some(isRequired), content: { [kind]: { schema: fieldsSchema(fields), ...example } } };
}

function binary(parameter: ManifestParameter): JsonSchema {
  const content = { "application/octet-stream": { schema: { type: "string", format: "binary" } } };
  return { required: isRequired(parameter), content };
}

function isBytes(annotation: string): boolean {
  return /^(svc\.)?(bytes|File)$/.test(annotation.trim());
}

/** A dict takes the body as it is, and so does a class with fields of the user's own. */
function takesWholeBody({ type, anyOf }: JsonSchema): boolean {
  return type === "object" || (Array.isArray(anyOf) && anyOf.some(takesWholeBody));
}

/** `Iterator[bytes]` reads the body while it arrives. */
function readsUpload({ annotation }: ManifestParameter): boolean {
  return /^([\w.]*\.)?(Async)?Iterator\[\s*bytes\s*\]$/.test(annotation.trim());
}

function responsesOf({ function: fn }: LocalRoute, canMisfit: boolean): JsonSchema {
  const streamed = { content: { "text/event-stream": { schema: { type: "string" } } } };
  const ok = {
    description: fn.generator ? "Streamed as the function yields" : "OK",
    ...(fn.generator ? streamed : {}),
  };
  if (!canMisfit) return { "200": ok };
  const problems = { "application/json": { schema: { $ref: "#/components/schemas/Problems" } } };
  const description = "The request does not fit the function's parameters";
  return { "200": ok, "422": { description, content: problems } };
}
