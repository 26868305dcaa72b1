/** The operations of a queue-based function: make a job, and ask about it. */
import { firstCall, type JsonSchema, type ManifestFunction, type ManifestParameter } from "../domain/manifest.ts";
import type { LocalRoute } from "./local-routes.ts";
import type { Operation } from "./openapi-parameters.ts";
import { docParts, fieldsExample, fieldsSchema, named } from "./openapi-parameters.ts";

interface PathOperation {
  readonly path: string;
  /** Lower case. */
  readonly method: string;
  readonly operation: Operation;
}

const JOB = { "application/json": { schema: { $ref: "#/components/schemas/Job" } } };

/** Of the routes that ask about a job. */
export function jobsTagName(file: string): string {
  return `${file} · jobs`;
}

export function jobOperations(route: LocalRoute, tag: string): PathOperation[] {
  const { summary, description } = docParts(route.function);
  const words = description === undefined ? {} : { description };
  const base = idOf(route.path);
  const common = { tags: [tag], requestBody: bodyOf(route), ...words };
  const at = (path: string, operation: Omit<Operation, "operationId">, method = "post"): PathOperation => ({
    path: `${route.path}${path}`,
    method,
    operation: { operationId: `${base}_${path.split("/")[1]}`, ...operation },
  });
  const about = (kind: Operation["x-svc"]["kind"]) => ({ "x-svc": { kind, endpoint: route.endpoint } });
  const ofJob = { tags: [jobsTagName(tag)], parameters: [JOB_ID], ...about("job") };
  return [
    at("/runsync", { ...common, summary, responses: answers("The finished job", JOB), ...about("runsync") }),
    at("/run", {
      ...common,
      summary: "Submit a job and go on",
      responses: answers("The waiting job", JOB),
      ...about("run"),
    }),
    at("/status/{id}", { ...ofJob, summary: "State of a job", responses: answers("The job", JOB, "404") }, "get"),
    at(
      "/stream/{id}",
      {
        ...ofJob,
        summary: "What a job yields",
        responses: answers("Its parts as they come; with Accept: application/json those that are new", PARTS, "404"),
      },
      "get",
    ),
    at("/cancel/{id}", { ...ofJob, summary: "Cancel a job", responses: answers("Its state", JOB, "404") }),
  ];
}

const JOB_ID: JsonSchema = { name: "id", in: "path", required: true, schema: { type: "string" } };
const PARTS = { "text/event-stream": { schema: { type: "string" } } };

const OTHER: Readonly<Record<string, string>> = {
  "400": "The body is not understood",
  "404": "No such job: finished ones are kept for a while only",
};

function answers(description: string, content: JsonSchema, other = "400"): JsonSchema {
  return { "200": { description, content }, [other]: { description: OTHER[other] } };
}

/** `{"input": {…}}`; for a class with several methods one shape for each, told apart by `method`. */
function bodyOf({ function: fn }: LocalRoute): JsonSchema {
  const ways = waysToCall(fn);
  const [only] = ways;
  const json =
    only !== undefined && ways.length === 1
      ? { schema: bodySchema(only), example: bodyExample(only) }
      : {
          schema: { oneOf: ways.map(bodySchema) },
          examples: Object.fromEntries(ways.map((way) => [way.method ?? "__call__", { value: bodyExample(way) }])),
        };
  return { required: true, content: { "application/json": json } };
}

interface Way {
  /** Undefined: the job names none. */
  readonly method?: string;
  readonly parameters: readonly ManifestParameter[];
}

function waysToCall(fn: ManifestFunction): Way[] {
  const byName = fn.methodParameters ?? {};
  const first = firstCall(fn);
  const others = fn.methods.map((method) => ({ method, parameters: byName[method] ?? [] }));
  if (first.method !== undefined) return others;
  return Object.hasOwn(byName, "__call__") ? [first, ...others] : [first];
}

function bodySchema({ method, parameters }: Way): JsonSchema {
  const takesAny = parameters.some(({ name }) => name.startsWith("**"));
  const input = { ...fieldsSchema(named(parameters)), ...(takesAny ? {} : { additionalProperties: false }) };
  const chosen = method === undefined ? {} : { method: { const: method } };
  return {
    type: "object",
    ...(method === undefined ? {} : { title: method }),
    properties: { ...chosen, input },
    required: [...Object.keys(chosen), "input"],
  };
}

function bodyExample({ method, parameters }: Way): JsonSchema {
  return { ...(method === undefined ? {} : { method }), input: fieldsExample(named(parameters)) };
}

export function idOf(path: string): string {
  return path.replace(/\W+/g, "_").replace(/^_|_$/g, "");
}
