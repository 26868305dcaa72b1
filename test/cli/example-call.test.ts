import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { json } from "node:stream/consumers";
import { after, before, describe, test } from "node:test";
import { promisify } from "node:util";
import { exampleValue } from "../../src/build/example-value.ts";
import { scanProject } from "../../src/build/scan.ts";
import { bestCall, exampleCalls } from "../../src/cli/example-call.ts";
import type { ManifestFunction } from "../../src/domain/manifest.ts";
import { temporaryFolder, writeFiles } from "../build/project.ts";

interface Seen {
  method: string | undefined;
  url: string | undefined;
  authorization: string | undefined;
  body: unknown;
}

const seen: Seen[] = [];
const server = createServer(async (request, response) => {
  const body = request.headers["content-type"] === "application/json" ? await json(request) : null;
  seen.push({ method: request.method, url: request.url, authorization: request.headers.authorization, body });
  response.end("{}");
});
let base = "";

before(async () => {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
});
after(() => server.close());

/** Pastes a command into a shell and returns what the server saw of it. */
async function paste(command: string): Promise<Seen> {
  seen.length = 0;
  await promisify(execFile)("/bin/sh", ["-c", command], { env: { ...process.env, PLATFORM_API_KEY: "svc_key" } });
  assert.equal(seen.length, 1);
  return seen[0]!;
}

type Parameter = readonly [name: string, annotation: string, preset: string | null];

/** Functions as the manifest describes them, by their names. */
async function described(
  t: { after(work: () => void): void },
  functions: Record<string, readonly Parameter[]>,
): Promise<Record<string, ManifestFunction>> {
  const projectDir = temporaryFolder(t);
  const text = Object.entries(functions).map(([name, parameters]) => {
    const list = parameters.map(
      ([each, type, preset]) => each + (type && `: ${type}`) + (preset ? ` = ${preset}` : ""),
    );
    return `@Endpoint(name="${name}")\ndef ${name}(${list.join(", ")}): ...\n`;
  });
  writeFiles(projectDir, { "w.py": `from svc import Endpoint\n${text.join("")}` });
  const { endpoints } = await scanProject({ projectDir, environment: process.env });
  return Object.fromEntries(endpoints.flatMap((each) => each.functions.map((found) => [found.name, found])));
}

describe("example calls", () => {
  test("a queue-based endpoint's call reaches /runsync with its arguments under input", async (t) => {
    const parameters: Parameter[] = [
      ["text", "str", null],
      ["count", "int", "3"],
      ["mark", "str", '"it\'s"'],
      ["name", "str", "'plain'"],
      ["limit", "int | None", "None"],
      ["**rest", "", null],
    ];
    const { work } = await described(t, { work: parameters });
    const endpoint = { kind: "queue", url: `${base}/v2/ep1`, functions: [work!], routes: [] } as const;
    const [call] = exampleCalls(endpoint, () => undefined);
    const { method, url, authorization, body } = await paste(call!.command);
    assert.equal(method, "POST");
    assert.equal(url, "/v2/ep1/runsync");
    assert.equal(authorization, "Bearer svc_key");
    const input = (body as { input: Record<string, unknown> }).input;
    assert.equal(typeof input.text, "string");
    assert.deepEqual({ ...input, text: "" }, { text: "", count: 3, mark: "it's", name: "plain" });
  });

  test("each route of a load-balanced endpoint gets a call with its method, path and body", async (t) => {
    const found = await described(t, {
      health: [],
      put_item: [
        ["item_id", "int", null],
        ["tags", "list[str]", null],
      ],
      find: [
        ["query", "str", null],
        ["limit", "int", "10"],
      ],
    });
    const functions = Object.values(found);
    const routes = ["GET /health", "PUT /items/{item_id}", "GET /find"];
    const names: Record<string, string> = {
      "GET /health": "health",
      "PUT /items/{item_id}": "put_item",
      "GET /find": "find",
    };
    const endpoint = { kind: "load-balanced", url: `${base}/lb/ep2`, functions, routes } as const;
    const calls = exampleCalls(endpoint, (route) => names[route]);
    assert.deepEqual(
      calls.map((call) => call.route),
      routes,
    );

    assert.deepEqual(await paste(calls[0]!.command), {
      method: "GET",
      url: "/lb/ep2/health",
      authorization: "Bearer svc_key",
      body: null,
    });
    const put = await paste(calls[1]!.command);
    assert.equal(put.method, "PUT");
    assert.equal(put.url, "/lb/ep2/items/3");
    assert.ok(Array.isArray((put.body as { tags: unknown }).tags));
    const find = await paste(calls[2]!.command);
    assert.equal(new URL(find.url!, base).searchParams.has("query"), true);
    assert.equal(new URL(find.url!, base).searchParams.has("limit"), false);

    const open = exampleCalls({ ...endpoint, publicRoutes: "GET /health" }, (route) => names[route]);
    assert.deepEqual(
      open.map((call) => call.command.includes("Authorization")),
      [false, true, true],
    );
  });

  test("the call shown first is one with a body", () => {
    const calls = [
      { route: "GET /health", url: "", command: "a" },
      { route: "POST /analyze", url: "", command: "b" },
    ];
    assert.equal(bestCall(calls)?.command, "b");
  });

  test("values fit their annotations", async (t) => {
    const kinds: [annotation: string, check: (value: unknown) => boolean][] = [
      ["int", Number.isInteger],
      ["float", (value) => typeof value === "number"],
      ["bool", (value) => typeof value === "boolean"],
      ["str", (value) => typeof value === "string"],
      ["", (value) => typeof value === "string"],
      ["list[int]", (value) => Array.isArray(value) && value.every(Number.isInteger)],
      ["dict[str, int]", (value) => typeof value === "object"],
      ["Optional[int]", Number.isInteger],
      ["typing.Optional[int]", Number.isInteger],
      ["None | int", Number.isInteger],
      [
        "tuple[int, str]",
        (value) => Array.isArray(value) && Number.isInteger(value[0]) && typeof value[1] === "string",
      ],
      ["list", (value) => Array.isArray(value)],
      ["datetime.date", (value) => /^\d{4}-\d\d-\d\d$/.test(String(value))],
      ["Item", (value) => JSON.stringify(value) === "{}"],
      ["int | None", Number.isInteger],
      ["dict[str, int | None] | None", (value) => typeof value === "object"],
      ["Annotated[int, 'a|b']", Number.isInteger],
      ['"int"', Number.isInteger],
      ['Literal["fast", "slow"]', (value) => value === "fast"],
    ];
    const required = kinds.map(([annotation], i): Parameter => [`x${i}`, annotation, null]);
    const { f } = await described(t, { f: required });
    for (const [i, [annotation, check]] of kinds.entries()) {
      const value = exampleValue(f!.parameters[i]!);
      assert.ok(check(value), `${annotation} gives ${JSON.stringify(value)}`);
    }
    const presets: [preset: string, value: unknown][] = [
      ["-1.5e3", -1500],
      ["1_000", 1000],
      ["True", true],
      ["None", undefined],
      ["('a', 'b')", ["a", "b"]],
      [`{"k": [1, None]}`, { k: [1, null] }],
      ['r"\\d" "x"', "\\dx"],
      ["os.getcwd()", undefined],
      ["LIMIT", undefined],
      ['f"{x}"', undefined],
      ["1 + 2", undefined],
    ];
    const { g } = await described(t, { g: presets.map(([preset], i): Parameter => [`x${i}`, "", preset]) });
    for (const [i, [preset, value]] of presets.entries()) {
      assert.deepEqual(exampleValue(g!.parameters[i]!), value, preset);
    }
  });
});
