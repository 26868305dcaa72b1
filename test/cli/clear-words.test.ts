/** What a person reads after a small mistake: what happened, where, what to do next. */
import assert from "node:assert/strict";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { test } from "node:test";
import { fileURLToPath } from "node:url";
import { SDK_NAMES } from "../../src/build/endpoint-findings.ts";
import { withoutTags } from "../../src/cli/plain-value.ts";
import { failureLine } from "../../src/domain/job.ts";
import { runProcess } from "../../src/lib/run-process.ts";
import { SVC } from "../program.ts";
import { CTRL_C, openPseudoTerminal } from "./pseudo-terminal.ts";
import { sandbox } from "./run-svc.ts";

const WORKER = 'from svc import Endpoint\n\n@Endpoint(name="w")\ndef w(): ...\n';

test("svc deploy in a home folder asks on a terminal, and refuses elsewhere unless it is forced", async () => {
  const box = await sandbox();
  const env = { HOME: box.cwd };
  await writeFile(join(box.cwd, "w.py"), WORKER);
  const refused = await box.svc(["deploy"], { env });
  assert.equal(refused.code, 2);
  assert.match(refused.stderr, /no project's own folder\.\n.*--force/);
  for (const cwd of ["/", "/tmp"]) assert.equal((await box.svc(["deploy"], { cwd })).code, 2, cwd);
  const terminal = openPseudoTerminal([SVC, "deploy"], { cwd: box.cwd, env: { ...box.env, ...env } });
  await terminal.shows(/Deploy all that is in it\? \[y\/N\]/);
  terminal.type("\r");
  assert.equal(await terminal.ended, 2);
  const asked = openPseudoTerminal([SVC, "deploy"], { cwd: box.cwd, env: { ...box.env, ...env } });
  await asked.shows(/\[y\/N\]/);
  asked.type(CTRL_C);
  assert.equal(await asked.ended, 130);
  // Forced it goes on to the next question, which nobody answers: is there a platform?
  const forced = openPseudoTerminal([SVC, "deploy", "--force"], { cwd: box.cwd, env: { ...box.env, ...env } });
  await forced.shows(/Start one on this machine\?/);
  forced.type("n\r");
  assert.equal(await forced.ended, 1);
});

test("settings of a platform that could not start with them are told before one is offered", async () => {
  const box = await sandbox();
  await writeFile(join(box.cwd, "w.py"), WORKER);
  for (const command of ["deploy", "run"]) {
    const terminal = openPseudoTerminal([SVC, command], { cwd: box.cwd, env: { ...box.env, SVC_PORT: "abc" } });
    assert.equal(await terminal.ended, 1, command);
    assert.match(terminal.text, /SVC_PORT: must be a number from 0 to 65535/);
    assert.doesNotMatch(terminal.text, /Start one|Starting/);
  }
});

test("a folder that is gone is told, and is no defect of svc", async () => {
  const box = await sandbox();
  const gone = join(box.cwd, "gone");
  const clone = fileURLToPath(new URL("../../bin/svc", import.meta.url));
  for (const words of ["status", "deploy", ""]) {
    await mkdir(gone);
    const script = `cd '${gone}' && rmdir '${gone}' && '${clone}' ${words}`;
    const { code, stderr } = await runProcess("sh", ["-c", script], { env: box.env });
    assert.equal(code, 1);
    assert.match(stderr, /error: The folder that svc was called in does not exist any more\.\n {2}Change into/);
    assert.doesNotMatch(stderr, /defect| {4}at /);
  }
});

test("an older Node gets a sentence with its version instead of a stack", async () => {
  const box = await sandbox();
  const older = 'Object.defineProperty(process, "versions", { value: { ...process.versions, node: "20.11.1" } })';
  const preload = `data:text/javascript,${encodeURIComponent(older)}`;
  const main = fileURLToPath(new URL("../../bin/svc.ts", import.meta.url));
  const { code, stderr } = await runProcess(process.execPath, ["--import", preload, main, "status"], { env: box.env });
  assert.equal(code, 1);
  assert.match(stderr, /^error: svc needs Node\.js 24\.10 or newer; this is 20\.11\.1 \(.*\)\n {2}Install a newer one/);
  const { engines } = JSON.parse(await readFile(new URL("../../package.json", import.meta.url), "utf8"));
  assert.match(engines.node, /24/);
});

test("settings that cannot be used are told with their names", async () => {
  const box = await sandbox();
  await writeFile(join(box.cwd, "w.py"), WORKER);
  const said = async (args: string[], env: Record<string, string> = {}) => (await box.svc(args, { env })).stderr;
  assert.match(
    await said(["status"], { PLATFORM_URL: "http://127.0.0.1:7878/v2/abc" }),
    /below a platform\.\n {2}at PLATFORM_URL in the environment\n {2}Give the platform's own address: http:\/\/127\.0\.0\.1:7878\./,
  );
  assert.match(await said(["platform", "start"], { SVC_PORT: "abc" }), /SVC_PORT.*must be a number from 0 to 65535/);
  assert.match(await said(["build"], { SVC_PYTHON: "/nope" }), /SVC_PYTHON names \/nope, and there is no such program/);
  const empty = await box.svc(["init", ""]);
  assert.equal(empty.code, 2);
  assert.match(empty.stderr, /PROJECT_NAME cannot be "": the name of a directory is needed/);
  for (const output of ["../x.tar.gz", "..", "a/../../x"]) {
    const outside = await box.svc(["build", "--output", output]);
    assert.equal(outside.code, 2, output);
    assert.match(outside.stderr, /names no file in \.svc\.\n.*absolute path/);
  }
  const absolute = await box.svc(["build", "--output", join(box.cwd, "mine.tar.gz")]);
  assert.equal(absolute.code, 0, absolute.stderr);
  await writeFile(join(box.cwd, ".env"), "PLATFORM_URL=http://127.0.0.1:9\nPLATFORM_API_KEY=svc_0123456789\n");
  const whoami = await box.svc(["whoami"]);
  assert.match(whoami.stdout, /PLATFORM_URL in \.env\)\nKey +svc_012345… \(from PLATFORM_API_KEY in \.env\)/);
});

