import assert from "node:assert/strict";
import { writeFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { runProcess } from "../../src/lib/run-process.ts";
import { project } from "../e2e/platform.ts";
import { SVC } from "../program.ts";

const ROOT = path.resolve(import.meta.dirname, "../..");

const WORKER = `
from dataclasses import dataclass
from datetime import timedelta
from typing import Iterator, Literal, Optional
from svc import Endpoint

@Endpoint(name="resize")
def resize(url: str, width: int = 640, mode: Literal["fit", "fill"] = "fit", at: Optional[tuple[int, int]] = None) -> dict[str, list[int]]:
    """Resizes */ an image."""

@Endpoint(name="count-up")
def count(n: int, **more) -> Iterator[str]:
    yield "x"

@Endpoint(name="model")
class Model:
    def predict(self, text: str) -> float: ...
    def wait(self) -> timedelta: ...

@dataclass
class Point:
    x: int
    note: str = ""

@Endpoint(name="move")
def move(point: Point) -> list[Point]: ...

api = Endpoint(name="api")

@api.post("/items/{item_id}")
def item(item_id: int, note: str) -> None: ...

@api.websocket("/chat/{room}")
async def chat(socket, room: str): ...
`;

const CALLS = `
import { Endpoint } from "${ROOT}/src/client/endpoint.ts";
import type { Endpoints } from "./endpoints.js";

type Of<T extends { input: object; output: unknown }> = Endpoint<T["input"], T["output"]>;
declare const resize: Of<Endpoints["resize"]>;
declare const count: Of<Endpoints["count-up"]>;
declare const predict: Of<Endpoints["model"]["methods"]["predict"]>;
type Item = Endpoints["api"]["routes"]["POST /items/{item_id}"];

export async function calls(): Promise<[number[] | undefined, string[], number]> {
  // @ts-expect-error a parameter that the function lacks
  await resize.runsync({ url: "x", height: 3 });
  // @ts-expect-error not one of the choices
  await resize.runsync({ url: "x", mode: "crop" });
  // @ts-expect-error a parameter without a default
  await resize.runsync({ width: 3 });
  const sizes = await resize.runsync({ url: "x", width: 3, mode: "fill", at: [1, 2] });
  const chunks = await count.runsync({ n: 3, further: true });
  return [sizes["a"], chunks, await predict.runsync({ text: "x" }, { method: "predict" })];
}
export const moved: Endpoints["move"] = { input: { point: { x: 1 } }, output: [{ x: 2, note: "" }] };
export const item: Item = { path: { item_id: 1 }, body: { note: "x" }, output: null };
export const room: Endpoints["api"]["routes"]["WEBSOCKET /chat/{room}"]["path"] = { room: "a" };
export const seconds: Endpoints["model"]["methods"]["wait"]["output"] = 1.5;
`;

test("svc types prints types with which calls of the project's endpoints compile, and wrong ones do not", async (t) => {
  const cwd = project(t, { "worker.py": WORKER, "calls.ts": CALLS, "package.json": `{"type":"module"}` }, "shop");
  const { code, stdout, stderr } = await runProcess(SVC, ["types"], { cwd, env: process.env });
  assert.equal(code, 0, stderr);
  assert.match(stdout, /\/\*\* Resizes \*\\\/ an image\. \*\//);
  writeFileSync(path.join(cwd, "endpoints.d.ts"), stdout);
  const settings = {
    extends: path.join(ROOT, "tsconfig.json"),
    compilerOptions: { noEmit: true, rewriteRelativeImportExtensions: false },
    files: ["calls.ts"],
  };
  writeFileSync(path.join(cwd, "tsconfig.json"), JSON.stringify(settings));
  const tsc = path.join(ROOT, "node_modules/.bin/tsc");
  const checked = await runProcess(tsc, ["-p", cwd, "--typeRoots", path.join(ROOT, "node_modules/@types")], {
    cwd,
    env: process.env,
  });
  assert.equal(checked.code, 0, checked.stdout + checked.stderr);
});
