/** The operations of a queue-based function: make a job, and ask about it. */
import { firstCall, type JsonSchema } from "../domain/manifest.ts";
import type { LocalRoute } from "./local-routes.ts";
import type { Operation } from "./openapi-parameters.ts";
import { docParts, fieldsExample, fieldsSchema, namedParameters } from "./openapi-parameters.ts";

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

/** `{"input": {…}}`; a class with several methods is told which. */
function bodyOf({ function: fn }: LocalRoute): JsonSchema {
  const parameters = namedParameters(fn);
  const takesAny = fn.parameters.some(({ name }) => name.startsWith("**")) || fn.methods.length > 1;
  const input = { ...fieldsSchema(parameters), ...(takesAny ? {} : { additionalProperties: false }) };
  const { method, parameters: first } = firstCall(fn);
  const chooses = method !== undefined;
  const schema = {
    type: "object",
    properties: { input, ...(chooses ? { method: { enum: fn.methods } } : {}) },
    required: ["input", ...(chooses ? ["method"] : [])],
  };
  const example = {
    input: fieldsExample(namedParameters({ ...fn, parameters: [...first] })),
    ...(chooses ? { method } : {}),
  };
  return { required: true, content: { "application/json": { schema, example } } };
}

export function idOf(path: string): string {
  return path.replace(/\W+/g, "_").replace(/^_|_$/g, "");
}
