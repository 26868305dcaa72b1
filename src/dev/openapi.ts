/** The OpenAPI 3.1 document of the local server, made from the project's source: nothing has to run for it. */
import type { EndpointDeclaration } from "../build/endpoint-declaration.ts";
import type { JsonSchema } from "../domain/manifest.ts";
import { VERSION } from "../domain/version.ts";
import { type LocalRoute, localRoutes } from "./local-routes.ts";
import { jobOperations, jobsTagName } from "./openapi-jobs.ts";
import type { Operation } from "./openapi-parameters.ts";
import { routeOperation } from "./openapi-route.ts";

export interface OpenApiDocument {
  readonly openapi: "3.1.0";
  readonly info: { readonly title: string; readonly version: string; readonly description?: string };
  /** One for each worker file, and one for the routes that ask about its jobs, which the explorer shows folded. */
  readonly tags: readonly { readonly name: string; readonly description: string; readonly "x-svc-folded"?: true }[];
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, JsonSchema>> };
}

export interface OpenApiOptions {
  /** The project's name. */
  readonly title: string;
  readonly endpoints: readonly EndpointDeclaration[];
}

export function openApiDocument({ title, endpoints }: OpenApiOptions): OpenApiDocument {
  const routes = localRoutes(endpoints);
  const paths: Record<string, Record<string, Operation>> = {};
  const files = new Map<string, string[]>();
  const withJobs = new Set<string>();
  for (const route of routes) {
    const endpoint = endpoints.find(({ name }) => name === route.endpoint)!;
    const file = workerFile(route, endpoint);
    const notes = files.get(file) ?? [];
    files.set(file, notes);
    const note = noteOf(route, endpoint);
    if (!notes.includes(note)) notes.push(note);
    if (route.kind === "queue") withJobs.add(file);
    const operations = route.kind === "queue" ? jobOperations(route, file) : routeOperation(route, file);
    for (const { path, method, operation } of operations) {
      paths[path] = { ...paths[path], [method]: operation };
    }
  }
  return {
    openapi: "3.1.0",
    info: { title, version: VERSION },
    tags: [...files.entries()]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .flatMap(([name, notes]) => [
        { name, description: notes.join("\n\n") },
        ...(withJobs.has(name) ? [jobsTag(name)] : []),
      ]),
    paths,
    components: { schemas: { Job: JOB, Problems: PROBLEMS } },
  };
}

function jobsTag(file: string) {
  return {
    name: jobsTagName(file),
    description: "Ask about a job, read what it yields, cancel it",
    "x-svc-folded": true as const,
  };
}

/** Path of the file that holds the function. */
function workerFile({ function: { module, name } }: LocalRoute, endpoint: EndpointDeclaration): string {
  const places = [...endpoint.routes.filter((route) => route.function.name === name), endpoint];
  const moduleOf = (file: string) => file.replace(/(\/__init__)?\.py$/, "").replaceAll("/", ".");
  const file = places.map(({ place }) => place.file ?? "").find((each) => moduleOf(each) === module);
  return file ?? `${module.replaceAll(".", "/")}.py`;
}

function noteOf({ kind, method, path }: LocalRoute, { name, settings }: EndpointDeclaration): string {
  const hardware = settings.gpuIds === "" ? settings.instanceIds : settings.gpuIds;
  const note = `${kind === "queue" ? "Queue-based" : "Load-balanced"} endpoint \`${name}\` on ${hardware}`;
  if (method === "WEBSOCKET") return `${note}. WebSocket: \`${path}\``;
  if (method === "ANY") return `${note}. An application of its own answers below \`${path}\``;
  return note;
}

/** As python/src/svc/_runtime/http/openapi.py has it. */
const PROBLEMS: JsonSchema = {
  type: "object",
  properties: {
    detail: {
      type: "array",
      items: {
        type: "object",
        properties: {
          loc: { type: "array", items: { anyOf: [{ type: "string" }, { type: "integer" }] } },
          msg: { type: "string" },
          type: { type: "string" },
        },
        required: ["loc", "msg", "type"],
      },
    },
  },
};

const JOB: JsonSchema = {
  type: "object",
  properties: {
    id: { type: "string" },
    status: { enum: ["IN_QUEUE", "IN_PROGRESS", "COMPLETED", "FAILED", "TIMED_OUT", "CANCELLED"] },
    delayTime: { type: "integer", description: "Milliseconds in the queue" },
    executionTime: { type: "integer", description: "Milliseconds of the function" },
    workerId: { type: "string" },
    output: { description: "What the function returned" },
    error: {
      type: "string",
      description: "Of a failed job: JSON text with error_type, error_message, error_traceback",
    },
  },
  required: ["id", "status"],
};
