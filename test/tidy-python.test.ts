/** The shape of the Python side, as tidy.test.ts checks that of the TypeScript side: rooms with one direction, and no circle. */
import assert from "node:assert/strict";
import { existsSync, globSync, readFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { circlesOf } from "./harness/circles.ts";

const python = path.resolve(import.meta.dirname, "../python");
/** The two packages by where they are imported from: the SDK with its runtime, and what reads a project for `svc build`. */
const roots: Record<string, string> = { svc: path.join(python, "src"), scan: python };
const sources = Object.entries(roots).flatMap(([name, root]) => globSync(`${name}/**/*.py`, { cwd: root }).sort());
const pathOf = (file: string) => path.join(roots[file.split(/[/.]/)[0]!]!, file);
const read = (file: string) => readFileSync(pathOf(file), "utf8");

/** Who may import whom, drawn in ARCHITECTURE.md. "declarations" are the files that stand in svc/ itself. */
const BELOW_WORK = ["_values", "declarations", "_runtime/limits", "_runtime/link"];
const DIRECTIONS: Record<string, readonly string[]> = {
  scan: [],
  declarations: [],
  _values: [],
  _calling: ["_values", "declarations"],
  _notebook: ["_calling", "declarations"],
  "svc/__init__": ["_calling", "_notebook", "declarations"],
  _runtime: [],
  "_runtime/limits": [],
  "_runtime/link": ["_runtime/limits"],
  "_runtime/confine": ["_runtime/limits"],
  "_runtime/work": BELOW_WORK,
  "_runtime/http": [...BELOW_WORK, "_runtime/work"],
  "_runtime/loader": ["_values", "declarations", "_runtime/http"],
  "_runtime/process": [
    ...[...BELOW_WORK, "_runtime/work", "_runtime/confine", "_runtime/loader"],
    // Imported ahead, so that no fork of a zygote has to.
    ...["svc/__init__", "_calling"],
  ],
  "_runtime/confined_installer": ["_runtime/confine", "_runtime/process"],
  "_runtime/launcher": [...BELOW_WORK, "_runtime/confine", "_runtime/process"],
  "_runtime/in_pod": ["_runtime/launcher"],
};

function roomOf(file: string): string {
  if (file.startsWith("scan/")) return "scan";
  const parts = file.replace(/\.py$/, "").split("/").slice(1);
  if (parts.length === 1) return parts[0] === "__init__" ? "svc/__init__" : "declarations";
  if (parts[0] !== "_runtime") return parts[0]!;
  return parts[1] === "__init__" ? "_runtime" : `_runtime/${parts[1]}`;
}

/** Code without texts in triple quotes. */
function code(file: string): string {
  return read(file).replace(/"""[\s\S]*?"""/g, '""');
}

/** Code as it runs: without what only a type checker reads. */
function running(file: string): string {
  return code(file).replace(/^if TYPE_CHECKING:\n(?:[ \t]+.*\n|\n)+/gm, "");
}

function fileOf(module: string): string | undefined {
  const base = module.replaceAll(".", "/");
  return [`${base}.py`, `${base}/__init__.py`].find((file) => existsSync(pathOf(file)));
}

/** Imports of our own packages, those inside functions too: they would only hide a circle. */
function importsOf(file: string, text: string): string[] {
  const pattern = /^[ \t]*(?:from ((?:svc|scan)\b[\w.]*) import (\([^)]*\)|.*)|import ((?:svc|scan)\b[\w.]*))/gm;
  const found = [...text.matchAll(pattern)].flatMap(([, from, names, module]) => {
    if (from === undefined) return fileOf(module!) ?? [];
    const found = (names!.replace(/#.*/g, "").match(/\w+(?: as \w+)?/g) ?? []).map((name) => name.split(" ")[0]!);
    return found.flatMap((name) => fileOf(`${from}.${name}`) ?? fileOf(from) ?? []);
  });
  return found.filter((target) => target !== file);
}

const imports = new Map(sources.map((file) => [file, importsOf(file, running(file))]));

test("Every room of the Python side imports only what stands below it", () => {
  const broken: string[] = [];
  for (const [file, targets] of imports) {
    const room = roomOf(file);
    const allowed = DIRECTIONS[room];
    assert.ok(allowed, `${room} has no line in the direction table`);
    for (const target of targets) {
      const other = roomOf(target);
      if (other !== room && !allowed.includes(other)) broken.push(`${file} imports ${target}`);
    }
  }
  assert.deepEqual(broken, []);
});

test("No circle of imports among Python modules", () => {
  assert.deepEqual(circlesOf(imports), []);
});

/** `Endpoint(id=…)` is an EndpointClient, which a type checker believes of a class derived from Endpoint only. */
const TYPES_OF_EACH_OTHER = ["svc/endpoint.py", "svc/_calling/client.py"];

test("Nor do modules need each other's types, but for an Endpoint and its client", () => {
  const all = new Map(
    sources.map((file) => {
      const targets = importsOf(file, code(file));
      // The package itself names everything.
      return [file, targets.filter((target) => imports.get(file)!.includes(target) || target !== "svc/__init__.py")];
    }),
  );
  const [endpoint, client] = TYPES_OF_EACH_OTHER as [string, string];
  assert.ok(all.get(endpoint)!.includes(client) && all.get(client)!.includes(endpoint), "no longer needed");
  all.set(
    endpoint,
    all.get(endpoint)!.filter((target) => target !== client),
  );
  assert.deepEqual(circlesOf(all), []);
});

test("A circle is found, also one that an import inside a function hides", () => {
  const graph = new Map([
    ["a", ["b"]],
    ["b", ["c", "d"]],
    ["c", ["a"]],
    ["d", []],
  ]);
  assert.deepEqual(circlesOf(graph), ["a -> b -> c -> a"]);
  // loader.py imports these two inside a function only.
  assert.ok(imports.get("svc/_runtime/loader.py")?.includes("svc/_runtime/http/requests.py"));
});

test("Modules are named in full, and every file says first what it is for", () => {
  assert.deepEqual(
    sources.filter((file) => /^[ \t]*from \./m.test(read(file))),
    [],
  );
  assert.deepEqual(
    sources.filter((file) => !/^"""\S/.test(read(file))),
    [],
  );
});

test("Python code imports the standard library only", () => {
  const known = new Set(
    "__future__ _ast _json abc argparse array ast asyncio atexit base64 binascii builtins collections contextlib contextvars copy ctypes dataclasses datetime difflib email enum errno fcntl functools gc hashlib heapq hmac html http importlib inspect io itertools json linecache logging marshal math mimetypes mmap multiprocessing operator os pathlib pickle platform posixpath queue random re resource runpy scan secrets select selectors shlex shutil signal site socket socketserver ssl stat string struct subprocess symtable sys sysconfig tempfile textwrap threading time tokenize traceback types typing _thread unicodedata urllib uuid warnings weakref zlib svc".split(
      " ",
    ),
  );
  const strangers = sources.flatMap((file) =>
    [...running(file).matchAll(/^(?:from|import)\s+(\w+).*/gm)]
      .filter(([, name]) => !known.has(name!))
      .map(([line]) => `${file}: ${line}`),
  );
  assert.deepEqual(strangers, []);
});
