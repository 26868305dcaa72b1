import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import path from "node:path";
import { describe, test } from "node:test";
import { ownMachineOnly } from "../pods.ts";
import { deployApi } from "./load-balanced/deployed.ts";
import { project, ROOT, startPlatform } from "./platform.ts";

describe("a call of a load-balanced endpoint", () => {
  const on = deployApi();

  const CONVERSIONS: [path: string, status: number, answer: unknown][] = [
    ["/items/7", 200, { item_id: 7, tag: [], limit: 10, sort: "up", q: null }],
    [
      "/items/7?tag=a&tag=b&limit=5&sort=down&q=yes",
      200,
      { item_id: 7, tag: ["a", "b"], limit: 5, sort: "down", q: true },
    ],
    [
      "/items/x?limit=y&sort=z",
      422,
      {
        detail: [
          ["path", "item_id", "int_parsing"],
          ["query", "limit", "int_parsing"],
          ["query", "sort", "literal_error"],
        ].map(([place, name, type]) => ({
          loc: [place, name],
          msg:
            type === "int_parsing"
              ? "Input should be a valid integer, unable to parse string as an integer"
              : "Input should be 'up' or 'down'",
          type,
        })),
      },
    ],
  ];
  for (const [target, status, answer] of CONVERSIONS) {
    test(`GET ${target} is bound and converted by annotation: ${status}`, async () => {
      const got = await on.platform.call(on.url.api + target);
      assert.deepEqual([got.status, got.json], [status, answer]);
    });
  }

  test("fields of a JSON body become numbers, enums and dataclasses; all problems are told at once", async () => {
    const fits = { n: "4", color: "red", item: { name: "pen", price: 2 } };
    const good = await on.platform.call(`${on.url.api}/fields`, { body: fits });
    assert.deepEqual(good.json, { n: 4, color: "red", item: { name: "pen", price: 2 }, ratio: 0.5 });
    const bad = await on.platform.call(`${on.url.api}/fields`, { body: { n: 1.5, color: "blue", item: {} } });
    assert.equal(bad.status, 422);
    assert.deepEqual(
      bad.json.detail.map((problem: { loc: string[]; type: string }) => [problem.loc.join("."), problem.type]),
      [
        ["body.n", "int_from_float"],
        ["body.color", "enum"],
        ["body.item.name", "missing"],
      ],
    );
  });

  test("the only model takes the whole body, bytes take it raw, a form and its files bind by name", async () => {
    const whole = await on.platform.call(`${on.url.api}/whole`, { body: { name: "pen" } });
    assert.deepEqual(whole.json, { name: "pen", price: 1.5 });
    const authorization = `Bearer ${on.platform.key}`;
    const raw = await fetch(`${on.url.api}/raw`, {
      method: "POST",
      headers: { authorization, "content-type": "image/png" },
      body: Buffer.from([0, 255, 10]),
    });
    assert.deepEqual([...new Uint8Array(await raw.arrayBuffer())], [0, 255, 10]);
    const form = new FormData();
    form.set("title", "grüße");
    form.set("n", "3");
    form.set("file", new Blob([new Uint8Array(200_000)]), "a.bin");
    const files = await fetch(`${on.url.api}/files`, { method: "POST", headers: { authorization }, body: form });
    assert.deepEqual(await files.json(), { title: "grüße", size: 200_000, filename: "a.bin", n: 3 });
  });

  const KINDS: [kind: string, status: number, type: string | null, text: string, header?: [string, string]][] = [
    ["dict", 200, "application/json", '{"a":1}'],
    ["list", 200, "application/json", "[1,2]"],
    ["str", 200, "application/json", '"text"'],
    ["none", 200, "application/json", "null"],
    ["bytes", 200, "application/octet-stream", "\u0000\ufffd"],
    ["status", 201, "application/json", '{"a":1}'],
    ["headers", 302, "application/json", '"moved"', ["location", "/x"]],
    ["response", 203, "text/html", "<p>", ["x-a", "b"]],
  ];
  for (const [kind, status, type, text, header] of KINDS) {
    test(`a returned ${kind} is answered as ${type}`, async () => {
      const authorization = `Bearer ${on.platform.key}`;
      const got = await fetch(`${on.url.api}/kind/${kind}`, { headers: { authorization }, redirect: "manual" });
      assert.deepEqual([got.status, got.headers.get("content-type"), await got.text()], [status, type, text]);
      if (header !== undefined) assert.equal(got.headers.get(header[0]), header[1]);
      assert.match(got.headers.get("x-svc-worker-id") ?? "", /^w-/);
      assert.match(got.headers.get("server-timing") ?? "", /^queue;dur=[\d.]+, boot;dur=[\d.]+, import.*, exec;dur=/);
    });
  }

  test("HEAD, OPTIONS, an unknown path and a wrong method are answered without a function", async () => {
    const get = await on.platform.call(`${on.url.api}/kind/dict`, { method: "HEAD" });
    assert.deepEqual([get.status, get.headers.get("content-length"), get.text], [200, "7", ""]);
    const options = await on.platform.call(`${on.url.api}/whole`, { method: "OPTIONS" });
    assert.deepEqual([options.status, options.headers.get("allow")], [204, "OPTIONS, POST"]);
    const missing = await on.platform.call(`${on.url.api}/nowhere`);
    assert.deepEqual([missing.status, missing.json.code], [404, "NOT_FOUND"]);
    const wrong = await on.platform.call(`${on.url.api}/whole`);
    assert.deepEqual(
      [wrong.status, wrong.json.code, wrong.headers.get("allow")],
      [405, "METHOD_NOT_ALLOWED", "OPTIONS, POST"],
    );
  });

  test("a raised exception is a 500 that keeps its reason for the log", async () => {
    const got = await on.platform.call(`${on.url.api}/raises`);
    assert.equal(got.status, 500);
    assert.doesNotMatch(got.text, /secret reason|Traceback/);
  });

  test("a generator is streamed as lines of JSON; one that fails in the middle breaks the answer off", async () => {
    const numbers = await on.platform.call(`${on.url.api}/numbers`);
    assert.equal(numbers.headers.get("content-type"), "application/x-ndjson");
    assert.equal(numbers.text, '{"number":0}\n{"number":1}\n{"number":2}\n');
    await assert.rejects(on.platform.call(`${on.url.api}/breaks`));
  });

  test("a large body arrives whole with its length; one over 30 MiB is refused by name", async () => {
    const got = await on.platform.call(`${on.url.api}/large?size=5000000`);
    assert.deepEqual([got.headers.get("content-length"), got.text.length], ["5000000", 5_000_000]);
    const over = await on.platform.call(`${on.url.api}/large?size=40000000`);
    assert.deepEqual([over.status, over.json.code], [502, "BAD_RESPONSE"]);
  });

  test("a request with no worker to come is answered 504 with the reason after the endpoint's own time", async () => {
    const asked = performance.now();
    const got = await on.platform.call(`${on.url.never}/`);
    assert.deepEqual([got.status, got.json.code], [504, "WORKER_WAIT_TIMEOUT"]);
    assert.ok(performance.now() - asked < 10_000);
    assert.match(got.json.detail, /1000 ms/);
  });

  test("sync functions with max_concurrency run at the same time on one worker", async () => {
    // None of them returns before all four are there.
    const all = await Promise.all(Array.from({ length: 4 }, () => on.platform.call(`${on.url.threads}/meet`)));
    for (const { status, text } of all) assert.equal(status, 200, text);
    assert.equal(new Set(all.map(({ json }) => json)).size, 1);
  });

  test("/openapi.json describes the routes, for those with the key only", async () => {
    assert.equal((await on.platform.call(`${on.url.api}/openapi.json`, { key: null })).status, 401);
    const { json } = await on.platform.call(`${on.url.api}/openapi.json`);
    assert.equal(json.openapi, "3.1.0");
    const item = json.paths["/items/{item_id}"].get;
    assert.equal(item.description, "One item.\n\nWith its tags.");
    assert.deepEqual(item.parameters.slice(0, 3), [
      { name: "item_id", in: "path", required: true, schema: { type: "integer" } },
      { name: "tag", in: "query", required: false, schema: { type: "array", items: { type: "string" }, default: [] } },
      { name: "limit", in: "query", required: false, schema: { type: "integer", default: 10 } },
    ]);
    const body = json.paths["/fields"].post.requestBody.content["application/json"].schema;
    assert.deepEqual(body.required, ["n", "color", "item"]);
    assert.deepEqual(body.properties.item, { $ref: "#/components/schemas/Item" });
    assert.deepEqual(json.components.schemas.Color, { type: "string", enum: ["red"], title: "Color" });
  });

  test("a page of an allowed origin may call: its preflight needs no key, other origins get nothing", async () => {
    const preflight = { "access-control-request-method": "POST", "access-control-request-headers": "authorization" };
    const ask = (origin: string) =>
      on.platform.call(`${on.url.api}/whole`, { method: "OPTIONS", key: null, headers: { origin, ...preflight } });
    const allowed = await ask("https://page.example");
    assert.equal(allowed.status, 204);
    assert.equal(allowed.headers.get("access-control-allow-origin"), "https://page.example");
    assert.equal(allowed.headers.get("access-control-allow-headers"), "authorization");
    const other = await ask("https://other.example");
    assert.deepEqual([other.status, other.headers.get("access-control-allow-origin")], [401, null]);
    for (const key of [undefined, null]) {
      const headers = { origin: "https://page.example" };
      const got = await on.platform.call(`${on.url.api}/kind/dict`, { key, headers });
      assert.equal(got.headers.get("access-control-allow-origin"), "https://page.example", `key ${key}`);
      assert.equal(got.headers.get("vary"), "Origin");
    }
  });
});

