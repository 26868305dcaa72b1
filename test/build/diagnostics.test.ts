import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { installProblem } from "../../src/build/build-dependencies.ts";
import { formatDiagnostic } from "../../src/build/diagnostics.ts";
import { parseRequirement } from "../../src/build/requirement.ts";
import { withoutCredentials } from "../../src/python/install-output.ts";

describe("what the user sees", () => {
  test("a diagnostic shows its place, the line with the part marked, and the way out", () => {
    const shown = formatDiagnostic({
      severity: "error",
      rule: "duplicate-name",
      message: "Two functions have one name.",
      help: "Rename one.",
      file: "workers/a.py",
      line: 12,
      column: 16,
      source: '@Endpoint(name="same")',
      length: 6,
    });
    assert.equal(
      shown,
      `error[duplicate-name]: Two functions have one name.
  --> workers/a.py:12:16
    |
 12 | @Endpoint(name="same")
    |                ^^^^^^
  help: Rename one.`,
    );
  });

  test("a place far to the right of a long line is in the frame", () => {
    const source = `${"x".repeat(500)}HERE${"y".repeat(500)}`;
    const shown = formatDiagnostic({
      severity: "warning",
      rule: "r",
      message: "m",
      help: "",
      file: "a.py",
      line: 1,
      column: 501,
      source,
      length: 4,
    });
    const [, , , code, marks] = shown.split("\n");
    assert.equal(code!.slice(marks!.indexOf("^"), marks!.lastIndexOf("^") + 1), "HERE");
    assert.ok(code!.length < 140);
  });

  test("an installer's failure names the requirement and hides credentials", () => {
    const set = {
      key: "k",
      pythonVersion: "3.11",
      requirements: [parseRequirement("six")!, parseRequirement("Nope_Pkg>=1")!],
      base: [],
      leaveOut: new Set<string>(),
      noDeps: false,
      endpoints: [{ name: "hello", dependenciesPlace: { file: "w.py", line: 3, column: 1 } }],
    } as unknown as Parameters<typeof installProblem>[0];
    const output = withoutCredentials(
      "Looking in indexes: https://me:pw@example.org/simple\nERROR: Could not find a version that satisfies the requirement nope-pkg>=1 (from https://me:pw@example.org)\nERROR: No matching distribution found for nope-pkg>=1\n",
    );
    const problem = installProblem(set, output);
    assert.match(
      problem.message,
      /^"Nope_Pkg>=1" of endpoint "hello" cannot be installed for Linux x86_64, Python 3.11:/,
    );
    assert.ok(!problem.message.includes("pw@"));
    assert.match(problem.help, /name and the version/);
    assert.equal(problem.line, 3);
  });
});
