/**
 * Every folder of corpus/ is a small project with an expected.json:
 *   diagnostics  exactly these, as "severity rule file:line:column"
 *   resources, routes, env   what the manifest must contain (more is allowed inside)
 *   files, dropped   which files ship, which rule keeps others out
 *   error        code of the error a build throws (BUILD_FAILED whenever there is an error diagnostic)
 *   messages     texts that the user must see
 *   hidden       texts that no message may show
 *   python       "3.14": the version whose syntax it has; where there is no such Python, that is the one diagnostic
 */
import assert from "node:assert/strict";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, test } from "node:test";
import type { Diagnostic } from "../../src/build/build-result.ts";
import { formatDiagnostic, isError } from "../../src/build/diagnostics.ts";
import { findPython } from "../../src/build/interpreter.ts";
import { makeManifest } from "../../src/build/manifest.ts";
import { listProjectFiles } from "../../src/build/project-files.ts";
import { newerPython } from "../../src/build/read-facts.ts";
import { requireScan, type Scan, scanProject } from "../../src/build/scan.ts";
import { Sources } from "../../src/build/sources.ts";
import type { EnvValue } from "../../src/domain/env.ts";
import { SvcError } from "../../src/domain/errors.ts";
import type { Manifest } from "../../src/domain/manifest.ts";
import { manifestSchema } from "../../src/domain/manifest-schema.ts";

interface Expected {
  readonly diagnostics: readonly string[];
  readonly resources?: Record<string, unknown>;
  readonly routes?: Record<string, Record<string, string>>;
  readonly env?: Record<string, Record<string, EnvValue>>;
  readonly files?: readonly string[];
  readonly dropped?: Record<string, string>;
  readonly error?: string;
  readonly messages?: readonly string[];
  readonly hidden?: readonly string[];
  readonly python?: string;
}

const python = findPython({ env: process.env });
const CORPUS = path.join(import.meta.dirname, "corpus");

describe("each project of the corpus gives the expected declarations or diagnostics", () => {
  const cases = readdirSync(CORPUS).sort();
  for (const name of cases) {
    test(name.replaceAll("-", " "), async () => {
      const projectDir = path.join(CORPUS, name);
      const expected = JSON.parse(readFileSync(path.join(projectDir, "expected.json"), "utf8")) as Expected;
      const scan = await scanProject({
        projectDir,
        environment: { ...process.env, CORPUS_TOKEN: "from-outside" },
        python: () => python,
      });
      if (expected.python !== undefined && !(await isThere(expected.python, projectDir))) {
        const [found, ...more] = scan.diagnostics;
        assert.deepEqual([found?.rule, more], ["syntax-error", []]);
        assert.match(found!.help, /python3\.\d+ .*on the PATH/);
        return;
      }
      assert.deepEqual(scan.diagnostics.map(oneLine).sort(), [...expected.diagnostics].sort());
      checkError(scan, expected);
      if (expected.resources !== undefined) checkManifest(scan, expected);
      if (expected.files) {
        assert.deepEqual(scan.files.files.map((file) => file.path).sort(), [...expected.files].sort());
      }
      if (expected.dropped) {
        const rules = Object.fromEntries(scan.files.dropped.map(({ path: file, rule }) => [file, rule]));
        assertContains(rules, expected.dropped, "dropped");
      }
    });
  }

  test("the corpus has at least 40 projects, and each has an expectation", () => {
    assert.ok(cases.length >= 40);
    for (const name of cases) assert.ok(existsSync(path.join(CORPUS, name, "expected.json")), name);
  });
});

/** Whether a Python of this version or a newer one reads the project. */
async function isThere(version: string, projectDir: string): Promise<boolean> {
  const sources = new Sources(projectDir, listProjectFiles(projectDir).files);
  const { version: found } = (await newerPython(sources, await python, process.env)) ?? (await python);
  return Number(found.split(".")[1]) >= Number(version.split(".")[1]);
}

function oneLine({ severity, rule, file, line, column }: Diagnostic): string {
  return `${severity} ${rule} ${[file, line, column].filter((part) => part !== undefined).join(":")}`;
}

function checkError(scan: Scan, expected: Expected): void {
  const code = expected.error ?? (scan.diagnostics.some(isError) ? "BUILD_FAILED" : undefined);
  let shown = scan.diagnostics.map((diagnostic) => formatDiagnostic(diagnostic)).join("\n");
  if (code === undefined) requireScan(scan);
  else {
    assert.throws(
      () => requireScan(scan),
      (error) => {
        assert.ok(error instanceof SvcError);
        assert.equal(error.code, code);
        shown += `${error.message}\n${error.help}`;
        return true;
      },
    );
  }
  for (const text of expected.hidden ?? []) assert.ok(!shown.includes(text), `"${text}" is shown in:\n${shown}`);
  for (const message of expected.messages ?? []) assert.ok(shown.includes(message), `no "${message}" in:\n${shown}`);
}

function checkManifest(scan: Scan, expected: Expected): void {
  const digest = "0".repeat(64);
  const manifest: Manifest = manifestSchema.strict().parse(
    makeManifest(
      scan.endpoints,
      (endpoint) => ({
        pythonVersion: endpoint.pythonVersion ?? "3.11",
        baseDependencies: [],
        dependencyLayer: null,
      }),
      digest,
    ),
  );
  assert.deepEqual(Object.keys(manifest.resources).sort(), Object.keys(expected.resources!).sort());
  assertContains(manifest.resources, expected.resources, "resources");
  if (expected.routes !== undefined) assert.deepEqual(manifest.routes, expected.routes);
  for (const [name, env] of Object.entries(expected.env ?? {})) {
    assert.deepEqual(scan.endpoints.find((endpoint) => endpoint.name === name)?.env, env);
  }
}

/** Every value that `expected` names is there; objects may have more keys. */
function assertContains(actual: unknown, expected: unknown, where: string): void {
  if (typeof expected !== "object" || expected === null) {
    assert.deepEqual(actual, expected, where);
  } else if (Array.isArray(expected)) {
    assert.ok(Array.isArray(actual), where);
    assert.equal(actual.length, expected.length, `${where}.length`);
    for (const [i, item] of expected.entries()) assertContains(actual[i], item, `${where}[${i}]`);
  } else {
    assert.ok(typeof actual === "object" && actual !== null, where);
    for (const [key, value] of Object.entries(expected)) {
      assertContains((actual as Record<string, unknown>)[key], value, `${where}.${key}`);
    }
  }
}
