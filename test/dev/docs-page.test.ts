import assert from "node:assert/strict";
import { connect } from "node:net";
import { describe, type TestContext, test } from "node:test";
import { temporaryFolder, writeFiles } from "../build/project.ts";
import { type DocsServer, startDocs } from "./docs-server.ts";

const WORKER = `from svc import Endpoint

@Endpoint(name="hello")
def hello(name: str = "world"):
    """Greets."""
    return {"message": name}
`;

async function explorer(t: TestContext): Promise<DocsServer & { folder: string }> {
  const folder = temporaryFolder(t);
  writeFiles(folder, { "hello.py": WORKER });
  return { ...(await startDocs(t, folder)), folder };
}

/** A request with a path that fetch would tidy up. */
function raw(url: string, line: string): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(Number(new URL(url).port), "localhost", () => {
      socket.end(`${line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n`);
    });
    let answer = "";
    socket.on("data", (chunk) => {
      answer += chunk;
    });
    socket.on("end", () => resolve(answer));
    socket.on("error", reject);
  });
}

describe("GET /docs", () => {
  test("is a page whose every part comes from this server, under a strict policy", async (t) => {
    const { url } = await explorer(t);
    const seen = new Set<string>();
    const visit = async (path: string) => {
      if (seen.has(path)) return;
      seen.add(path);
      const response = await fetch(url + path);
      assert.equal(response.status, 200, path);
      const policy = response.headers.get("content-security-policy")!;
      assert.match(policy, /default-src 'none'; script-src 'self'; style-src 'self'/);
      assert.match(policy, /frame-ancestors 'none'/);
      assert.doesNotMatch(policy, /unsafe|https?:/);
      assert.equal(response.headers.get("x-content-type-options"), "nosniff");
      const text = await response.text();
      const isOurs = !path.includes("swagger");
      for (const match of text.matchAll(/(?:src|href)="([^"]+)"|url\("([^"]+)"\)|from "\.\/([^"]+)"/g)) {
        const target = match[1] ?? match[2] ?? `/docs/${match[3]}`;
        if (isOurs && target !== "/docs/openapi.json") await visit(target);
      }
      if (isOurs) assert.doesNotMatch(text, /https?:\/\/(?!www\.w3\.org)/, path);
    };
    await visit("/docs");
    const names = [...seen].map((path) => path.replace(/^\/docs\/?|\?.*$/g, "")).filter((name) => name !== "");
    assert.deepEqual([...new Set(names)].sort(), [
      "answer.css",
      "answer.js",
      "calls.js",
      "code-examples.js",
      "explorer.css",
      "header.css",
      "header.js",
      "history.js",
      "icon.svg",
      "inputs.css",
      "main.js",
      "repeat.js",
      "swagger-ui-bundle.js",
      "swagger-ui.css",
    ]);
  });

  test("keeps what it has: parts with their digest for ever, everything else is asked for again", async (t) => {
    const { url } = await explorer(t);
    const html = await (await fetch(`${url}/docs/`)).text();
    const bundle = /\/docs\/swagger-ui-bundle\.js\?v=[0-9a-f]{16}/.exec(html)![0];
    const first = await fetch(url + bundle);
    assert.equal(first.headers.get("content-type"), "text/javascript; charset=utf-8");
    assert.equal(first.headers.get("cache-control"), "max-age=31536000, immutable");
    for (const path of [
      "/docs",
      "/docs/openapi.json",
      "/openapi.json",
      "/docs/main.js",
      "/docs/swagger-ui-bundle.js?v=0000000000000000",
    ]) {
      const answer = await fetch(url + path);
      assert.equal(answer.headers.get("cache-control"), "no-cache", path);
      const etag = answer.headers.get("etag")!;
      const again = await fetch(url + path, { headers: { "if-none-match": etag } });
      assert.deepEqual([again.status, await again.text()], [304, ""]);
    }
    const head = await fetch(`${url}/docs`, { method: "HEAD" });
    assert.deepEqual([head.status, await head.text()], [200, ""]);
    assert.equal((await fetch(`${url}/docs/changes`, { method: "HEAD" })).status, 200, "and ends");
    assert.equal(Number(head.headers.get("content-length")), Buffer.byteLength(html));
  });

  test("gives out its own files and no others", async (t) => {
    const { url } = await explorer(t);
    for (const path of [
      "/docs/package.json",
      "/docs/swagger-ui.js",
      "/docs/constructor",
      "/docs/../docs/openapi.ts",
      "/docs/..%2f..%2fpackage.json",
      "/docs/%2e%2e/openapi.ts",
      "/docs/explorer/main.js",
      "/docs//main.js",
      "/docsx",
      "/DOCS",
    ]) {
      assert.match(await raw(url, `GET ${path}`), /^HTTP\/1\.1 404 /, path);
    }
    for (const method of ["POST", "PUT", "DELETE", "OPTIONS"]) {
      assert.match(await raw(url, `${method} /docs`), /^HTTP\/1\.1 404 /, `${method} is left to others`);
    }
  });

  test("tells open pages when the code changed, and what is wrong with a change that cannot run", async (t) => {
    const { url, changed, folder } = await explorer(t);
    const response = await fetch(`${url}/docs/changes`);
    assert.equal(response.headers.get("content-type"), "text/event-stream");
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    assert.equal((await reader.read()).value, ": open\n\n");
    const document = async () => (await fetch(`${url}/docs/openapi.json`)).json() as Promise<{ paths: object }>;
    assert.ok("/hello/runsync" in (await document()).paths);

    await changed({ problem: "hello.py:3: invalid syntax" });
    assert.equal((await reader.read()).value, 'data: {"problem":"hello.py:3: invalid syntax"}\n\n');
    assert.ok("/hello/runsync" in (await document()).paths, "the earlier code still answers");
    const later = (await fetch(`${url}/docs/changes`)).body!.pipeThrough(new TextDecoderStream()).getReader();
    let told = "";
    while (!told.includes("invalid syntax")) told += (await later.read()).value;
    assert.equal(told, ': open\n\ndata: {"problem":"hello.py:3: invalid syntax"}\n\n', "a page that opens later too");
    await later.cancel();

    writeFiles(folder, { "hello.py": WORKER, "second.py": WORKER.replaceAll("hello", "second") });
    await changed();
    assert.equal((await reader.read()).value, "data: {}\n\n");
    assert.ok("/second/runsync" in (await document()).paths);
    await reader.cancel();
  });
});
