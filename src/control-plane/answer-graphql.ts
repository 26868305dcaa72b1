/**
 * One GraphQL operation over HTTP: body → parse → limits → validate → execute → errors masked. What is refused here is answered in
 * GraphQL's form with a 200, as its clients expect.
 */
import type { IncomingMessage, ServerResponse } from "node:http";
import { type DocumentNode, type ExecutionResult, execute, GraphQLError, type GraphQLSchema, validate } from "graphql";
import { errorBody, SvcError } from "../domain/errors.ts";
import { GRAPHQL_ANSWER_MAX_CHARS, GRAPHQL_BODY_MAX_BYTES } from "../domain/limits.ts";
import type { RequestContext, SharedDeps } from "./context.ts";
import { makeSchema } from "./graphql.ts";
import { readJsonObject, sendJson } from "./http.ts";
import { limitProblem, parseBounded } from "./query-limits.ts";
import { createRequestLoader } from "./request-loader.ts";

/** What is known of who asks before the document is read. */
type Asker = Pick<RequestContext, "principal" | "address">;

interface Operation {
  readonly query: string;
  readonly variables: Readonly<Record<string, unknown>> | undefined;
  readonly operationName: string | undefined;
}

let schema: GraphQLSchema | undefined;

/** Rejects with TOO_LARGE when the body is. */
export async function answerGraphQL(
  deps: SharedDeps,
  request: IncomingMessage,
  response: ServerResponse,
  who: Asker,
): Promise<void> {
  schema ??= makeSchema();
  const { data, errors } = await run(schema, request, { ...deps, ...who, loader: createRequestLoader(deps.store) });
  const told = (cause: unknown) => deps.log.error("A management operation failed.", cause);
  sendJson(response, 200, { data, errors: errors?.map((error) => maskError(error, told)) });
}

async function run(schema: GraphQLSchema, request: IncomingMessage, context: RequestContext): Promise<ExecutionResult> {
  let operation: Operation;
  let document: DocumentNode;
  try {
    operation = operationOf(await readJsonObject(request, GRAPHQL_BODY_MAX_BYTES));
    document = parseBounded(operation.query);
  } catch (error) {
    if (error instanceof SvcError && error.code === "BAD_INPUT") return { errors: [new GraphQLError(error.message)] };
    if (error instanceof GraphQLError) return { errors: [error] };
    throw error;
  }
  const problem = limitProblem(document);
  if (problem !== undefined) return { errors: [new GraphQLError(problem)] };
  const errors = validate(schema, document);
  if (errors.length > 0) return { errors };
  const { variables, operationName } = operation;
  const result = await execute({ schema, document, contextValue: context, variableValues: variables, operationName });
  return charsUpTo(result.data, GRAPHQL_ANSWER_MAX_CHARS) < GRAPHQL_ANSWER_MAX_CHARS ? result : { errors: [TOO_LARGE] };
}

const TOO_LARGE = new GraphQLError(
  `The answer would have more than ${GRAPHQL_ANSWER_MAX_CHARS} characters. Ask for fewer fields, or for less at once.`,
);

/** How long its JSON is, about; not counted beyond `most`. To write down what one field may hold once for each of its names takes seconds. */
function charsUpTo(value: unknown, most: number): number {
  if (typeof value === "string") return value.length + 2;
  if (typeof value !== "object" || value === null) return 4;
  let chars = 2;
  for (const [key, each] of Object.entries(value)) {
    chars += (Array.isArray(value) ? 1 : key.length + 4) + charsUpTo(each, most - chars);
    if (chars >= most) break;
  }
  return chars;
}

const MEMBERS = new Set(["query", "variables", "operationName", "extensions"]);

/** Throws BAD_INPUT. */
function operationOf(body: Readonly<Record<string, unknown>>): Operation {
  const { query, variables, operationName } = body;
  const unknown = Object.keys(body).find((name) => body[name] !== null && !MEMBERS.has(name));
  if (unknown !== undefined)
    throw new SvcError("BAD_INPUT", `The body has an unexpected member ${JSON.stringify(unknown)}.`);
  if (typeof query !== "string") throw new SvcError("BAD_INPUT", 'The body lacks "query", the document as a text.');
  if (!isAbsent(variables) && (typeof variables !== "object" || Array.isArray(variables)))
    throw new SvcError("BAD_INPUT", '"variables" is not an object.');
  if (!isAbsent(operationName) && typeof operationName !== "string")
    throw new SvcError("BAD_INPUT", '"operationName" is not a text.');
  return { query, variables: variables as Operation["variables"], operationName: operationName as string | undefined };
}

function isAbsent(value: unknown): value is null | undefined {
  return value === null || value === undefined;
}

/**
 * What a caller gets to see of an error: our own messages with their code, GraphQL's findings about the document
 * as BAD_INPUT, and of anything else only that it happened (`unknown` is told the rest).
 */
function maskError(error: unknown, unknown: (cause: unknown) => void): GraphQLError {
  const cause = rootCause(error);
  const place = error instanceof GraphQLError ? error : undefined;
  if (cause instanceof GraphQLError) {
    return new GraphQLError(cause.message, { ...position(place ?? cause), extensions: { code: "BAD_INPUT" } });
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