test("--exclude says what it left out, and warns about a name that nothing asks for", async () => {
  const box = await sandbox();
  const worker = WORKER.replace('name="w"', 'name="w", dependencies=["scipy"]');
  await writeFile(join(box.cwd, "w.py"), worker);
  const { code, stderr } = await box.svc(["build", "--exclude", "SciPy,skipy"]);
  assert.equal(code, 0, stderr);
  assert.match(stderr, /Left out of the artifact by --exclude: SciPy\./);
  assert.match(stderr, /warning: --exclude names skipy, which no endpoint and none of its packages asks for\./);
});

test("the build knows the names of Python's package", async () => {
  const source = fileURLToPath(new URL("../../python/src", import.meta.url));
  const list = "import svc, pkgutil; print(*svc.__all__, *(m.name for m in pkgutil.iter_modules(svc.__path__)))";
  const { stdout } = await runProcess("python3", ["-c", list], { env: { ...process.env, PYTHONPATH: source } });
  const names = stdout
    .trim()
    .split(" ")
    .filter((name) => !/^_[a-z]/.test(name));
  assert.deepEqual([...SDK_NAMES].filter((name) => name !== "*").sort(), [...new Set(names)].sort());
});

test("a failure says its type once", () => {
  assert.equal(failureLine("KeyError", "KeyError: 'a'"), "KeyError: 'a'");
  assert.equal(failureLine("KeyError", "KeyError"), "KeyError");
  assert.equal(failureLine("ValueError", "no"), "ValueError: no");
  assert.equal(failureLine("", "worker lost"), "worker lost");
});

test("inputs of Python callers are shown without what their client adds", () => {
  const caller = {
    $svc: { from: "abc", chain: [] },
    when: { $svc: ["datetime", "2026-01-31T12:00:00"] },
    n: [1, { a: null }],
  };
  assert.deepEqual(withoutTags(caller), { when: "2026-01-31T12:00:00", n: [1, { a: null }] });
  assert.deepEqual(withoutTags({ $svc: ["dict", [[1, "x"]]] }), [[1, "x"]]);
  assert.equal(withoutTags("text"), "text");
});
