import assert from "node:assert/strict";
import { once } from "node:events";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { tmpdir } from "node:os";
import path from "node:path";
import { test } from "node:test";
import { getIntrospectionQuery } from "graphql";
import { ensureFirstKey } from "../../src/control-plane/keys.ts";
import { newSecret } from "../../src/domain/api-key.ts";
import { GRAPHQL_BODY_MAX_BYTES } from "../../src/domain/limits.ts";
import { startPlatform, type TestPlatform } from "./platform.ts";
import { openStores } from "./stores.ts";

const CREATE_KEY =
  "mutation($input: KeyInput!) { createKey(input: $input) { secret key { id prefix scopes expiresAt } } }";

async function createKey(platform: TestPlatform, scopes: string[], expiresInSeconds?: number) {
  const { data } = await platform.ask(CREATE_KEY, { input: { name: scopes.join("+"), scopes, expiresInSeconds } });
  return data.createKey as { secret: string; key: { id: string; prefix: string } };
}

test("a missing or wrong key is answered 401, in the platform's and in GraphQL's form", async (t) => {
  const { url } = await startPlatform(t);
  for (const [query, code] of [
    ["", "MISSING_KEY"],
    ["?api_key=svc_wrong", "WRONG_KEY"],
  ]) {
    const response = await fetch(`${url}/graphql${query}`, {
      method: "POST",
      body: '{"query":"{ myself { version } }"}',
    });
    const body = (await response.json()) as { code: string; error: string; errors: object[] };
    assert.equal(response.status, 401);
    assert.equal(response.headers.get("www-authenticate"), "Bearer");
    assert.equal(body.code, code);
    assert.deepEqual(body.errors, [{ message: body.error, extensions: { code } }]);
    assert.ok(!JSON.stringify(body).includes("svc_wrong"));
  }
});

test("the key is taken from api_key, from a Bearer header and from the bare header", async (t) => {
  const { url, adminKey } = await startPlatform(t);
  const ways: [string, Record<string, string>][] = [
    [`?api_key=${adminKey}`, {}],
    ["", { authorization: `Bearer ${adminKey}` }],
    ["", { authorization: adminKey }],
  ];
  for (const [query, headers] of ways) {
    const response = await fetch(`${url}/graphql${query}`, {
      method: "POST",
      headers: { "content-type": "application/json", ...headers },
      body: JSON.stringify({ query: "{ myself { version } }" }),
    });
    assert.equal(response.status, 200);
    assert.deepEqual(await response.json(), { data: { myself: { version: "0.1.0" } } });
  }
});

test("a key does what its scopes allow and nothing else", async (t) => {
  const platform = await startPlatform(t);
  const save = 'mutation { saveEndpoint(input: {name: "a", templateId: "t", gpuIds: "ANY"}) { id } }';
  const rights = [
    { scope: "read", look: true, save: false },
    { scope: "deploy", look: true, save: true },
    { scope: "invoke", look: false, save: false },
  ];
  for (const { scope, look, save: maySave } of rights) {
    const { secret } = await createKey(platform, [scope]);
    const code = async (query: string) => (await platform.ask(query, {}, secret)).errors?.[0]?.extensions.code;
    assert.equal(await code("{ myself { endpoints { id } } }"), look ? undefined : "FORBIDDEN", scope);
    assert.equal(await code("{ apps { name } }"), look ? undefined : "FORBIDDEN", scope);
    assert.equal(await code(save), maySave ? undefined : "FORBIDDEN", scope);
    assert.equal(await code("{ myself { keys { id } } }"), "FORBIDDEN", scope);
    assert.equal(await code('mutation { createKey(input: {name: "x", scopes: ["admin"]}) { secret } }'), "FORBIDDEN");
    assert.equal(
      await code('mutation { deleteEndpoint(id: "x") }'),
      maySave ? "ENDPOINT_NOT_FOUND" : "FORBIDDEN",
      scope,
    );
  }
});

