import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import {
  buildSchema,
  type GraphQLField,
  type GraphQLInputField,
  isInputObjectType,
  isObjectType,
  isSpecifiedScalarType,
  parse,
  validate,
} from "graphql";
import { readSchema } from "../../src/control-plane/graphql.ts";
import { GRAPHQL_DEPTH_MAX, GRAPHQL_FIELDS_MAX, GRAPHQL_TOKENS_MAX } from "../../src/domain/limits.ts";

/** What clients of the same family ask besides has a page of its own, with sections of the same names. */
const reference = ["graphql.md", "compatible-apis.md"]
  .map((page) => readFileSync(new URL(`../../docs/reference/${page}`, import.meta.url), "utf8"))
  .join("\n");
const schema = buildSchema(readSchema());

const sections = new Map<string, string>();
for (const text of reference.split(/^### /m).slice(1)) {
  const name = text.slice(0, text.indexOf("\n"));
  sections.set(name, `${sections.get(name) ?? ""}${text.replace(/^##? [\s\S]*/m, "")}`);
}

const ROOTS = ["Query", "Mutation"];

function described(): { name: string; lines: string[] }[] {
  return Object.values(schema.getTypeMap()).flatMap((type) => {
    if (type.name.startsWith("__") || isSpecifiedScalarType(type)) return [];
    if (!isObjectType(type) && !isInputObjectType(type)) return [{ name: type.name, lines: [] }];
    const fields: (GraphQLField<unknown, unknown> | GraphQLInputField)[] = Object.values(type.getFields());
    if (ROOTS.includes(type.name)) return fields.map((field) => ({ name: field.name, lines: [signature(field)] }));
    return [{ name: type.name, lines: fields.map((field) => `| \`${field.name}\` | \`${field.type}\` |`) }];
  });
}

function signature(field: GraphQLField<unknown, unknown> | GraphQLInputField): string {
  const args = "args" in field ? field.args.map(({ name, type }) => `${name}: ${type}`).join(", ") : "";
  return `\`${field.name}${args === "" ? "" : `(${args})`}: ${field.type}\``;
}

test("graphql.md and compatible-apis.md describe every operation, type and field of the schema, and nothing else", () => {
  for (const { name, lines } of described()) {
    const section = sections.get(name);
    assert.ok(section !== undefined, `there is no section "### ${name}"`);
    const text = section.replace(/ +\|/g, " |");
    for (const line of lines) assert.ok(text.includes(line), `"### ${name}" lacks: ${line}`);
    const rows = text.match(/^\| `/gm) ?? [];
    const isOperation = /^[a-z]/.test(name);
    assert.equal(rows.length, isOperation ? 0 : lines.length, `"### ${name}" has rows that the schema lacks`);
  }
  assert.deepEqual(
    [...sections.keys()].sort(),
    described()
      .map(({ name }) => name)
      .sort(),
  );
});

test("every GraphQL example of the reference is valid", () => {
  const examples = [...reference.matchAll(/```graphql\n([\s\S]*?)```/g)].map(([, text]) => text!);
  assert.ok(examples.length >= 6);
  for (const example of examples) assert.deepEqual(validate(schema, parse(example)), [], example);
});

test("the reference gives the limits of a document", () => {
  const limits = `${GRAPHQL_TOKENS_MAX.toLocaleString("en")} tokens, ${GRAPHQL_FIELDS_MAX} fields`;
  assert.ok(reference.includes(limits), limits);
  assert.ok(reference.includes(`${GRAPHQL_DEPTH_MAX} levels`));
});
