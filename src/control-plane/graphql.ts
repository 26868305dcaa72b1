import { existsSync, readFileSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { GraphQLError, GraphQLScalarType, Kind, valueFromASTUntyped } from "graphql";
import { createSchema, createYoga } from "graphql-yoga";
import type { KeyScope } from "../domain/api-key.ts";
import { errorBody, SvcError } from "../domain/errors.ts";
import { GRAPHQL_BODY_MAX_BYTES } from "../domain/limits.ts";
import type { NetworkVolume } from "../store/store.ts";
import { requireScope, requireUnbound } from "./authenticate.ts";
import type { RequestContext, SharedDeps } from "./context.ts";
import { queryLimits } from "./query-limits.ts";
import { createRequestLoader } from "./request-loader.ts";
import { account, createConsoleLink } from "./resolvers/account.ts";
import { alertFields, alerts, createAlert, removeAlert, testAlert } from "./resolvers/alerts.ts";
import {
  app,
  application,
  apps,
  createEnvironment,
  deleteApp,
  deleteEnvironment,
  environment,
} from "./resolvers/apps.ts";
import { deployBuild, mayDeploy, planBuild, rollback } from "./resolvers/builds.ts";
import { capacity } from "./resolvers/capacity.ts";
import {
  cpuFlavorFields,
  cpuFlavors,
  dataCenters,
  gpuTypeFields,
  gpuTypes,
  serverlessGpuPools,
} from "./resolvers/catalog.ts";
import { endpointWords } from "./resolvers/endpoint-words.ts";
import { deleteEndpoint, endpoint, endpointFields, pauseSchedule, peer } from "./resolvers/endpoints.ts";
import { decisions, errorGroups, requests } from "./resolvers/history.ts";
import {
  createHostToken,
  drainHost,
  hosts,
  hostTokenFields,
  hostTokens,
  removeHost,
  revokeHostToken,
} from "./resolvers/hosts.ts";
import { jobs } from "./resolvers/jobs.ts";
import { createKey, keyFields, revokeKey } from "./resolvers/keys.ts";
import { auditLog, deploys } from "./resolvers/records.ts";
import { deleteRegistryAuth, saveRegistryAuth, updateRegistryAuth } from "./resolvers/registry-auths.ts";
import { saveEndpoint, updateEndpointTemplate } from "./resolvers/save-endpoint.ts";
import { deleteSecret, setSecret } from "./resolvers/secrets.ts";
import { series, seriesNames } from "./resolvers/series.ts";
import { signUrl } from "./resolvers/sign-url.ts";
import {
  deleteTemplate,
  podTemplate,
  podTemplates,
  saveTemplate,
  templateFields,
  templates,
} from "./resolvers/templates.ts";
import { createVolume, deleteVolume, volumes } from "./resolvers/volumes.ts";

/** What is known of who asks before the document is read. */
type Asker = Pick<RequestContext, "principal" | "address">;

export type GraphQLHandler = (request: IncomingMessage, response: ServerResponse, who: Asker) => Promise<void>;

type Resolver<A, R> = (args: A, context: RequestContext) => R;

/** Only for a key that is bound to nothing. */
const UNBOUND = { unbound: true };

/** What needs a key with this scope. Whether the key reaches the thing is checked where that is known. */
const needs =
  (scope: KeyScope) =>
  <A, R>(resolve: Resolver<A, R>, { unbound } = { unbound: false }) =>
  (_root: unknown, args: A, context: RequestContext, { fieldName }: { readonly fieldName: string }): R => {
    const refused = (error: unknown): never => {
      context.refused.note(error, { who: context.principal, address: context.address, what: fieldName });
      throw error;
    };
    try {
      requireScope(context, scope);
      if (unbound) requireUnbound(context);
      const found = resolve(args, context);
      return found instanceof Promise ? (found.catch(refused) as R) : found;
    } catch (error) {
      return refused(error);
    }
  };
const read = needs("read");
const invoke = needs("invoke");
const deploy = needs("deploy");
const admin = needs("admin");

export function createGraphQL(deps: SharedDeps): GraphQLHandler {
  schema ??= makeSchema();
  const yoga = createYoga<Asker, Omit<RequestContext, keyof Asker>>({
    schema,
    context: () => ({ ...deps, loader: createRequestLoader(deps.store) }),
    maskedErrors: {
      maskError: (error) => maskError(error, (cause) => deps.log.error("A management operation failed.", cause)),
    },
    maxRequestBodySize: GRAPHQL_BODY_MAX_BYTES,
    plugins: [queryLimits()],
    // Documents may hold whole manifests: kept ones would fill the memory.
    parserAndValidationCache: false,
    logging: false,
    graphiql: false,
    landingPage: false,
    multipart: false,
    cors: false,
  });
  return async (request, response, who) => {
    // It makes a URL of the caller's Host, which may be none; here nothing depends on it.
    request.headers.host = "platform";
    await yoga(request, response, who);
  };
}

/** One for all platforms of this process: what differs between them comes with the request. */
let schema: ReturnType<typeof makeSchema> | undefined;

function makeSchema() {
  return createSchema<RequestContext>({
    // A test checks what is declared: at every start that would take a third of the time.
    assumeValidSDL: true,
    updateResolversInPlace: true,
    typeDefs: readSchema(),
    resolvers: {
      Query: {
        myself: read(() => ({})),
        app: read(app),
        apps: read(apps),
        endpoint: read(endpoint),
        // With signUrl all that a worker's token may ask.
        peer: (_root, args, context) => peer(args, context),
        mayDeploy: deploy(mayDeploy),
        planBuild: read(planBuild),
        templates: read(templates, UNBOUND),
        volumes: read(volumes),
        series: read(series),
        seriesNames: read(seriesNames),
        capacity: read(capacity),
        jobs: read(jobs),
        requests: read(requests),
        errorGroups: read(errorGroups),
        decisions: read(decisions),
        deploys: read(deploys),
        audit: admin(auditLog),
        podTemplate: read(podTemplate, UNBOUND),
        podTemplates: read(podTemplates, UNBOUND),
        gpuTypes: read(gpuTypes),
        cpuFlavors: read(cpuFlavors),
        serverlessGpuPools: read(serverlessGpuPools),
        dataCenters: read(dataCenters),
        alerts: read(alerts),
        hosts: read(hosts),
        hostTokens: admin(hostTokens),
      },
      Mutation: {
        // Also for workers, of endpoints of their environment.
        signUrl: invoke(signUrl),
        saveEndpoint: deploy(saveEndpoint),
        deleteEndpoint: deploy(deleteEndpoint),
        pauseSchedule: deploy(pauseSchedule),
        saveTemplate: deploy(saveTemplate, UNBOUND),
        deleteTemplate: deploy(deleteTemplate, UNBOUND),
        updateEndpointTemplate: deploy(updateEndpointTemplate),
        saveRegistryAuth: deploy(saveRegistryAuth, UNBOUND),
        updateRegistryAuth: deploy(updateRegistryAuth, UNBOUND),
        deleteRegistryAuth: deploy(deleteRegistryAuth, UNBOUND),
        deployBuild: deploy(deployBuild),
        rollback: deploy(rollback),
        createEnvironment: deploy(createEnvironment),
        deleteEnvironment: deploy(deleteEnvironment),
        deleteApp: deploy(deleteApp, UNBOUND),
        setSecret: deploy(setSecret),
        deleteSecret: deploy(deleteSecret),
        createVolume: deploy(createVolume),
        deleteVolume: deploy(deleteVolume),
        createKey: admin(createKey, UNBOUND),
        revokeKey: admin(revokeKey),
        createHostToken: admin(createHostToken, UNBOUND),
        revokeHostToken: admin(revokeHostToken),
        drainHost: admin(drainHost),
        removeHost: admin(removeHost),
        createAlert: deploy(createAlert),
        testAlert: deploy(testAlert),
        removeAlert: deploy(removeAlert),
        createConsoleLink: read(createConsoleLink),
      },
      Account: account,
      App: application,
      Environment: environment,
      Endpoint: { ...endpointFields, ...endpointWords },
      GpuType: gpuTypeFields,
      CpuFlavor: cpuFlavorFields,
      NetworkVolume: { name: ({ id }: NetworkVolume) => id },
      Key: keyFields,
      HostToken: hostTokenFields,
      Alert: alertFields,
      Template: templateFields,
      JSON: jsonScalar,
      Lenient: lenientScalar,
      TextOrList: textOrListScalar,
    },
  });
}

/** The text of both .graphql files, which stay in src/ when the code runs from dist/. */
export function readSchema(): string {
  const read = (name: string) => {
    const beside = new URL(`./${name}`, import.meta.url);
    return readFileSync(
      existsSync(beside) ? beside : new URL(`../../../src/control-plane/${name}`, import.meta.url),
      "utf8",
    );
  };
  return `${read("schema.graphql")}\n${read("compatible.graphql")}`;
}

/**
 * What a caller gets to see of an error: our own messages with their code, GraphQL's findings about the document
 * as BAD_INPUT, and of anything else only that it happened (`unknown` is told the rest).
 */
function maskError(error: unknown, unknown: (cause: unknown) => void): GraphQLError {
  const cause = rootCause(error);
  const place = error instanceof GraphQLError ? error : undefined;
  if (cause instanceof GraphQLError) {
    const http = cause.extensions.http as { status?: number } | undefined;
    const code = http?.status === 413 ? "TOO_LARGE" : "BAD_INPUT";
    return new GraphQLError(cause.message, { ...position(place ?? cause), extensions: { code, http } });
  }
  if (!(cause instanceof SvcError)) unknown(cause);
  const body = errorBody(cause);
  return new GraphQLError(body.detail, { ...position(place), extensions: { code: body.code } });
}

function rootCause(error: unknown): unknown {
  let cause = error;
  while (cause instanceof GraphQLError && cause.originalError) cause = cause.originalError;
  return cause;
}

function position(error: GraphQLError | undefined) {
  return { nodes: error?.nodes, source: error?.source, positions: error?.positions, path: error?.path };
}

/** Any JSON value, also written out in the document. */
const jsonScalar = new GraphQLScalarType({
  name: "JSON",
  parseValue: (value) => value,
  parseLiteral: (node, variables) => valueFromASTUntyped(node, variables),
});

const textOrListScalar = new GraphQLScalarType<string | string[], string | string[]>({
  name: "TextOrList",
  parseValue: textOrList,
  parseLiteral: (node, variables) => textOrList(valueFromASTUntyped(node, variables)),
});

function textOrList(value: unknown): string | string[] {
  if (typeof value === "string") return value;
  if (Array.isArray(value) && value.every((one) => typeof one === "string")) return value;
  throw new GraphQLError("Give a text or a list of texts.");
}

/** `QUEUE_DELAY` and `"QUEUE_DELAY"` are the same. */
const lenientScalar = new GraphQLScalarType<string, string>({
  name: "Lenient",
  serialize: String,
  parseValue: (value) => {
    if (typeof value === "string") return value.toUpperCase();
    throw new GraphQLError("Give an enum value or its name as a string.");
  },
  parseLiteral: (node) => {
    if (node.kind === Kind.ENUM || node.kind === Kind.STRING) return node.value.toUpperCase();
    throw new GraphQLError("Give an enum value or its name as a string.", { nodes: node });
  },
});
