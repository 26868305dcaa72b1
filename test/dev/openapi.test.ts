import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import path from "node:path";
import { describe, test } from "node:test";
import { type Scan, scanProject } from "../../src/build/scan.ts";
import { type OpenApiDocument, openApiDocument } from "../../src/dev/openapi.ts";
import { temporaryFolder, writeFiles } from "../build/project.ts";

const ROUTES = `
from __future__ import annotations
import datetime
import typing
import uuid
from collections.abc import AsyncIterator, Iterator, Sequence
from decimal import Decimal
from typing import Annotated, Any, Dict, List, Literal, Mapping, Optional, Set, Tuple, Union
from svc import Endpoint

import shapes
from shapes import Node, Options, Order

api = Endpoint(name="api", cpu="cpu3c-1-2")


@api.get("/items/{item_id}")
def read_item(item_id: int, tag: list[str] = [], limit: int = 10, q: str | None = None, exact: bool = False):
    """One item.

    With its tags.
    """

@api.delete("/files/{rest:path}")
def remove_file(rest: str, force: bool): ...

@api.post("/process")
def process(text: str): ...

@api.post("/numbers")
def numbers(numbers: list[float]): ...

@api.put("/scalars/{key}")
def scalars(key: uuid.UUID, a: int, b: float, c: bool, d: str, e, f: Any, g: None = None, h: object = 3): ...

@api.patch("/defaults")
def defaults(a: int = -3, b: float = 1.5, c: str = "it's", d: list = [1, "x"], e: dict = {"k": [1]}, f=True, g: int = None): ...

@api.post("/unions")
def unions(a: int | str, b: Optional[int], c: Union[int, None, str], d: "int | None", e: Optional[Union[int, str]] = None,
           f: Literal["fast", "slow", 3] = "fast", g: Annotated[int, "a|b"] = 2): ...

@api.post("/containers")
def containers(a: List[int], b: Set[str], c: frozenset[int], d: Tuple[int, str], e: tuple[int, ...], f: Dict[str, int],
               g: Mapping[str, Any], h: Sequence[list[int]], i: dict[str, list[Optional[int]]], j: typing.List[str]): ...

@api.post("/dates")
def dates(a: datetime.datetime, b: datetime.date, c: datetime.time, d: datetime.timedelta, e: Decimal): ...

@api.post("/whole")
def whole(data: dict): ...

@api.post("/whole-or-nothing")
def whole_or_nothing(data: dict[str, int] | None = None): ...

@api.post("/raw")
def raw(data: bytes): ...

@api.post("/form")
def form(name: str, picture: bytes): ...

@api.post("/upload/{name}")
async def upload(name: str, chunks: AsyncIterator[bytes]): ...

@api.post("/upload")
def upload_sync(chunks: Iterator[bytes]): ...

@api.get("/nothing")
def nothing(): ...

@api.post("/order")
def order(order: shapes.Order): ...

@api.post("/orders")
def orders(orders: list[Order], options: Options, colour: shapes.Colour = shapes.Colour.RED, node: Node | None = None): ...
`;

/** Classes of the project, in a file of their own. */
const SHAPES = `
import dataclasses
import enum
from dataclasses import KW_ONLY, dataclass, field
from typing import ClassVar, TypedDict


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"

    @property
    def nice(self):
        return True


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 2


@dataclass
class Base:
    id: int
    note: str = "none"


@dataclasses.dataclass(frozen=True)
class Line:
    name: str
    price: float = 1.5
    sizes: list[Size] = field(default_factory=list)
    made: int = field(init=False, default=3)


@dataclass
class Order(Base):
    KINDS: ClassVar[int] = 3
    lines: list[Line] = field(default_factory=list)
    _: KW_ONLY
    colour: Colour | None = None
    note: str = "hello"


class Fast(TypedDict):
    fast: bool


class Options(Fast, total=False):
    depth: int


@dataclass
class Node:
    value: int
    children: "list[Node]" = field(default_factory=list)
`;

