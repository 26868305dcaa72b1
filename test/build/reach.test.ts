import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { findPython } from "../../src/build/interpreter.ts";
import { PythonScanner } from "../../src/build/python-scanner.ts";
import { scanProject } from "../../src/build/scan.ts";
import { temporaryFolder, writeFiles } from "./project.ts";

const endpoint = (name: string, above = "", inside = "") => `
from svc import Endpoint
${above}

@Endpoint(name="${name}")
def ${name}():
    ${inside || "return 1"}
`;

/** Files of each endpoint's reach, or null where it may be any. */
async function reaches(t: { after(work: () => void): void }, files: Record<string, string>) {
  const projectDir = temporaryFolder(t);
  writeFiles(projectDir, files);
  const scanner = new PythonScanner(() => findPython({ env: process.env }));
  t.after(() => scanner.close());
  const { reach, diagnostics } = await scanProject({ projectDir, environment: process.env, scanner });
  assert.deepEqual(
    diagnostics.filter(({ severity }) => severity === "error"),
    [],
  );
  return (name: string) => {
    const found = reach.get(name);
    return found == null ? null : [...found].sort();
  };
}

describe("what an endpoint's code may need", () => {
  test("is what it imports anywhere, by any way of writing it, with the packages around it", async (t) => {
    const of = await reaches(t, {
      "a.py": endpoint("a", "import lib.deep.one\nfrom lib import two as also", "from lib.late import x; return x"),
      "b.py": endpoint("b"),
      "pkg/c.py": endpoint(
        "c",
        "from . import near\nfrom .. import nothing\ntry:\n    import maybe\nexcept ImportError: pass",
      ),
      "pkg/__init__.py": "",
      "pkg/near.py": "if True:\n    from star import *",
      "star/__init__.py": "",
      "star/sub/x.py": "",
      "maybe.py": "def f():\n    import other",
      "other.py": "",
      "lib/__init__.py": "",
      "lib/deep/__init__.py": "import lib.two",
      "lib/deep/one.py": "",
      "lib/two.py": "",
      "lib/late.py": "x = 1",
      "tests/test_a.py": "import a",
    });
    assert.deepEqual(of("a"), [
      "a.py",
      "lib/__init__.py",
      "lib/deep/__init__.py",
      "lib/deep/one.py",
      "lib/late.py",
      "lib/two.py",
    ]);
    assert.deepEqual(of("b"), ["b.py"]);
    const c = [
      "maybe.py",
      "other.py",
      "pkg/__init__.py",
      "pkg/c.py",
      "pkg/near.py",
      "star/__init__.py",
      "star/sub/x.py",
    ];
    assert.deepEqual(of("c"), c);
  });

  test("may be any file when code is loaded by a name or run from a file", async (t) => {
    const ways = [
      "import importlib",
      "x = __import__('lib')",
      "import sys; sys.path.append('lib')",
      "exec('import lib')",
      "x = open('lib.py').read()",
      "import subprocess",
    ];
    const files = Object.fromEntries(ways.map((way, i) => [`e${i}.py`, endpoint(`e${i}`, way)]));
    const of = await reaches(t, {
      ...files,
      "lib.py": "",
      "m.py": endpoint("m", "def f(model): model.eval()", "import far; return far"),
    });
    for (const i of ways.keys()) assert.equal(of(`e${i}`), null, ways[i]);
    assert.deepEqual(of("m"), ["m.py"], "a method of that name loads nothing");
  });
});
