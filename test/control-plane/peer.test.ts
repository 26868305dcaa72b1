import assert from "node:assert/strict";
import { test } from "node:test";
import {
  buildSchema,
  type GraphQLInputType,
  getNamedType,
  isInputObjectType,
  isLeafType,
  isListType,
  isNonNullType,
} from "graphql";
import { readSchema } from "../../src/control-plane/graphql.ts";
import { manifest, resource } from "./builds.ts";
import { addWorker, startPlatform, type TestPlatform } from "./platform.ts";

const PEER = "query($name: String!) { peer(name: $name) { id name url kind environment } }";
const DEPLOY = "mutation($input: BuildInput!) { deployBuild(input: $input) { endpoints { id name } } }";

/** Resolves the endpoints' ids by name. */
async function deploy(platform: TestPlatform, environment: string, names: string[]): Promise<Record<string, string>> {
  const source = await platform.upload(Buffer.from("source"));
  const build = manifest(source, Object.fromEntries(names.map((name) => [name, resource(name)])));
  const { data, errors } = await platform.ask(DEPLOY, { input: { app: "shop", environment, manifest: build } });
  assert.equal(errors, undefined);
  const endpoints = data.deployBuild.endpoints as { id: string; name: string }[];
  return Object.fromEntries(endpoints.map(({ id, name }) => [name, id]));
}

/** Some value of the type, as a document writes it. */
function literal(type: GraphQLInputType): string {
  if (isNonNullType(type)) return literal(type.ofType);
  if (isListType(type)) return `[${literal(type.ofType)}]`;
  if (isInputObjectType(type)) {
    const required = Object.values(type.getFields()).filter((field) => isNonNullType(field.type));
    return `{${required.map((field) => `${field.name}: ${literal(field.type)}`).join(", ")}}`;
  }
  return { Int: "1", Float: "1", Boolean: "true", JSON: "{}" }[type.name] ?? '"x"';
}

/** A document for each operation of the schema. */
function everyOperation(): { name: string; document: string }[] {
  const schema = buildSchema(readSchema());
  return [schema.getQueryType()!, schema.getMutationType()!].flatMap((root) =>
    Object.values(root.getFields()).map((field) => {
      const required = field.args.filter((arg) => isNonNullType(arg.type));
      const args = required.map((arg) => `${arg.name}: ${literal(arg.type)}`).join(", ");
      const selection = isLeafType(getNamedType(field.type)) ? "" : " { __typename }";
      const call = `${field.name}${args === "" ? "" : `(${args})`}${selection}`;
      return { name: field.name, document: `${root.name.toLowerCase()} { ${call} }` };
    }),
  );
}

test("a worker's token finds the endpoints of its own environment by name", async (t) => {
  const platform = await startPlatform(t);
  await deploy(platform, "production", ["hello", "other"]);
  const staging = await deploy(platform, "staging", ["hello"]);
  const token = await addWorker(platform.store, staging.hello!);
  const peer = async (name: string) => (await platform.ask(PEER, { name }, token)).data.peer;
  assert.deepEqual(await peer("hello"), {
    id: staging.hello,
    name: "hello",
    url: `${platform.url}/v2/${staging.hello}`,
    kind: "queue",
    environment: "staging",
  });
  assert.equal(await peer("other"), null, "another environment's");
});

test("a worker's token may do nothing else, but sign URLs", async (t) => {
  const platform = await startPlatform(t);
  const { hello } = await deploy(platform, "staging", ["hello"]);
  const token = await addWorker(platform.store, hello!);
  const operations = everyOperation();
  assert.ok(operations.length > 15);
  for (const { name, document } of operations.filter((one) => !["peer", "signUrl"].includes(one.name))) {
    const { errors } = await platform.ask(document, {}, token);
    assert.deepEqual([name, errors?.[0]?.extensions.code], [name, "FORBIDDEN"], document);
  }
  const layer = `/layers/${"0".repeat(64)}`;
  for (const [method, path] of [
    ["GET", `/logs/${hello}`],
    ["HEAD", layer],
    ["PUT", layer],
  ] as const) {
    const answer = await fetch(platform.url + path, { method, headers: { authorization: `Bearer ${token}` } });
    assert.equal(answer.status, 403, path);
  }
});

test("a peer of an environment of svc run is found with and without its prefix", async (t) => {
  const platform = await startPlatform(t);
  const live = await deploy(platform, "live-me-0a1b", ["live-hello"]);
  const token = await addWorker(platform.store, live["live-hello"]!);
  for (const name of ["hello", "live-hello"]) {
    assert.equal((await platform.ask(PEER, { name }, token)).data.peer.name, "live-hello");
  }
  assert.equal((await platform.ask(PEER, { name: "live-me" }, token)).data.peer, null);
});

test("a peer is asked for with a worker's token or a key of one environment, not with others", async (t) => {
  const platform = await startPlatform(t);
  const { hello } = await deploy(platform, "staging", ["hello"]);
  const code = async (input: object | undefined) => {
    const make = "mutation($input: KeyInput!) { createKey(input: $input) { secret } }";
    const key = input && (await platform.ask(make, { input: { name: "k", ...input } })).data.createKey.secret;
    const { data, errors } = await platform.ask(PEER, { name: "hello" }, key);
    return errors?.[0]?.extensions.code ?? data.peer.id;
  };
  const staging = { app: "shop", environment: "staging" };
  assert.equal(await code(undefined), "BAD_INPUT");
  assert.equal(await code({ scopes: ["read"], ...staging }), hello);
  assert.equal(await code({ scopes: ["invoke"], ...staging }), "FORBIDDEN");
});
