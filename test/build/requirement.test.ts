import assert from "node:assert/strict";
import { describe, test } from "node:test";
import { dependencyClosure } from "../../src/build/dependency-closure.ts";
import { markerHolds, targetEnvironment } from "../../src/build/marker.ts";
import { parseRequirement, requirementProblem } from "../../src/build/requirement.ts";

describe("requirements", () => {
  test("are read with extras, versions and markers", () => {
    assert.deepEqual(parseRequirement(" Scikit_Learn[Fast, more] >=1.2, <2 ; python_version >= '3.10' "), {
      text: "Scikit_Learn[Fast, more] >=1.2, <2 ; python_version >= '3.10'",
      name: "scikit-learn",
      extras: ["fast", "more"],
      specifier: ">=1.2, <2",
      marker: "python_version >= '3.10'",
    });
    assert.equal(parseRequirement("six (>=1.0)")?.specifier, ">=1.0");
    assert.equal(parseRequirement("x @ https://example.org/x.whl")?.specifier, "@ https://example.org/x.whl");
    for (const wrong of ["six = 1", "a b", ">=1", "six >= "]) assert.equal(parseRequirement(wrong), undefined, wrong);
  });

  test("with credentials in their address are refused without repeating them", () => {
    const problem = requirementProblem("x @ https://me:secret@example.org/x.whl");
    assert.ok(problem !== undefined && !problem.message.includes("secret"));
  });

  test("with markers follow the worker's platform, not this machine's", () => {
    const environment = targetEnvironment("3.11");
    const holds = (marker: string, extras: string[] = []) => markerHolds(marker, environment, extras);
    assert.equal(holds(`sys_platform == "win32"`), false);
    assert.equal(holds(`sys_platform != "win32" and python_version < "3.12"`), true);
    assert.equal(holds(`python_version >= "3.9" and python_version < "3.10"`), false);
    assert.equal(
      holds(`(os_name == "nt" or platform_machine in "x86_64 amd64") and python_full_version >= "3.11.0"`),
      true,
    );
    assert.equal(holds(`platform_machine not in "arm64"`), true);
    assert.equal(holds(`python_version ~= "3.8"`), true);
    assert.equal(holds(`python_version == "3.*"`), true);
    assert.equal(holds(`extra == "gpu"`), false);
    assert.equal(holds(`extra == "gpu"`, ["gpu", "x"]), true);
    assert.equal(holds("what is this"), true);
  });

  test("of what is left out go too, unless something else needs them", () => {
    const distributions = [
      { name: "a", version: "1", requires: ["torch>=2", "shared", "b[fast]"] },
      { name: "torch", version: "2", requires: ["shared", "nvidia-only"] },
      { name: "b", version: "1", requires: ['speedup; extra == "fast"', 'docs; extra == "docs"', "a"] },
    ];
    const closure = dependencyClosure(
      [parseRequirement("a")!],
      distributions,
      new Set(["torch"]),
      targetEnvironment("3.11"),
    );
    assert.deepEqual([...closure.names].sort(), ["a", "b", "shared", "speedup"]);
    assert.deepEqual([...closure.leftOut], [["torch", [">=2"]]]);
  });
});
