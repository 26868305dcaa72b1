import assert from "node:assert/strict";
import { chmodSync, existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, test } from "node:test";
import { syntaxProblems } from "../../src/build/check-syntax.ts";
import { findPython } from "../../src/build/interpreter.ts";
import { PythonParser } from "../../src/build/python-parser.ts";
import { scanProject } from "../../src/build/scan.ts";
import { HELLO, temporaryFolder, writeFiles } from "./project.ts";

describe("the syntax of a project's files", () => {
  test("is judged by Python once for each content, by a parse that runs nothing", async (t) => {
    const dir = temporaryFolder(t);
    const { executable, version } = await findPython({ env: process.env });
    const calls = path.join(dir, "calls");
    const counting = path.join(dir, "python");
    writeFiles(dir, {
      python: `#!/bin/sh\necho x >> ${calls}\nexec ${executable} "$@"\n`,
      "project/a.py": `open(${JSON.stringify(path.join(dir, "ran"))}, "w")\n${HELLO}`,
    });
    chmodSync(counting, 0o755);
    let accepted: readonly string[] = [];
    const scan = () =>
      scanProject({
        projectDir: path.join(dir, "project"),
        environment: process.env,
        python: async () => ({ executable: counting, version }),
        syntaxMemory: {
          accepted: () => accepted,
          remember: async (now) => {
            accepted = now;
          },
        },
      });
    const count = () => readFileSync(calls, "utf8").trim().split("\n").length;
    assert.deepEqual((await scan()).diagnostics, []);
    await scan();
    assert.equal(count(), 1);
    writeFiles(dir, { "project/a.py": `${HELLO}\ndef f():\nreturn 1\n` });
    assert.deepEqual(
      (await scan()).diagnostics.map(({ rule, line }) => `${rule} ${line}`),
      ["syntax-error 9"],
    );
    await scan();
    assert.equal(count(), 3, "a file with an error is not remembered");
    assert.ok(!existsSync(path.join(dir, "ran")));
  });

  test("that only an older Python than the endpoint's rejects is no error", async () => {
    const parser = await PythonParser.load();
    const module = (text: string) => ({ path: "w.py", name: "w", isPackage: false, text, root: parser.parse(text) });
    const verdicts = (text: string) => new Map([[module(text), ["invalid syntax", 1, 6] as [string, number, number]]]);
    const known = "type A[T] = list[T]\n";
    const unknown = "type A[T = int] = list[T]\n";
    assert.deepEqual(syntaxProblems(verdicts(known), "3.14"), []);
    const [warning] = syntaxProblems(verdicts(unknown), "3.14");
    assert.equal(warning?.severity, "warning");
    assert.match(warning!.message, /older than the 3\.14 of an endpoint/);
    assert.equal(syntaxProblems(verdicts(known), undefined)[0]?.severity, "error");
    parser.dispose();
  });
});
