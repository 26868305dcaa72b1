import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { createHash, randomBytes } from "node:crypto";
import { mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { buffer, json } from "node:stream/consumers";
import { after, describe, test } from "node:test";
import { promisify } from "node:util";
import { buildSchema, parse, validate } from "graphql";
import { Administration } from "../../src/client/administration.ts";
import { ControlPlane } from "../../src/client/control-plane.ts";
import { SvcError } from "../../src/domain/errors.ts";
import { closedPort, serve } from "./serve.ts";

const SCHEMA = new URL("../../src/control-plane/schema.graphql", import.meta.url);

function rejects(promise: Promise<unknown>, code: string, message?: RegExp): Promise<void> {
  return assert.rejects(promise, (error) => {
    assert.ok(error instanceof SvcError);
    assert.equal(error.code, code);
    if (message !== undefined) assert.match(`${error.message} ${error.help}`, message);
    return true;
  });
}

describe("the management API's client", () => {
  test("a command that asks a platform loads nothing of fetch, which would take longer than its request", async () => {
    const url = await serve((_, response) => void response.end('{"data":{"myself":{}}}'));
    const module = JSON.stringify(new URL("../../src/client/control-plane.ts", import.meta.url).href);
    const program = `const { ControlPlane } = await import(${module});
await new ControlPlane({ url: ${JSON.stringify(url)}, apiKey: "svc_k" }).account();
console.log(JSON.stringify(process.moduleLoadList.map((name) => name.split(" ").at(-1))));`;
    const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "--eval", program]);
    const loaded = JSON.parse(stdout) as string[];
    assert.ok(loaded.includes("_http_client"));
    assert.deepEqual(
      loaded.filter((name) => name.includes("undici")),
      [],
    );
  });

  test("every operation is valid in the schema and carries the key as a Bearer token, not in the URL", async () => {
    const schema = buildSchema(await readFile(SCHEMA, "utf8"));
    const documents: string[] = [];
    const url = await serve(async (request, response) => {
      assert.equal(request.headers.authorization, "Bearer svc_k");
      assert.equal(request.url, "/graphql");
      documents.push(((await json(request)) as { query: string }).query);
      response.end('{"data":{"myself":{},"app":null}}');
    });
    const client = new ControlPlane({ url, apiKey: "svc_k" });
    const build = { app: "a", environment: "e", manifest: {} as never };
    await client.account();
    await client.endpoints();
    await client.endpoint("x");
    await client.apps();
    await client.environmentNames("a");
    await client.app("a");
    await client.planBuild(build);
    await client.deployBuild(build);
    await client.saveEndpoint({ id: "x", workersMin: 0 });
    await client.deleteEndpoint("x");
    assert.equal(documents.length, 10);
    for (const document of documents) assert.deepEqual(validate(schema, parse(document)), [], document);
  });

  test("every administration document is valid against the management schema", async () => {
    const schema = buildSchema(await readFile(SCHEMA, "utf8"));
    const documents: string[] = [];
    const url = await serve(async (request, response) => {
      documents.push(((await json(request)) as { query: string }).query);
      response.end('{"data":{"myself":{},"app":null,"rollback":{},"mayDeploy":[],"endpoint":null}}');
    });
    const administration = new Administration({ url, apiKey: "svc_k" });
    const place = { app: "a", environment: "e" };
    await administration.builds(place);
    await administration.createEnvironment(place);
    await administration.deleteEnvironment(place);
    await administration.deleteApp("a");
    await administration.secrets(place);
    await administration.setSecret(place, "T", "v");
    await administration.deleteSecret(place, "T");
    await administration.keys();
    await administration.createKey({ name: "k", scopes: ["read"] });
    await administration.revokeKey("x");
    const controlPlane = new ControlPlane({ url, apiKey: "svc_k" });
    await controlPlane.decisions("x");
    await controlPlane.rollback(place);
    await controlPlane.mayDeploy(place, [{ name: "a", workersMax: 3 }]);
    assert.equal(documents.length, 13);
    for (const document of documents) assert.deepEqual(validate(schema, parse(document)), [], document);
  });

  test("a refused connection names the address and the next command", async () => {
    const url = await closedPort();
    const client = new ControlPlane({ url, apiKey: "svc_k" });
    await rejects(
      client.account(),
      "PLATFORM_UNREACHABLE",
      new RegExp(`${url}.*connection refused.*svc platform start`),
    );
  });

  test("401 becomes MISSING_KEY without a key and WRONG_KEY with one, and never shows the whole key", async () => {
    const url = await serve((_request, response) => response.writeHead(401).end('{"code":"WRONG_KEY"}'));
    const help = /PLATFORM_API_KEY or run svc login/;
    await rejects(new ControlPlane({ url, apiKey: undefined }).account(), "MISSING_KEY", help);
    const secret = "svc_0123456789abcdef";
    await assert.rejects(new ControlPlane({ url, apiKey: secret }).account(), (error: SvcError) => {
      assert.equal(error.code, "WRONG_KEY");
      assert.match(error.help ?? "", help);
      assert.ok(!error.message.includes(secret));
      return true;
    });
  });

  test("GraphQL errors keep their code, and all messages are shown", async () => {
    const errors = [
      { message: "First.", extensions: { code: "QUOTA_EXCEEDED" } },
      { message: "Second.", extensions: { code: "INVALID_NAME" } },
    ];
    const url = await serve((_request, response) => response.end(JSON.stringify({ data: null, errors })));
    await rejects(new ControlPlane({ url, apiKey: "k" }).account(), "QUOTA_EXCEEDED", /First\.\nSecond\./);
  });

  test("something that is no platform is named as such", async () => {
    const url = await serve((_request, response) => response.writeHead(200).end("<html>hello</html>"));
    await rejects(new ControlPlane({ url, apiKey: "k" }).account(), "INTERNAL", /not as a svc platform does/);
  });
});

