import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { readdir, readFile, writeFile } from "node:fs/promises";
import path from "node:path";
import { test } from "node:test";
import { openSqlite } from "../../src/lib/sqlite.ts";
import { eventually } from "../eventually.ts";
import { CTRL_C, CTRL_D, openPseudoTerminal } from "./pseudo-terminal.ts";
import { sandbox } from "./run-svc.ts";

const HELLO = `
from svc import Endpoint

@Endpoint(name="hello", workers=1)
def hello(name: str = "you") -> str:
    return name
`;
/** Its worker never becomes ready. */
const SLOW = `
import time
from svc import Endpoint

time.sleep(3600)

@Endpoint(name="slow", workers=(1, 1))
def slow() -> str:
    return "never"
`;
const INTERRUPTED = 130;

async function terminalIn(source: string, args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const box = await sandbox();
  await writeFile(path.join(box.cwd, "main.py"), source);
  const open = (words: readonly string[]) =>
    openPseudoTerminal([process.execPath, ...box.command(words)], { cwd: box.cwd, env: { ...box.env, ...env } });
  return { box, open, terminal: open(args) };
}

test("Ctrl+C at a question whose usual answer is yes starts and deploys nothing", async (t) => {
  for (const [keys, code] of [
    [CTRL_C, INTERRUPTED],
    [CTRL_D, 1],
  ] as const) {
    const { box, terminal } = await terminalIn(HELLO, ["deploy"]);
    t.after(terminal.close);
    await terminal.shows(/Start one on this machine\? \[Y\/n\]/);
    terminal.type(keys);
    assert.equal(await terminal.ended, code, terminal.text);
    assert.equal(existsSync(path.join(box.dataDir, "platform.json")), false);
  }
});

test("Ctrl+C while a platform starts leaves none, and the next start knows its key", async (t) => {
  const { box, terminal } = await terminalIn(HELLO, ["platform", "start"]);
  t.after(terminal.close);
  await terminal.shows(/Starting the platform/);
  terminal.type(CTRL_C);
  assert.equal(await terminal.ended, INTERRUPTED, terminal.text);
  assert.match(terminal.text, /The platform was not started\./);
  const { code, stderr } = await box.svc(["deploy"]);
  assert.equal(code, 0, stderr);
});

test("Ctrl+C while another has the data directory ends the wait for it", async (t) => {
  const { box, open, terminal: first } = await terminalIn(HELLO, ["platform", "start"]);
  assert.equal(await first.ended, 0, first.text);
  await box.svc(["platform", "stop"]);
  const other = openSqlite(path.join(box.dataDir, "platform.db"), "normal");
  t.after(() => other.close());
  const log = path.join(box.dataDir, "platform.log");
  const terminal = open(["platform", "start"]);
  t.after(terminal.close);
  await eventually(async () => assert.match(await readFile(log, "utf8"), /Another platform is running/));
  terminal.type(CTRL_C);
  assert.equal(await terminal.ended, INTERRUPTED, terminal.text);
  assert.match(terminal.text, /The platform was not started\./);
});

test("Ctrl+C that reaches the new platform before it reaches the command leaves none either", async () => {
  const box = await sandbox();
  const preloaded = path.join(box.cwd, "preloaded.cjs");
  await writeFile(preloaded, 'if (process.argv.includes("--foreground")) process.kill(process.pid, "SIGINT");\n');
  const env = { NODE_OPTIONS: `--require ${preloaded}` };
  const { code, stderr } = await box.svc(["platform", "start"], { env });
  assert.equal(code, INTERRUPTED, stderr);
  assert.match(stderr, /The platform was not started\./);
});

test("Ctrl+C while it waits for workers says that the deployment goes on, and the cursor is back", async (t) => {
  const { box, open, terminal: first } = await terminalIn(SLOW, ["platform", "start"]);
  assert.equal(await first.ended, 0, first.text);
  const terminal = open(["deploy"]);
  t.after(terminal.close);
  await terminal.shows(/slow: (preparing|replacing|starting)/);
  terminal.type(CTRL_C);
  assert.equal(await terminal.ended, INTERRUPTED, terminal.text);
  assert.match(terminal.text, /The deployment goes on without this command\. svc status shows it/);
  assert.ok(terminal.raw.lastIndexOf("\x1b[?25h") > terminal.raw.lastIndexOf("\x1b[?25l"));
  const { stdout } = await box.svc(["undeploy", "list"]);
  assert.match(stdout, /slow/);
});

test("Ctrl+C during a build leaves nothing of it", async (t) => {
  const box = await sandbox();
  // An installer that never ends.
  const uv = path.join(box.cwd, "uv");
  await writeFile(uv, "#!/bin/sh\nexec sleep 3600\n", { mode: 0o755 });
  await writeFile(path.join(box.cwd, "main.py"), HELLO.replace("workers=1", 'workers=1, dependencies=["colorama"]'));
  const env = { ...box.env, PATH: `${box.cwd}:${box.env.PATH}` };
  const terminal = openPseudoTerminal([process.execPath, ...box.command(["build"])], { cwd: box.cwd, env });
  t.after(terminal.close);
  await terminal.shows(/Building: .*(colorama|Installing|dependencies)/);
  terminal.type(CTRL_C);
  assert.equal(await terminal.ended, INTERRUPTED, terminal.text);
  const left = existsSync(path.join(box.cwd, ".svc")) ? await readdir(path.join(box.cwd, ".svc")) : [];
  assert.deepEqual(left, []);
});