test("a created key works at once, is shown once, and a revoked one stops at once", async (t) => {
  const platform = await startPlatform(t);
  const { secret, key } = await createKey(platform, ["read"]);
  assert.match(secret, /^svc_[\w-]{43}$/);
  assert.ok(secret.startsWith(key.prefix));
  assert.equal((await platform.ask("{ apps { name } }", {}, secret)).status, 200);
  const { data } = await platform.ask("{ myself { keys { id name prefix scopes createdAt expiresAt } } }");
  assert.ok(!JSON.stringify(data).includes(secret));
  assert.equal(data.myself.keys.length, 2);
  assert.ok(!JSON.stringify(await platform.store.keys.list()).includes(secret));

  await platform.ask(`mutation { revokeKey(id: "${key.id}") }`);
  assert.equal((await platform.ask("{ apps { name } }", {}, secret)).status, 401);
  const again = await platform.ask(`mutation { revokeKey(id: "${key.id}") }`);
  assert.equal(again.errors?.[0]?.extensions.code, "NOT_FOUND");
});

test("a key's input is checked: all problems in one error", async (t) => {
  const platform = await startPlatform(t);
  const { errors } = await platform.ask(CREATE_KEY, { input: { name: " ", scopes: ["root"], expiresInSeconds: 0 } });
  assert.equal(errors?.[0]?.extensions.code, "BAD_INPUT");
  for (const text of ["name", "root", "expiresInSeconds"]) assert.ok(errors[0]!.message.includes(text), text);
});

test("the first key is made once, and the last admin key cannot be revoked", async (t) => {
  const platform = await startPlatform(t);
  assert.equal(await ensureFirstKey(platform.store), undefined);
  const [first] = await platform.store.keys.list();
  const revoke = () => platform.ask(`mutation { revokeKey(id: "${first!.id}") }`);
  assert.equal((await revoke()).errors?.[0]?.extensions.code, "CONFLICT");
  await createKey(platform, ["admin"]);
  assert.equal((await revoke()).errors, undefined);
  assert.equal((await platform.ask("{ apps { name } }")).status, 401);
});

test("a first key that was made elsewhere is taken from its file, while none is there that can do everything", async (t) => {
  const dir = mkdtempSync(path.join(tmpdir(), "svc-first-key-"));
  t.after(() => rmSync(dir, { recursive: true }));
  const { store } = await openStores(path.join(dir, "store"));
  const file = path.join(dir, "key");
  for (const [text, words] of [
    [undefined, /no such file/],
    ["", /is no API key/],
    ["svc_short", /is no API key/],
    [`svc_${"a".repeat(43)} b`, /is no API key/],
  ] as const) {
    if (text !== undefined) writeFileSync(file, text);
    await assert.rejects(ensureFirstKey(store, Date.now, file), { code: "CONFIG_INVALID", message: words });
  }
  assert.deepEqual(await store.keys.list(), []);
  const { secret, hash } = newSecret("key");
  writeFileSync(file, `${secret}\n`);
  assert.equal(await ensureFirstKey(store, Date.now, file), undefined, "it is not shown");
  assert.deepEqual(
    (await store.keys.list()).map((key) => [key.hash, key.scopes]),
    [[hash, ["admin"]]],
  );
  rmSync(file);
  await ensureFirstKey(store, Date.now, file);
  assert.equal((await store.keys.list()).length, 1);
});

test("introspection is on", async (t) => {
  const platform = await startPlatform(t);
  const { data, errors } = await platform.ask(getIntrospectionQuery());
  assert.equal(errors, undefined);
  assert.ok(data.__schema.types.some((type: { name: string }) => type.name === "EndpointInput"));
});

test("documents that are too deep, too wide or too long are refused before they cost anything", async (t) => {
  const platform = await startPlatform(t);
  const refused = async (query: string) => {
    const { data, errors } = await platform.ask(query);
    assert.ok(data === undefined || data === null);
    assert.equal(errors![0]!.extensions.code, "BAD_INPUT");
    return errors![0]!.message;
  };
  assert.match(await refused(`{ ${"a { ".repeat(11)} b ${"}".repeat(11)} }`), /12 levels deep/);
  assert.match(
    await refused(`{ ${Array.from({ length: 251 }, (_, i) => `a${i}: myself { version }`).join(" ")} }`),
    /502 fields/,
  );
  const doubling = Array.from({ length: 30 }, (_, i) => `fragment f${i} on Account { ...f${i + 1} ...f${i + 1} }`);
  assert.match(
    await refused(`{ myself { ...f0 } } ${doubling.join(" ")} fragment f30 on Account { version }`),
    /selects \d+ fields/,
  );
  assert.match(await refused("{ a ".repeat(9_000)), /nested too deeply/);
  assert.match(await refused(`{ ${"a ".repeat(20_001)} }`), /more tha. 20000 tokens/);
  assert.match(await refused("{ myself { ...f } } fragment f on Account { ...f }"), /Cannot spread fragment/);
  assert.deepEqual(platform.logged, []);
});