/** What the worker runtime says about the same routes. */
const RUNTIME = `
import json, sys
sys.path[:0] = [sys.argv[1], sys.argv[2]]
import routes
from svc._runtime.http.openapi import openapi
from svc._runtime.http.routes import RouteTable
functions = {tuple(key.split(" ", 1)): getattr(routes, name) for key, name in json.loads(sys.argv[3]).items()}
print(json.dumps(openapi(RouteTable(functions, "api"))))
`;

async function scanned(t: { after(work: () => void): void }, files: Record<string, string>): Promise<Scan> {
  const dir = temporaryFolder(t);
  writeFiles(dir, files);
  return scanProject({ projectDir: dir, environment: process.env });
}

function documentOf(scan: Scan): OpenApiDocument {
  return openApiDocument({ title: "shop", endpoints: scan.endpoints });
}

type Json = Record<string, unknown>;

/** Without what the local document adds: the values to try. */
function withoutExamples(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(withoutExamples);
  if (typeof value !== "object" || value === null) return value;
  const pairs = Object.entries(value).filter(([key]) => key !== "example");
  return Object.fromEntries(pairs.map(([key, item]) => [key, withoutExamples(item)]));
}

/** With classes in the place of what refers to them, as the local document has them; one in itself by its title. */
function inlined(value: unknown, classes: Json, within: readonly string[] = []): unknown {
  if (Array.isArray(value)) return value.map((each) => inlined(each, classes, within));
  if (typeof value !== "object" || value === null) return value;
  const { $ref: reference, ...rest } = value as Json;
  if (typeof reference === "string") {
    const name = reference.slice(reference.lastIndexOf("/") + 1);
    if (within.includes(name)) return { type: "object", title: name };
    return { ...(inlined(classes[name], classes, [...within, name]) as Json), ...rest };
  }
  return Object.fromEntries(Object.entries(value).map(([key, item]) => [key, inlined(item, classes, within)]));
}

