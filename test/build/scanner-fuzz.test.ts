import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, test } from "node:test";
import fc from "fast-check";
import { findEndpoints } from "../../src/build/find-endpoints.ts";
import { Folder } from "../../src/build/fold.ts";
import { groupEndpoints } from "../../src/build/group-endpoints.ts";
import { ModuleGraph } from "../../src/build/module-graph.ts";
import { NamesInScope } from "../../src/build/names-in-scope.ts";
import { PythonParser } from "../../src/build/python-parser.ts";
import { SettingsReader } from "../../src/build/read-settings.ts";
import { scanProject } from "../../src/build/scan.ts";
import { temporaryFolder, writeFiles } from "./project.ts";

const FILES_MAX = 250;

/** Scans the text as the only file of a project; resolves the milliseconds it took. */
function scanText(parser: PythonParser, text: string): number {
  const started = performance.now();
  const graph = new ModuleGraph("/nowhere", [], parser);
  const names = new NamesInScope(graph);
  const module = graph.byFile("fuzz.py", text);
  const { objects, uses } = findEndpoints(module, names);
  const folder = new Folder(names);
  const reader = new SettingsReader(folder, {}, () => {});
  groupEndpoints(objects, uses, reader, folder, () => {});
  for (const bindings of names.scopeOf(module).bindings.values()) {
    for (const binding of bindings) if (binding.kind === "value") folder.fold(module, binding.value);
  }
  return performance.now() - started;
}

const PIECES = [
  "from svc import Endpoint\n",
  "import svc as s\n",
  "Endpoint",
  "s.Endpoint",
  "@",
  "(",
  ")",
  "[",
  "]",
  "{",
  "}",
  "name=",
  '"a"',
  'f"{X}"',
  "X",
  "X = ",
  "X += ",
  "**X",
  "*X",
  ",",
  ":",
  "\n",
  "\n    ",
  "def f():",
  "class C:",
  "yield 1",
  "api",
  'api = Endpoint(name="api")\n',
  '@api.get("/x")\n',
  "@X\n",
  "if X:",
  "try:",
  "except:",
  "import fuzz\n",
  "from fuzz import *\n",
  "from . import X\n",
  "lambda:",
  "1",
  "-",
  "\\",
  "'''",
  "#",
  "\u00e9",
  "\ud83d\ude00",
  "async ",
  "await ",
];

describe("the scanner never crashes", () => {
  const library = execFileSync("python3", ["-c", "import os; print(os.path.dirname(os.__file__))"], {
    encoding: "utf8",
  }).trim();

  const all = readdirSync(library, { recursive: true, encoding: "utf8" });
  const files = all
    .filter((file) => file.endsWith(".py") && !file.includes("site-packages") && !file.includes("dist-packages"))
    .sort();
  const step = Math.max(1, Math.floor(files.length / FILES_MAX));
  const chosen = files.filter((_, i) => i % step === 0);

  test("on the interpreter's own standard library, whose time per 1000 lines is reported", async (t) => {
    assert.ok(chosen.length > 100);
    let lines = 0;
    let milliseconds = 0;
    for (const file of chosen) {
      const text = readFileSync(path.join(library, file), "latin1");
      const parser = await PythonParser.load();
      milliseconds += scanText(parser, text);
      parser.dispose();
      lines += text.split("\n").length;
    }
    t.diagnostic(
      `${chosen.length} files, ${lines} lines, ${((milliseconds / lines) * 1000).toFixed(2)} ms per 1000 lines`,
    );
  });

  test("on those files as one project, whose time per 1000 lines is reported", async (t) => {
    const projectDir = temporaryFolder(t);
    let lines = 0;
    for (const [i, file] of chosen.entries()) {
      const text = readFileSync(path.join(library, file), "latin1");
      lines += text.split("\n").length;
      writeFiles(projectDir, { [`module_${i}.py`]: text });
    }
    const started = performance.now();
    const scan = await scanProject({ projectDir, environment: process.env });
    const milliseconds = performance.now() - started;
    assert.deepEqual(scan.endpoints, []);
    t.diagnostic(`${lines} lines, ${((milliseconds / lines) * 1000).toFixed(2)} ms per 1000 lines`);
  });

  test("on random pieces of declarations", async () => {
    const parser = await PythonParser.load();
    fc.assert(
      fc.property(fc.array(fc.constantFrom(...PIECES), { maxLength: 40 }), (pieces) => {
        scanText(parser, pieces.join(""));
      }),
      { numRuns: 500 },
    );
    parser.dispose();
  });

  test("on deep nesting and long chains", async () => {
    const parser = await PythonParser.load();
    const deep = 3000;
    for (const text of [
      `X = ${"[".repeat(deep)}${"]".repeat(deep)}\n`,
      `X = ${"1 + ".repeat(deep)}1\n`,
      `X = ${"a.".repeat(deep)}b\n`,
      `${"if X:\n ".split("\n")[0]}\n${Array.from({ length: 90 }, (_, i) => `${" ".repeat(i + 1)}if X:`).join("\n")}\n${" ".repeat(95)}pass\n`,
      `${Array.from({ length: deep }, (_, i) => `X${i + 1} = X${i}`).join("\n")}\n`,
    ]) {
      scanText(parser, text);
    }
    parser.dispose();
  });
});