test("a body over the limit is answered 413, announced or not", async (t) => {
  const { url, adminKey } = await startPlatform(t);
  const body = Buffer.alloc(GRAPHQL_BODY_MAX_BYTES + 1, " ");
  const chunks = new ReadableStream({
    start(controller) {
      controller.enqueue(body);
      controller.close();
    },
  });
  for (const sent of [body, chunks]) {
    const response = await fetch(`${url}/graphql?api_key=${adminKey}`, {
      method: "POST",
      body: sent,
      duplex: "half",
    } as RequestInit);
    assert.equal(response.status, 413);
    await response.text();
  }
});

test("what fails inside stays inside: the caller learns no details and the log no key", async (t) => {
  const platform = await startPlatform(t);
  platform.store.endpoints.list = () => Promise.reject(new Error("the disk at /secret/place is gone"));
  const { status, data, errors } = await platform.ask("{ myself { version endpoints { id } } }");
  assert.equal(status, 200);
  assert.equal(data, null);
  assert.deepEqual(
    errors!.map(({ message, extensions }) => ({ message, extensions })),
    [{ message: "Something failed inside the platform.", extensions: { code: "INTERNAL" } }],
  );
  assert.equal(platform.logged.length, 1);
  assert.match(platform.logged[0]!, /the disk at/);
  assert.ok(!platform.logged[0]!.includes(platform.adminKey));
});

test("a body is read as JSON whatever its content type says", async (t) => {
  const { url, adminKey } = await startPlatform(t);
  for (const type of ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=utf-8"]) {
    const response = await fetch(`${url}/graphql?api_key=${adminKey}`, {
      method: "POST",
      headers: { "content-type": type },
      body: JSON.stringify({ query: "{ myself { workersQuota } }" }),
    });
    assert.deepEqual(await response.json(), { data: { myself: { workersQuota: 30 } } });
  }
  const query = "{ myself { id } }";
  const wrong: [string, RegExp][] = [
    ["{broken", /not a JSON object/],
    ["[]", /not a JSON object/],
    ["{}", /lacks "query"/],
    [JSON.stringify({ query: { myself: {} } }), /lacks "query"/],
    [JSON.stringify({ query, variables: [] }), /"variables" is not an object/],
    [JSON.stringify({ query, operationName: 1 }), /"operationName" is not a text/],
    [JSON.stringify({ query, operationName: "other" }), /other/],
    [JSON.stringify({ query, queries: [] }), /unexpected member "queries"/],
  ];
  for (const [body, words] of wrong) {
    const answer = await fetch(`${url}/graphql?api_key=${adminKey}`, { method: "POST", body });
    assert.equal(answer.status, 200, body);
    const { errors } = (await answer.json()) as { errors: { message: string; extensions: object }[] };
    assert.match(errors[0]!.message, words);
    assert.deepEqual(errors[0]!.extensions, { code: "BAD_INPUT" });
  }
});

test("GET / tells that the platform is up; other paths and methods get the error body", async (t) => {
  const { url } = await startPlatform(t);
  const health = await fetch(url);
  assert.deepEqual(await health.json(), { status: "ok", service: "svc platform", version: "0.1.0" });
  const unknown = await fetch(`${url}/nope?api_key=svc_secret`);
  assert.equal(unknown.status, 404);
  const body = (await unknown.json()) as { code: string; error: string };
  assert.equal(body.code, "NOT_FOUND");
  assert.ok(!body.error.includes("svc_secret"));
  const get = await fetch(`${url}/graphql`);
  assert.equal(get.status, 405);
  assert.equal(get.headers.get("allow"), "POST");
});

test("A Host header that is no host does not trouble a query", async (t) => {
  const { url, adminKey } = await startPlatform(t);
  const headers = { host: "lt: localhost", "content-type": "application/json", authorization: `Bearer ${adminKey}` };
  const sent = httpRequest(`${url}/graphql`, { method: "POST", headers });
  sent.end(JSON.stringify({ query: "{ myself { id } }" }));
  const [answer] = (await once(sent, "response")) as [IncomingMessage];
  answer.resume();
  assert.equal(answer.statusCode, 200);
});
