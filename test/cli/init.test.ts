import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { wheelName } from "../../src/domain/published-name.ts";
import { VERSION } from "../../src/domain/version.ts";
import { openPseudoTerminal } from "./pseudo-terminal.ts";
import { sandbox } from "./run-svc.ts";

/** The wheel of svc's Python package lies in .svc. */
const FILES = [
  ".env.example",
  ".gitignore",
  ".svcignore",
  "README.md",
  "cpu_worker.py",
  "gpu_worker.py",
  "lb_worker.py",
  "pyproject.toml",
  "requirements.txt",
];
const QUESTION = "Continue and overwrite these files? [y/N]";

describe("svc init", () => {
  test("creates exactly the files of the spec, with the project's name", async () => {
    const { svc, cwd } = await sandbox();
    const { code, stdout } = await svc(["init", "My Project"]);
    assert.equal(code, 0);
    assert.deepEqual((await readdir(join(cwd, "My Project"))).sort(), [...FILES, ".svc"].sort());
    assert.match(await readFile(join(cwd, "My Project", "pyproject.toml"), "utf8"), /^name = "my-project"$/m);
    for (const file of FILES) {
      assert.ok(!(await readFile(join(cwd, "My Project", file), "utf8")).match(/__[A-Z_]+__/), file);
    }
    assert.match(stdout, /svc deploy/);
  });

  test("nothing that it prints wraps on a terminal of 80 columns, the question neither", async () => {
    const box = await sandbox();
    const svc = fileURLToPath(new URL("../../bin/svc", import.meta.url));
    await writeFile(join(box.cwd, "lb_worker.py"), "mine");
    const terminal = openPseudoTerminal([svc, "init", "."], { cwd: box.cwd, env: box.env, columns: 80 });
    await terminal.shows(/\[y\/N\]/);
    terminal.type("y\r");
    assert.equal(await terminal.ended, 0, terminal.text);
    assert.match(terminal.text, /^Next:\n {2}cp \.env\.example/m);
    assert.deepEqual(
      terminal.text.split("\n").filter((line) => line.length > 80),
      [],
    );
  });

  test('"." initialises the current directory', async () => {
    const { svc, cwd } = await sandbox();
    assert.equal((await svc(["init", "."])).code, 0);
    assert.deepEqual((await readdir(cwd)).sort(), [...FILES, ".svc"].sort());
    assert.deepEqual(await readdir(join(cwd, ".svc")), ["wheels"]);
  });

  test("lists the files to be overwritten, asks, and with N, nothing or no input leaves every file alone", async () => {
    for (const input of ["N\n", "n\n", "\n", "", "yeah no\n"]) {
      const { svc, cwd } = await sandbox();
      await mkdir(join(cwd, "p"));
      await writeFile(join(cwd, "p", "lb_worker.py"), "mine");
      const { code, stderr } = await svc(["init", "p"], { input });
      assert.equal(code, 1);
      assert.ok(stderr.includes(QUESTION));
      assert.match(stderr, /overwritten:\n {2}lb_worker\.py\n/);
      assert.match(stderr, /--force/);
      assert.deepEqual(await readdir(join(cwd, "p")), ["lb_worker.py"]);
      assert.equal(await readFile(join(cwd, "p", "lb_worker.py"), "utf8"), "mine");
    }
  });

  test("a y overwrites, and files that the template does not have stay", async () => {
    const { svc, cwd } = await sandbox();
    await writeFile(join(cwd, "lb_worker.py"), "mine");
    await writeFile(join(cwd, "other.py"), "mine");
    assert.equal((await svc(["init", "."], { input: "y\n" })).code, 0);
    assert.match(await readFile(join(cwd, "lb_worker.py"), "utf8"), /Endpoint\(name="lb_worker"/);
    assert.equal(await readFile(join(cwd, "other.py"), "utf8"), "mine");
  });

  test("--force and -f overwrite without a question", async () => {
    for (const flag of ["--force", "-f"]) {
      const { svc, cwd } = await sandbox();
      await writeFile(join(cwd, "lb_worker.py"), "mine");
      const { code, stderr } = await svc(["init", ".", flag]);
      assert.equal(code, 0);
      assert.ok(!stderr.includes(QUESTION));
      assert.match(await readFile(join(cwd, "lb_worker.py"), "utf8"), /Endpoint/);
    }
  });

  test("a file with the project's name is refused", async () => {
    const { svc, cwd } = await sandbox();
    await writeFile(join(cwd, "p"), "");
    const { code, stderr } = await svc(["init", "p", "--force"]);
    assert.equal(code, 1);
    assert.match(stderr, /"p" is a file, not a directory\./);
  });

  test("the Python files compile and name one endpoint each", async () => {
    const { svc, cwd } = await sandbox();
    await svc(["init", "."]);
    for (const name of ["lb_worker", "gpu_worker", "cpu_worker"]) {
      const source = await readFile(join(cwd, `${name}.py`), "utf8");
      assert.ok(source.includes(`name="${name}"`));
      await promisify(execFile)("/usr/bin/env", ["python3", "-c", "import ast, sys; ast.parse(sys.argv[1])", source]);
    }
  });

  test("nothing installs a package named svc from an index", async () => {
    const { svc, cwd } = await sandbox();
    await svc(["init", "."]);
    const requirements = await readFile(join(cwd, "requirements.txt"), "utf8");
    assert.deepEqual(
      requirements.split("\n").filter((line) => line !== "" && !line.startsWith("#")),
      [`./.svc/wheels/${wheelName(VERSION)}`],
    );
    assert.match(await readFile(join(cwd, "pyproject.toml"), "utf8"), /^dependencies = \[\]$/m);
  });
});
