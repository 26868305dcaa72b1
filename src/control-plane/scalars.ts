import { GraphQLError, GraphQLScalarType, Kind, valueFromASTUntyped } from "graphql";

/** Any JSON value, also written out in the document. */
export const jsonScalar = new GraphQLScalarType({
  name: "JSON",
  parseValue: (value) => value,
  parseLiteral: (node, variables) => valueFromASTUntyped(node, variables),
});

/** `QUEUE_DELAY` and `"QUEUE_DELAY"` are the same. */
export const lenientScalar = new GraphQLScalarType<string, string>({
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
