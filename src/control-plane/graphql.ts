/** The schema, what answers each operation, and the scope that it needs. */
import { existsSync, readFileSync } from "node:fs";
import {
  buildASTSchema,
  GraphQLError,
  type GraphQLFieldResolver,
  type GraphQLObjectType,
  GraphQLScalarType,
  type GraphQLSchema,
  Kind,
  parse,
  valueFromASTUntyped,
} from "graphql";
import type { KeyScope } from "../domain/api-key.ts";
import type { NetworkVolume } from "../store/store.ts";
import { requireScope, requireUnbound } from "./authenticate.ts";
import type { RequestContext } from "./context.ts";
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

/** The schema with what answers its fields: one for all platforms of a process, as what differs between them comes with the request. */
export function makeSchema(): GraphQLSchema {
  // A test checks what is declared: here that would take a third of the time.
  const schema = buildASTSchema(parse(readSchema(), { noLocation: true }), { assumeValid: true, assumeValidSDL: true });
  for (const [name, answers] of Object.entries(RESOLVERS)) {
    const type = schema.getType(name);
    if (answers instanceof GraphQLScalarType) {
      const { serialize, parseValue, parseLiteral } = answers;
      Object.assign(type!, { serialize, parseValue, parseLiteral });
      continue;
    }
    const fields = (type as GraphQLObjectType<unknown, RequestContext>).getFields();
    for (const [field, answer] of Object.entries(answers)) {
      fields[field]!.resolve = answer as GraphQLFieldResolver<unknown, RequestContext>;
    }
  }
  return schema;
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

type Resolvers = Readonly<Record<string, (...args: never[]) => unknown>>;

/** By type. A field without one is the member of that name. */
const RESOLVERS: Readonly<Record<string, Resolvers | GraphQLScalarType>> = {
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
};
