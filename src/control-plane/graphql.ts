import { existsSync, readFileSync } from "node:fs";
import type { IncomingMessage, ServerResponse } from "node:http";
import { createSchema, createYoga } from "graphql-yoga";
import type { Principal } from "../domain/api-key.ts";
import { GRAPHQL_BODY_MAX_BYTES } from "../domain/limits.ts";
import type { RequestContext, SharedDeps } from "./context.ts";
import { maskError } from "./mask-error.ts";
import { queryLimits } from "./query-limits.ts";
import { createRequestLoader } from "./request-loader.ts";
import { account } from "./resolvers/account.ts";
import { app, application, apps, environment } from "./resolvers/apps.ts";
import { createEnvironment } from "./resolvers/create-environment.ts";
import { createKey } from "./resolvers/create-key.ts";
import { deleteApp } from "./resolvers/delete-app.ts";
import { deleteEndpoint } from "./resolvers/delete-endpoint.ts";
import { deleteEnvironment } from "./resolvers/delete-environment.ts";
import { deleteSecret } from "./resolvers/delete-secret.ts";
import { deleteTemplate } from "./resolvers/delete-template.ts";
import { deployBuild } from "./resolvers/deploy-build.ts";
import { endpoint, endpointFields } from "./resolvers/endpoint.ts";
import { keyFields } from "./resolvers/key.ts";
import { myself } from "./resolvers/myself.ts";
import { peer } from "./resolvers/peer.ts";
import { planBuild } from "./resolvers/plan-build.ts";
import { revokeKey } from "./resolvers/revoke-key.ts";
import { rollback } from "./resolvers/rollback.ts";
import { saveEndpoint } from "./resolvers/save-endpoint.ts";
import { saveTemplate } from "./resolvers/save-template.ts";
import { setSecret } from "./resolvers/set-secret.ts";
import { templateFields, templates } from "./resolvers/templates.ts";
import { jsonScalar, lenientScalar } from "./scalars.ts";

export type GraphQLHandler = (
  request: IncomingMessage,
  response: ServerResponse,
  who: { readonly principal: Principal },
) => Promise<void>;

export function createGraphQL(deps: SharedDeps): GraphQLHandler {
  const yoga = createYoga<{ principal: Principal }, Omit<RequestContext, "principal">>({
    schema: createSchema<RequestContext>({
      typeDefs: readSchema(),
      resolvers: {
        Query: { myself, app, apps, endpoint, peer, planBuild, templates },
        Mutation: {
          saveEndpoint,
          deleteEndpoint,
          saveTemplate,
          deleteTemplate,
          deployBuild,
          rollback,
          createEnvironment,
          deleteEnvironment,
          deleteApp,
          setSecret,
          deleteSecret,
          createKey,
          revokeKey,
        },
        Account: account,
        App: application,
        Environment: environment,
        Endpoint: endpointFields,
        Key: keyFields,
        Template: templateFields,
        JSON: jsonScalar,
        Lenient: lenientScalar,
      },
    }),
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

/** The text of schema.graphql, which stays in src/ when the code runs from dist/. */
export function readSchema(): string {
  const beside = new URL("./schema.graphql", import.meta.url);
  const file = existsSync(beside) ? beside : new URL("../../../src/control-plane/schema.graphql", import.meta.url);
  return readFileSync(file, "utf8");
}
