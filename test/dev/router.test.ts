import assert from "node:assert/strict";
import { describe, test } from "node:test";
import type { LocalRoute } from "../../src/dev/local-routes.ts";
import { routeChanges, routeRows } from "../../src/dev/route-table.ts";
import { findDestination, pathsNear } from "../../src/dev/router.ts";

const fn = (module: string, name: string, doc = "") => ({
  name,
  module,
  kind: "function" as const,
  async: false,
  generator: false,
  doc,
  parameters: [],
  methods: [],
});
const queue = (path: string, endpoint: string, doc = ""): LocalRoute => ({
  kind: "queue",
  method: "POST",
  path,
  routePath: "",
  endpoint,
  function: fn(path.slice(1).replaceAll("/", "."), endpoint, doc),
});
const routed = (prefix: string, method: string, routePath: string, endpoint: string): LocalRoute => ({
  kind: "load-balanced",
  method,
  path: prefix + routePath,
  routePath,
  endpoint,
  function: fn(prefix.slice(1).replaceAll("/", "."), endpoint),
});

const ROUTES: LocalRoute[] = [
  queue("/hello", "hello", "Says hello.\n\nIn several words."),
  queue("/workers/gpu", "detect"),
  routed("/web", "GET", "/", "site"),
  routed("/web", "GET", "/items/{item_id}", "site"),
  routed("/web", "GET", "/items/new", "news"),
  routed("/web", "POST", "/files/{name:path}", "site"),
  routed("/web", "WEBSOCKET", "/chat/{room}", "site"),
  routed("/hello", "GET", "/health", "mixed"),
  routed("/app", "ANY", "/", "whole"),
];

describe("a local path leads to", () => {
  const CASES: [method: string, path: string, endpoint: string | undefined, there?: string, runs?: boolean][] = [
    ["POST", "/hello/runsync", "hello", "/runsync", true],
    ["POST", "/hello/run", "hello", "/run", true],
    ["GET", "/hello/status/sync-1-l1", "hello", "/status/sync-1-l1", false],
    ["POST", "/hello/cancel/x", "hello", "/cancel/x", false],
    ["POST", "/hello/purge-queue", "hello", "/purge-queue", false],
    ["GET", "/hello/health", "mixed", "/health", true],
    ["POST", "/hello/health", "hello", "/health", false],
    ["POST", "/workers/gpu/runsync", "detect", "/runsync", true],
    ["POST", "/hello/openai/v1/chat/completions", "hello", "/openai/v1/chat/completions", true],
    ["GET", "/hello/openai/v1/models", "hello", "/openai/v1/models", true],
    ["GET", "/web/", "site", "/", true],
    ["GET", "/web", "site", "/", true],
    ["GET", "/web/items/7", "site", "/items/7", true],
    ["GET", "/web/items/a%2Fb", "site", "/items/a%2Fb", true],
    ["HEAD", "/web/items/7", "site", "/items/7", true],
    ["GET", "/web/items/new", "news", "/items/new", true],
    ["POST", "/web/files/a/b.txt", "site", "/files/a/b.txt", true],
    ["WEBSOCKET", "/web/chat/blue", "site", "/chat/blue", true],
    ["DELETE", "/web/items/7", "site", "/items/7", true],
    ["GET", "/web/openapi.json", "site", "/openapi.json", true],
    ["PUT", "/app/any/thing", "whole", "/any/thing", true],
    ["POST", "/hello", "mixed", "/", true],
    ["POST", "/helloo/runsync", undefined],
    ["POST", "/workers/runsync", undefined],
    ["GET", "/appendix", undefined],
  ];
  for (const [method, path, endpoint, there, runs] of CASES) {
    test(`${method} ${path} → ${endpoint ?? "nowhere"}`, () => {
      const found = findDestination(ROUTES, method, path);
      assert.deepEqual(
        found && [found.route.endpoint, found.path, found.runs],
        endpoint === undefined ? undefined : [endpoint, there, runs],
      );
    });
  }
});

test("an unknown path is answered with those of its file, or with all", () => {
  assert.deepEqual(pathsNear(ROUTES, "/app/x/y"), ["ANY /app/"]);
  assert.equal(pathsNear(ROUTES, "/nothing").length, ROUTES.length);
});

test("the table shows local path, first line of the docstring and kind; a save shows what came and went", () => {
  assert.deepEqual(routeRows(ROUTES).slice(0, 3), [
    ["POST /hello/runsync", "Says hello.", "QB"],
    ["POST /workers/gpu/runsync", "", "QB"],
    ["GET /web/", "", "LB"],
  ]);
  assert.deepEqual(routeChanges(ROUTES.slice(0, 1), ROUTES.slice(1, 2)), [
    "+ POST /workers/gpu/runsync",
    "- POST /hello/runsync",
  ]);
});