describe("uploading a layer", async () => {
  const directory = await mkdtemp(join(tmpdir(), "svc-upload-"));
  after(() => rm(directory, { recursive: true, force: true }));
  const bytes = randomBytes(5_000_000);
  const digest = createHash("sha256").update(bytes).digest("hex");
  const path = join(directory, digest);
  await writeFile(path, bytes);

  test("streams the file with its length and the key, and reports progress up to the whole", async () => {
    let received: Buffer | undefined;
    const url = await serve(async (request, response) => {
      assert.equal(request.url, `/layers/${digest}`);
      if (request.method === "HEAD") return response.writeHead(404).end();
      assert.equal(request.method, "PUT");
      assert.equal(request.headers["content-length"], String(bytes.length));
      assert.equal(request.headers.authorization, "Bearer svc_k");
      received = await buffer(request);
      response.end("{}");
    });
    const progress: number[] = [];
    await new ControlPlane({ url, apiKey: "svc_k" }).uploadLayer(digest, path, {
      onProgress: (sent) => progress.push(sent),
    });
    assert.ok(received?.equals(bytes));
    assert.equal(progress.at(-1), bytes.length);
    assert.ok(progress.length > 1);
  });

  test("a refusal before the end of the bytes is reported as the platform worded it", async () => {
    const body = JSON.stringify({ code: "TOO_LARGE", detail: "A layer has at most 10 bytes." });
    const url = await serve((request, response) => {
      response.writeHead(413, { connection: "close" }).end(body);
      request.resume();
    });
    await rejects(new ControlPlane({ url, apiKey: "k" }).uploadLayer(digest, path), "TOO_LARGE", /at most 10 bytes/);
  });

  test("a wrong key and a lost connection have their own errors", async () => {
    const refusing = await serve((request, response) => {
      request.resume();
      response.writeHead(401).end();
    });
    await rejects(new ControlPlane({ url: refusing, apiKey: "k" }).uploadLayer(digest, path), "WRONG_KEY");
    const cutting = await serve((request) => request.socket.destroy());
    const cut = new ControlPlane({ url: cutting, apiKey: "k" }).uploadLayer(digest, path, { patienceMs: 0 });
    await rejects(cut, "PLATFORM_UNREACHABLE");
  });
});
