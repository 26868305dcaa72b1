/** A real HTTP server that speaks the management schema over a list of endpoints; it notes the order of operations. */
import { readFile } from "node:fs/promises";
import { json } from "node:stream/consumers";
import { buildSchema, graphql } from "graphql";
import { serve } from "../client/serve.ts";

const SCHEMA = new URL("../../src/control-plane/schema.graphql", import.meta.url);

export interface SchemaServer {
  readonly url: string;
  /** "saveEndpoint a 0 0", "deployBuild shop/production", … */
  readonly operations: string[];
  readonly endpoints: TestEndpoint[];
}

export interface TestEndpoint {
  readonly id: string;
  readonly name: string;
  readonly app: string | null;
  readonly environment: string | null;
  readonly kind?: "queue" | "load-balanced";
  workersMin?: number;
  workersMax?: number;
  reason?: string;
  gpuIds?: string;
  /** Workers that are still there; one goes with each look after the scale-down. */
  pods?: number;
}

/** `more` are further operations. */
export async function schemaServer(endpoints: TestEndpoint[], more: object = {}): Promise<SchemaServer> {
  const schema = buildSchema(await readFile(SCHEMA, "utf8"));
  const operations: string[] = [];
  const rootValue = { ...root(endpoints, operations), ...more };
  const url = await serve(async (request, response) => {
    const { query, variables } = (await json(request)) as { query: string; variables: Record<string, unknown> };
    const answer = await graphql({ schema, source: query, rootValue, variableValues: variables });
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify(answer));
  });
  return { url, operations, endpoints };
}

function root(endpoints: TestEndpoint[], operations: string[]) {
  const find = (id: string) => endpoints.find((endpoint) => endpoint.id === id);
  return {
    myself: { version: "0.1.0", workersQuota: 30, endpoints: () => endpoints.map(record) },
    apps: () => appsOf(endpoints),
    app: ({ name }: { name: string }) => appsOf(endpoints).find((app) => app.name === name) ?? null,
    endpoint: ({ id }: { id: string }) => {
      const endpoint = find(id);
      if (endpoint === undefined) return null;
      operations.push(`look ${endpoint.name} ${endpoint.pods ?? 0}`);
      const answer = record(endpoint);
      if (endpoint.pods) endpoint.pods--;
      return answer;
    },
    saveEndpoint: ({ input }: { input: { id: string; workersMin: number; workersMax: number } }) => {
      const endpoint = find(input.id)!;
      Object.assign(endpoint, { workersMin: input.workersMin, workersMax: input.workersMax });
      operations.push(`save ${endpoint.name} ${input.workersMin} ${input.workersMax}`);
      return record(endpoint);
    },
    deleteEndpoint: ({ id }: { id: string }) => {
      const endpoint = find(id)!;
      operations.push(`delete ${endpoint.name}`);
      endpoints.splice(endpoints.indexOf(endpoint), 1);
      return null;
    },
  };
}

function appsOf(endpoints: readonly TestEndpoint[]) {
  const names = new Set(endpoints.flatMap((endpoint) => endpoint.app ?? []));
  return [...names].map((name) => {
    const own = endpoints.filter((endpoint) => endpoint.app === name);
    const environments = [...new Set(own.map((endpoint) => endpoint.environment!))];
    return {
      id: name,
      name,
      environments: environments.map((environment) => ({
        id: environment,
        name: environment,
        buildId: "b-1",
        endpoints: own.filter((endpoint) => endpoint.environment === environment).map(record),
      })),
    };
  });
}

function record({ id, name, app, environment, kind, workersMin, workersMax, reason, gpuIds, pods }: TestEndpoint) {
  return {
    id,
    name,
    app,
    environment,
    kind: kind ?? "queue",
    publicRoutes: "",
    url: `http://platform/v2/${id}`,
    buildId: "b-1",
    gpuIds: gpuIds ?? "",
    gpuCount: 1,
    instanceIds: ["cpu3c-1-2"],
    workersMin: workersMin ?? 0,
    workersMax: workersMax ?? 3,
    idleTimeout: 60,
    emulatesGpu: gpuIds !== undefined,
    routes: kind === "load-balanced" ? ["GET /health"] : [],
    functions: [
      { name: "f", module: "m", methods: [], parameters: [{ name: "text", annotation: "str", default: null }] },
    ],
    status: { state: reason ? "BLOCKED" : "READY", reason: reason ?? "", progress: [] },
    pods: Array.from({ length: pods ?? 0 }, (_, i) => ({
      id: `w-${i}`,
      desiredStatus: "RUNNING",
      boot: "fork",
      limits: "cgroup1",
      isolation: "landlock",
      state: "READY",
      current: true,
      reason: "",
    })),
  };
}