test("the tutorial's four routes answer bit for bit as documented", {
  skip: ownMachineOnly("it wants a GPU"),
}, async (t) => {
  const tutorial = await startPlatform(t);
  const files = Object.fromEntries(
    ["text_api.py", "sentiment.py"].map((file) => [
      file,
      readFileSync(path.join(ROOT, "examples/text-analysis", file), "utf8"),
    ]),
  );
  const deploy = await tutorial.svc(["deploy"], { cwd: project(t, files) });
  assert.equal(deploy.code, 0, deploy.stderr);
  const endpoints = await tutorial.endpoints();
  const base = (name: string) => endpoints.find((endpoint) => endpoint.name === name)!.url;

  const health = await tutorial.call(`${base("text_api")}/health`);
  assert.equal(health.text, '{"status":"healthy","service":"text-analysis","version":"1.0.0"}');
  assert.equal(health.headers.get("content-type"), "application/json");
  const info = await tutorial.call(`${base("text_api")}/info`);
  assert.deepEqual(Object.keys(info.json), ["name", "version", "endpoints"]);
  for (const route of info.json.endpoints) assert.deepEqual(Object.keys(route), ["method", "path", "description"]);
  const text = "Hello there! How are you? Fine.";
  const analyze = await tutorial.call(`${base("text_api")}/analyze`, { body: { text } });
  assert.equal(
    analyze.text,
    `{"text":"${text}","statistics":{"word_count":6,"character_count":31,"average_word_length":4.33,"sentence_count":3}}`,
  );
  const sentiment = await tutorial.call(`${base("sentiment")}/sentiment`, { body: { text: "What a wonderful day" } });
  assert.equal(
    sentiment.text,
    '{"text":"What a wonderful day","sentiment":{"label":"POSITIVE","score":0.8808},"device":"CPU"}',
  );
});
