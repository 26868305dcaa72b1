import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, test } from "node:test";
import fc from "fast-check";
import { findPython } from "../../src/build/interpreter.ts";
import { PythonScanner } from "../../src/build/python-scanner.ts";
import { scanProject } from "../../src/build/scan.ts";
import { temporaryFolder, writeFiles } from "./project.ts";

const FILES_MAX = 250;

type Scanner = (text: string) => Promise<Awaited<ReturnType<typeof scanProject>>>;

/** Scans texts as the only file of a project, all with one Python. */
function scannerOfTexts(t: { after(work: () => void): void }): Scanner {
  const projectDir = temporaryFolder(t);
  const scanner = new PythonScanner(() => findPython({ env: process.env }));
  t.after(() => scanner.close());
  return async (text) => {
    writeFiles(projectDir, { "fuzz.py": text });
    const scan = await scanProject({ projectDir, environment: process.env, scanner });
    assert.ok(scan.diagnostics.every(({ rule }) => rule !== "unreadable"));
    return scan;
  };
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

  test("on the interpreter's own standard library as one project that declares endpoints in every file, whose time per 1000 lines is reported", async (t) => {
    const projectDir = temporaryFolder(t);
    let lines = 0;
    for (const [i, file] of chosen.entries()) {
      const text = readFileSync(path.join(library, file), "latin1");
      lines += text.split("\n").length;
      writeFiles(projectDir, { [`module_${i}.py`]: `${text}\nEndpoint\n` });
    }
    const started = performance.now();
    const scan = await scanProject({ projectDir, environment: process.env });
    const milliseconds = performance.now() - started;
    assert.deepEqual(scan.endpoints, []);
    assert.ok(chosen.length > 100);
    assert.ok(scan.diagnostics.every(({ rule }) => rule !== "unreadable"));
    t.diagnostic(`${lines} lines, ${((milliseconds / lines) * 1000).toFixed(2)} ms per 1000 lines`);
  });

  test("on random pieces of declarations", async (t) => {
    const scanText = scannerOfTexts(t);
    await fc.assert(
      fc.asyncProperty(fc.array(fc.constantFrom(...PIECES), { maxLength: 40 }), async (pieces) => {
        await scanText(pieces.join(""));
      }),
      { numRuns: 500 },
    );
  });

  test("on deep nesting and long chains", async (t) => {
    const scanText = scannerOfTexts(t);
    const deep = 3000;
    const takesItself = "from fuzz import *\n".repeat(3);
    for (const text of [
      `${takesItself}api = Endpoint(name="api")\n`,
      `${takesItself}from svc import Endpoint\nX = Y\nY = X\nX += Y\napi = Endpoint(name=X)\n`,
      `X = ${"[".repeat(deep)}${"]".repeat(deep)}\n`,
      `X = ${"1 + ".repeat(deep)}1\n`,
      `X = ${"a.".repeat(deep)}b\n`,
      `${Array.from({ length: 90 }, (_, i) => `${" ".repeat(i)}if X:`).join("\n")}\n${" ".repeat(95)}pass\n`,
      `${Array.from({ length: deep }, (_, i) => `X${i + 1} = X${i}`).join("\n")}\n`,
      `if X: pass\n${"elif X: pass\n".repeat(deep)}`,
      `def f(x: ${"list[".repeat(deep)}int${"]".repeat(deep)} = 1): ...\n`,
      `def f(x: ${"int | ".repeat(900)}str): ...\n`,
    ]) {
      await scanText(`from svc import Endpoint\n${text}@Endpoint(name="w", env={"X": X})\ndef w(): ...\n`);
    }
  });
});
