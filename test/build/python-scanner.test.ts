import assert from "node:assert/strict";
import { chmodSync, existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { describe, test } from "node:test";
import { findPython, type Interpreter } from "../../src/build/interpreter.ts";
import { PythonScanner } from "../../src/build/python-scanner.ts";
import type { ScanMemory } from "../../src/build/read-facts.ts";
import { scanProject } from "../../src/build/scan.ts";
import { HELLO, temporaryFolder, writeFiles } from "./project.ts";

type Teardown = { after(work: () => void): void };

/** A command that notes each start and then is `executable`. */
function counting(dir: string, name: string, executable: string): { command: string; starts(): number } {
  const command = path.join(dir, name);
  const calls = path.join(dir, `${name}.calls`);
  writeFiles(dir, { [name]: `#!/bin/sh\necho x >> ${calls}\nexec ${executable} "$@"\n` });
  chmodSync(command, 0o755);
  return {
    command,
    starts: () => (existsSync(calls) ? readFileSync(calls, "utf8").trim().split("\n").length : 0),
  };
}

function memory(): ScanMemory {
  let kept: Parameters<ScanMemory["remember"]>[0] | undefined;
  return {
    recall: () => kept,
    remember: async (facts) => {
      kept = JSON.parse(JSON.stringify(facts));
    },
  };
}

/** Scans one file, given as its text. */
async function scanText(t: Teardown, text: string, scanner?: PythonScanner) {
  const projectDir = temporaryFolder(t);
  writeFiles(projectDir, { "w.py": text });
  return scanProject({ projectDir, environment: process.env, scanner });
}

describe("Python reads the project's files", () => {
  test("once for each content, and runs nothing of them", async (t) => {
    const dir = temporaryFolder(t);
    const { executable, version } = await findPython({ env: process.env });
    const { command, starts } = counting(dir, "python", executable);
    writeFiles(dir, { "project/a.py": `open(${JSON.stringify(path.join(dir, "ran"))}, "w")\n${HELLO}` });
    const kept = memory();
    const scan = () =>
      scanProject({
        projectDir: path.join(dir, "project"),
        environment: process.env,
        python: async () => ({ executable: command, version }),
        memory: kept,
      });
    const first = await scan();
    assert.deepEqual(first.diagnostics, []);
    assert.deepEqual((await scan()).endpoints, first.endpoints);
    assert.equal(starts(), 1);
    writeFiles(dir, { "project/a.py": `${HELLO}\ndef f():\nreturn 1\n` });
    for (const _ of [1, 2]) {
      assert.deepEqual(
        (await scan()).diagnostics.map(({ rule, line }) => `${rule} ${line}`),
        ["syntax-error 9"],
      );
    }
    assert.equal(starts(), 3, "a file with an error is not remembered");
    assert.ok(!existsSync(path.join(dir, "ran")));
  });

  test("in one process for many scans of a session", async (t) => {
    const dir = temporaryFolder(t);
    const { executable, version } = await findPython({ env: process.env });
    const { command, starts } = counting(dir, "python", executable);
    const scanner = new PythonScanner(async () => ({ executable: command, version }));
    t.after(() => scanner.close());
    const scan = () => scanProject({ projectDir: path.join(dir, "project"), environment: process.env, scanner });
    writeFiles(dir, { "project/a.py": HELLO });
    await scan();
    writeFiles(dir, { "project/a.py": HELLO.replace('"hello"', '"changed"') });
    assert.deepEqual(
      (await scan()).endpoints.map(({ name }) => name),
      ["changed"],
    );
    assert.equal(starts(), 1);
  });

  test("that an older Python than the endpoint's rejects, with that one, or says which one it takes", async (t) => {
    const dir = temporaryFolder(t);
    const local = await findPython({ env: process.env });
    const older = counting(dir, "older", local.executable);
    const newer = counting(dir, "python3.14", local.executable);
    const asked: Interpreter = { executable: older.command, version: "3.10" };
    writeFiles(dir, { "project/a.py": `${HELLO.replace(")\ndef", ', python_version="3.14")\ndef')}\ndef (\n` });
    const scan = (PATH: string) =>
      scanProject({ projectDir: path.join(dir, "project"), environment: { PATH }, python: async () => asked });
    const [found] = (await scan(path.join(dir, "empty"))).diagnostics;
    assert.match(found!.message, /This machine's Python 3\.10 says so/);
    assert.match(found!.help, /python3\.14 .*on the PATH/);
    assert.equal(newer.starts(), 0);
    await scan(`${dir}${path.delimiter}${process.env.PATH}`);
    assert.ok(newer.starts() > 0);
  });
});

const DEEP = 5_000;

describe("a source that is written to break the scan gives findings, soon and in little memory", () => {
  const endpoint = (value: string, before = "") =>
    `from svc import Endpoint\n${before}\n@Endpoint(name="w", image=${value})\ndef w(): ...\n`;
  const hostile: Record<string, { text: string; rule: string | RegExp; message: RegExp }> = {
    "a power that has millions of digits": {
      text: endpoint("2 ** 9999999"),
      rule: "not-constant",
      message: /it is computed/,
    },
    "a power of a power": { text: endpoint("9 ** 9 ** 9 ** 9"), rule: "not-constant", message: /computed/ },
    "a text repeated to gigabytes": { text: endpoint('"x" * 10 ** 12'), rule: "not-constant", message: /computed/ },
    "lists of lists repeated": {
      text: endpoint("A * 10", 'A = ["x"] * 9999\nA = [A] * 9999\n'),
      rule: "not-constant",
      message: /computed|too large/,
    },
    "names that double one another": {
      text: endpoint(
        "A30",
        `A0 = "xxxx"\n${Array.from({ length: 30 }, (_, i) => `A${i + 1} = A${i} + A${i}`).join("\n")}\n`,
      ),
      rule: "not-constant",
      message: /too long to work out|too large|too deeply/,
    },
    "brackets within brackets": {
      text: endpoint(`${"[".repeat(DEEP)}${"]".repeat(DEEP)}`),
      rule: "syntax-error",
      message: /nested|stack overflow|too many/i,
    },
    "a sum of thousands": {
      text: endpoint(`${"1 + ".repeat(DEEP)}1`),
      // Some versions of Python parse it, some do not, and 3.10 ends over it.
      rule: /syntax-error|not-constant|unreadable/,
      message: /recursion|nested|overflow|SIGSEGV/i,
    },
    "a NUL byte": { text: `${endpoint('"x"')}# \0\n`, rule: "syntax-error", message: /NUL/ },
    "a number of thousands of digits": {
      text: endpoint("9".repeat(4_000)),
      rule: "not-constant",
      message: /plain number/,
    },
    "a name that changes thousands of times": {
      text: endpoint("A", `A = ""\n${'A += "x"\n'.repeat(DEEP)}`),
      rule: "not-constant",
      message: /too often|too deeply|too long/,
    },
  };
  for (const [name, { text, rule, message }] of Object.entries(hostile)) {
    test(name, async (t) => {
      const { diagnostics } = await scanText(t, text);
      const [found] = diagnostics;
      assert.match(found?.rule ?? "", new RegExp(rule));
      assert.match(found!.message, message);
    });
  }

  test("a file that is no UTF-8, and one that names another encoding", async (t) => {
    const projectDir = temporaryFolder(t);
    const named = `# coding: latin-1\n${HELLO}`;
    writeFiles(projectDir, {
      "a.py": Buffer.from(`${HELLO}# \u00e9\n`, "latin1"),
      "b.py": named.replace("hello", "b"),
    });
    const { diagnostics, endpoints } = await scanProject({ projectDir, environment: process.env });
    assert.deepEqual(
      diagnostics.map(({ rule, file }) => `${rule} ${file}`),
      ["encoding a.py"],
    );
    assert.ok(endpoints.some((each) => each.name === "b"));
  });

  test("a file that is too large is packed and not looked into, which a warning says", async (t) => {
    const { diagnostics, endpoints } = await scanText(t, `${HELLO}X = "${"x".repeat(3_000_000)}"\n`);
    assert.deepEqual(
      diagnostics.map(({ severity, rule }) => `${severity} ${rule}`),
      ["warning file-too-large"],
    );
    assert.deepEqual(endpoints, []);
  });

  test("a Python that ends or hangs over a file: the finding names the file", async (t) => {
    const dir = temporaryFolder(t);
    const { version } = await findPython({ env: process.env });
    const ends = "#!/bin/sh\necho w.py >&2\nkill -SEGV $$\n";
    writeFiles(dir, { ends, hangs: "#!/bin/sh\necho w.py >&2\nexec sleep 1000\n" });
    for (const [command, timeoutMs, why] of [
      ["ends", 60_000, /SIGSEGV/],
      ["hangs", 5_000, /took longer than/],
    ] as const) {
      chmodSync(path.join(dir, command), 0o755);
      const scanner = new PythonScanner(async () => ({ executable: path.join(dir, command), version }), timeoutMs);
      t.after(() => scanner.close());
      const [found] = (await scanText(t, HELLO, scanner)).diagnostics;
      assert.deepEqual([found?.rule, found?.file], ["unreadable", "w.py"]);
      assert.match(found!.message, why);
    }
  });
});
