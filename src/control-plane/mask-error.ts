import { GraphQLError } from "graphql";
import { errorBody, SvcError } from "../domain/errors.ts";

/**
 * What a caller gets to see of an error: our own messages with their code, GraphQL's findings about the document
 * as BAD_INPUT, and of anything else only that it happened (`unknown` is told the rest).
 */
export function maskError(error: unknown, unknown: (cause: unknown) => void): GraphQLError {
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