describe("the local server's OpenAPI document", () => {
  test("has the schemas of the deployed endpoint's own document", async (t) => {
    const dir = temporaryFolder(t);
    writeFiles(dir, { "routes.py": ROUTES, "shapes.py": SHAPES });
    const scan = await scanProject({ projectDir: dir, environment: process.env });
    assert.deepEqual(scan.diagnostics, []);
    const local = documentOf(scan);
    const names = Object.fromEntries(
      scan.endpoints[0]!.routes.map((route) => [`${route.method} ${route.path}`, route.function.name]),
    );
    const source = path.resolve(import.meta.dirname, "../../python/src");
    const output = execFileSync("python3", ["-c", RUNTIME, dir, source, JSON.stringify(names)], { encoding: "utf8" });
    const runtime = JSON.parse(output) as { paths: Record<string, Record<string, Json>>; components: Json };
    const routes = Object.entries(runtime.paths).flatMap(([at, methods]) =>
      Object.entries(methods).map(([method, operation]) => ({ at, method, operation })),
    );
    assert.equal(routes.length, 18);
    for (const { at, method, operation } of routes) {
      const own = local.paths[`/routes${at}`]?.[method] as unknown as Json;
      assert.ok(own, `${method} ${at}`);
      const classes = runtime.components.schemas as Json;
      assert.deepEqual(withoutExamples(own.parameters), inlined(operation.parameters, classes), `parameters of ${at}`);
      assert.deepEqual(withoutExamples(own.requestBody), inlined(operation.requestBody, classes), `body of ${at}`);
      assert.deepEqual(Object.keys(own.responses as Json), Object.keys(operation.responses as Json), at);
    }
    assert.deepEqual(local.components.schemas.Problems, (runtime.components.schemas as Json).Problems);
    const item = local.paths["/routes/items/{item_id}"]!.get!;
    assert.deepEqual([item.summary, item.description], ["One item.", "With its tags."]);
  });

  test("lists the job routes of queue-based functions below their file, by function where a file has several", async (t) => {
    const document = documentOf(
      await scanned(t, {
        "one.py": `from svc import Endpoint

@Endpoint(name="one", cpu="cpu3c-1-2")
def work(text: str, count: int = 2, limit: int | None = None, *args, **kwargs):
    """Works."""

api = Endpoint(name="api")

@api.post("/run")
def run(text: str): ...

@api.websocket("/chat")
async def chat(socket): ...
`,
        "shop/two.py": `from svc import Endpoint

@Endpoint(name="a")
def first(n: int): ...

@Endpoint(name="b")
class Second:
    def encode(self, text): ...
    def decode(self, count: int): ...
`,
      }),
    );
    const routes = ["cancel/{id}", "run", "runsync", "status/{id}", "stream/{id}"];
    assert.deepEqual(
      Object.keys(document.paths).sort(),
      [
        "/one/api/run",
        ...["/one", "/shop/two/Second", "/shop/two/first"].flatMap((base) => routes.map((each) => `${base}/${each}`)),
      ].sort(),
    );
    const body = document.paths["/one/runsync"]!.post!.requestBody as unknown as {
      content: { "application/json": { schema: { properties: { input: Json } }; example: { input: Json } } };
    };
    const { schema, example } = body.content["application/json"];
    assert.deepEqual(schema.properties.input, {
      type: "object",
      properties: {
        text: { type: "string" },
        count: { type: "integer", default: 2 },
        limit: { anyOf: [{ type: "integer" }, { type: "null" }] },
      },
      required: ["text"],
    });
    assert.deepEqual(Object.keys(example.input), ["text", "count"]);
    const second = document.paths["/shop/two/Second/runsync"]!.post!.requestBody as unknown as {
      content: { "application/json": { schema: Json; examples: Json } };
    };
    const method = (name: string, field: string, schema: Json) => ({
      type: "object",
      title: name,
      properties: {
        method: { const: name },
        input: { type: "object", properties: { [field]: schema }, required: [field], additionalProperties: false },
      },
      required: ["method", "input"],
    });
    assert.deepEqual(second.content["application/json"].schema, {
      oneOf: [method("encode", "text", {}), method("decode", "count", { type: "integer" })],
    });
    assert.deepEqual(second.content["application/json"].examples, {
      encode: { value: { method: "encode", input: { text: "Hello, world. What a nice day!" } } },
      decode: { value: { method: "decode", input: { count: 3 } } },
    });
    assert.deepEqual(
      document.tags.map(({ name }) => name),
      ["one.py", "one.py · jobs", "shop/two.py", "shop/two.py · jobs"],
    );
    assert.match(
      document.tags[0]!.description!,
      /Queue-based endpoint `one` on cpu3c-1-2\n\n.*`api`.*WebSocket: `\/one\/api\/chat`/s,
    );
    assert.equal(document.paths["/one/runsync"]!.post!.summary, "Works.");
  });

  test("has programs that pull their jobs below their endpoint's names, and lets them take any input", async (t) => {
    const program = (name: string, more: string) => `Endpoint(name="${name}", ${more})`;
    const pull = 'command=["python", "handler.py"], protocol="pull"';
    const several = [program("first", pull), program("second", 'image="example/worker:1"')];
    const source = (lines: string[]) => ["from svc import Endpoint", ...lines, ""].join("\n");
    const scan = await scanned(t, { "one.py": source([program("alone", pull)]), "two.py": source(several) });
    const { paths } = documentOf(scan);
    const calls = Object.keys(paths).filter((each) => each.endsWith("/runsync"));
    assert.deepEqual(calls.sort(), ["/one/runsync", "/two/first/runsync", "/two/second/runsync"]);
    const operation = paths["/two/first/runsync"]!.post!;
    assert.equal(operation.summary, "Runs python handler.py.");
    assert.equal(paths["/two/second/runsync"]!.post!.summary, "Runs what its image runs.");
    const { schema } = (operation.requestBody as { content: { "application/json": { schema: Json } } }).content[
      "application/json"
    ];
    assert.deepEqual((schema.properties as Json).input, { type: "object", properties: {} });
  });
});
