/**
 * Bounds on a document, applied before it is validated: tokens while it is parsed, then depth and fields with every
 * fragment spread out. Introspection has GraphQL's own depth rule and is not counted in depth.
 */
import {
  type DocumentNode,
  type FragmentDefinitionNode,
  GraphQLError,
  Kind,
  parse,
  type SelectionSetNode,
} from "graphql";
import { GRAPHQL_DEPTH_MAX, GRAPHQL_FIELDS_MAX, GRAPHQL_TOKENS_MAX } from "../domain/limits.ts";

interface Weight {
  readonly fields: number;
  readonly depth: number;
}

const NOTHING: Weight = { fields: 0, depth: 0 };

/** Throws a GraphQLError. The parser recurses: a document can be too deep for it before anything can be counted. */
export function parseBounded(text: string): DocumentNode {
  try {
    return parse(text, { maxTokens: GRAPHQL_TOKENS_MAX });
  } catch (error) {
    if (error instanceof RangeError) throw new GraphQLError("The query is nested too deeply.");
    throw error;
  }
}

/** Why the document is too large; undefined when it is not. */
export function limitProblem(document: DocumentNode): string | undefined {
  const fragments = new Map<string, FragmentDefinitionNode>();
  for (const node of document.definitions) {
    if (node.kind === Kind.FRAGMENT_DEFINITION) fragments.set(node.name.value, node);
  }
  const weighed = new Map<string, Weight>();
  for (const node of document.definitions) {
    if (node.kind !== Kind.OPERATION_DEFINITION) continue;
    const { fields, depth } = weigh(node.selectionSet, fragments, weighed);
    if (depth > GRAPHQL_DEPTH_MAX)
      return `The query is ${depth} levels deep; at most ${GRAPHQL_DEPTH_MAX} are allowed.`;
    if (fields > GRAPHQL_FIELDS_MAX) {
      return `The query selects ${fields} fields; at most ${GRAPHQL_FIELDS_MAX} are allowed.`;
    }
  }
  return undefined;
}

function weigh(
  selectionSet: SelectionSetNode,
  fragments: ReadonlyMap<string, FragmentDefinitionNode>,
  weighed: Map<string, Weight>,
): Weight {
  let fields = 0;
  let depth = 0;
  for (const node of selectionSet.selections) {
    let weight = NOTHING;
    if (node.kind === Kind.FRAGMENT_SPREAD) weight = weighFragment(node.name.value, fragments, weighed);
    else if (node.selectionSet !== undefined) weight = weigh(node.selectionSet, fragments, weighed);
    if (node.kind === Kind.FIELD) {
      const introspects = node.name.value.startsWith("__");
      weight = { fields: weight.fields + 1, depth: introspects ? 1 : weight.depth + 1 };
    }
    fields += weight.fields;
    depth = Math.max(depth, weight.depth);
  }
  return { fields, depth };
}

/** A fragment that spreads itself weighs nothing the second time: validation refuses it afterwards. */
function weighFragment(
  name: string,
  fragments: ReadonlyMap<string, FragmentDefinitionNode>,
  weighed: Map<string, Weight>,
): Weight {
  const known = weighed.get(name);
  if (known !== undefined) return known;
  weighed.set(name, NOTHING);
  const fragment = fragments.get(name);
  const weight = fragment === undefined ? NOTHING : weigh(fragment.selectionSet, fragments, weighed);
  weighed.set(name, weight);
  return weight;
}
