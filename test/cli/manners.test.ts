import assert from "node:assert/strict";
import { type StdioOptions, spawnSync } from "node:child_process";
import { closeSync, openSync, readFileSync } from "node:fs";
import { describe, test } from "node:test";
import { commandsFor } from "../../src/cli/app.ts";
import type { Route } from "../../src/cli/command.ts";
import { VERSION } from "../../src/domain/version.ts";
import { sandbox } from "./run-svc.ts";

const box = await sandbox();
const COMMANDS = [
  ["init"],
  ["build"],
  ["deploy"],
  ["undeploy"],
  ["status"],
  ["login"],
  ["logout"],
  ["whoami"],
  ["env", "list"],
  ["app", "list"],
  ["platform", "start"],
  ["platform", "stop"],
  ["platform", "status"],
  ["platform", "logs"],
  ["completions"],
  ["version"],
];

describe("svc manners", () => {
  test("svc --version, -v and version print the version", async () => {
    for (const arg of ["--version", "-v", "version"]) {
      assert.deepEqual(await box.svc([arg]), { code: 0, stdout: `${VERSION}\n`, stderr: "" });
    }
  });

  test("svc alone shows what to do next", async () => {
    const { code, stdout } = await box.svc([]);
    assert.equal(code, 0);
    assert.match(stdout, /What to do next:\n {2}svc init my-project/);
  });

  test("every command has --help with examples of itself", async () => {
    const pages = await Promise.all(
      COMMANDS.map(async (words) => ({ words, ...(await box.svc([...words, "--help"])) })),
    );
    for (const { words, code, stdout, stderr } of pages) {
      assert.equal(code, 0, words.join(" "));
      assert.equal(stderr, "");
      assert.match(stdout, /\nExamples:\n/, words.join(" "));
      const examples = stdout.slice(stdout.indexOf("Examples:"));
      assert.ok(examples.includes(`svc ${words.join(" ")}`), `the examples of ${words.join(" ")} show it`);
    }
  });

  test("the top help names every command", async () => {
    const { stdout } = await box.svc(["--help"]);
    for (const [name] of COMMANDS) assert.match(stdout, new RegExp(`^ {2}${name} {2,}`, "m"));
    // Each once, below the title of its group.
    for (const [name] of COMMANDS) assert.equal(stdout.match(new RegExp(`^ {2}${name} {2,}`, "gm"))?.length, 1, name);
    assert.match(stdout, /^Start:\n {2}init [\s\S]*^Develop:\n[\s\S]*^Deploy:\n {2}deploy /m);
    assert.equal((await box.svc(["help"])).stdout, stdout);
  });

  test("the reference has every command and flag, and no other flag", async () => {
    const page = readFileSync(new URL("../../docs/reference/cli.md", import.meta.url), "utf8");
    const [table, ...sections] = page.split(/^## (?=svc )/m);
    const flags = new Set(["--help", "--version"]);
    const missing: string[] = [];
    const look = (section: string, route: Route, typed: string) => {
      if (!section.includes(typed)) missing.push(typed);
      for (const { names } of route.page.flags) {
        const [, negated, flag] = /--(\[no-\])?([a-z-]+)/.exec(names)!;
        const forms = negated === undefined ? [`--${flag}`] : [`--${flag}`, `--no-${flag}`];
        if (!forms.some((form) => new RegExp(`${form}(?![a-z-])`).test(section))) missing.push(`${typed} ${forms[0]}`);
        for (const form of forms) flags.add(form);
      }
      for (const [word, each] of Object.entries(route.commands ?? {})) look(section, each, `${typed} ${word}`);
    };
    for (const [name, route] of Object.entries((await commandsFor(undefined)).commands)) {
      if (!table!.includes(`\`svc ${name}`)) missing.push(`svc ${name} in the table`);
      look(sections.find((text) => new RegExp(`^svc .*\\b${name}\\b`).test(text)) ?? table!, route, `svc ${name}`);
    }
    assert.deepEqual(missing, []);
    assert.deepEqual(
      page.match(/(?<=[`[ ])--[a-z][a-z-]+/g)!.filter((flag) => !flags.has(flag)),
      [],
    );
  });

  test("a page of help shows each flag with its letter and its value, and says no more than once", async () => {
    const [page, asked, letter] = await Promise.all([
      box.svc(["deploy", "--help"]),
      box.svc(["help", "deploy"]),
      box.svc(["deploy", "-h"]),
    ]);
    assert.match(page.stdout, /^ {2}-a, --app NAME +App; default: the name of this directory$/m);
    assert.match(page.stdout, /^ {6}--dry-run +Build and show/m);
    assert.doesNotMatch(page.stdout, /inputs should be interpreted/);
    assert.deepEqual([asked, letter], [page, page]);
    for (const line of page.stdout.split("\n")) assert.ok(line.length <= 100, line);
    const group = await box.svc(["help", "platform"]);
    assert.match(group.stdout, /^Usage: svc platform COMMAND\n[\s\S]*^Commands:\n {2}start +Start the platform/m);
    const wrong = await box.svc(["help", "deploi"]);
    assert.equal(wrong.code, 2);
    assert.match(wrong.stderr, /Did you mean deploy\?/);
  });

  test("an error names its code, and svc help CODE says why it comes and what to do", async () => {
    const failed = await box.svc(["status"], { env: { PLATFORM_URL: "http://127.0.0.1:1", PLATFORM_API_KEY: "k" } });
    assert.match(failed.stderr, /cannot be reached[\s\S]*\n {2}svc help PLATFORM_UNREACHABLE\n$/);
    const { code, stdout } = await box.svc(["help", "WRONG_SIGNATURE"]);
    assert.equal(code, 0);
    assert.match(stdout, /^WRONG_SIGNATURE \(HTTP 403\): The signed URL is not valid\n\nA signed URL was changed/);
    assert.match(stdout, /Ask for a new one\.\n$/);
    for (const line of stdout.split("\n")) assert.ok(line.length <= 100, line);
    const unknown = await box.svc(["help", "NO_SUCH_CODE"]);
    assert.equal(unknown.code, 2);
  });

  test("wrong use ends with exit code 2, names the next command and prints nothing on stdout", async () => {
    const cases: [args: string[], message: RegExp, next: RegExp][] = [
      [["deploi"], /Unknown command "deploi"\. Did you mean deploy\?/, /Run svc --help\./],
      [["platform", "strat"], /Unknown command "strat"\. Did you mean start\?/, /Run svc platform --help\./],
      [
        ["deploy", "--keep-remove"],
        /There is no flag --keep-remove\. Did you mean --keep-removed\?/,
        /svc deploy --help/,
      ],
      [["deploy", "-z"], /There is no flag -z\./, /svc deploy --help/],
      [["deploy", "--env"], /--env needs a value\./, /svc deploy --help/],
      [["init"], /PROJECT_NAME is missing\./, /svc init --help/],
      [["init", "a", "b"], /"b" is one argument too many\./, /svc init --help/],
      [["platform", "start", "--port", "x"], /--port cannot be "x": a whole number/, /svc platform start --help/],
      [["platform", "start", "--durability", "x"], /--durability cannot be "x": it is normal or full\./, /--help/],
      [["undeploy"], /Say what to remove\./, /svc undeploy ENDPOINT_NAME/],
      [["undeploy", "x", "--all"], /Give "x" or --all, not both\./, /svc undeploy --help/],
    ];
    const outcomes = await Promise.all(cases.map(([args]) => box.svc(args)));
    for (const [index, [args, message, next]] of cases.entries()) {
      const { code, stdout, stderr } = outcomes[index]!;
      assert.equal(code, 2, args.join(" "));
      assert.equal(stdout, "");
      assert.match(stderr, message);
      assert.match(stderr, next);
    }
  });

  test("output that cannot be written is a failure in words; errors that cannot be are none", () => {
    const full = openSync("/dev/full", "w");
    const run = (words: string[], stdio: StdioOptions) =>
      spawnSync(process.execPath, box.command(words), { cwd: box.cwd, env: box.env, stdio, encoding: "utf8" });
    for (const words of [["--help"], ["platform", "start", "--help"], []]) {
      const { status, stderr } = run(words, ["ignore", full, "pipe"]);
      assert.equal(status, 1, stderr);
      assert.match(
        stderr,
        /^error: The output cannot be written: ENOSPC: no space left on device, write\n {2}Make room/,
      );
      assert.doesNotMatch(stderr, /\n {4}at /);
    }
    const { status, stdout } = run(["status"], ["ignore", "pipe", full]);
    assert.deepEqual({ status, stdout }, { status: 1, stdout: "" });
    closeSync(full);
  });

  test("colours appear only where they are wanted", async () => {
    const csi = "\u001b[";
    const forced = await box.svc(["nope"], { env: { FORCE_COLOR: "1" } });
    assert.ok(forced.stderr.includes(csi));
    for (const env of [{}, { NO_COLOR: "1" }, { NO_COLOR: "1", FORCE_COLOR: "1" }] as Record<string, string>[]) {
      assert.ok(!(await box.svc(["nope"], { env })).stderr.includes(csi));
    }
  });
});
