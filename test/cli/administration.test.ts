/** Rollback, environments, keys, secrets, logs and login with the real command line, platform and workers. */
import assert from "node:assert/strict";
import { mkdir, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { before, describe, test } from "node:test";
import { eventually } from "../eventually.ts";
import { startCommand } from "../start-command.ts";
import { openPseudoTerminal } from "./pseudo-terminal.ts";
import { type Outcome, sandbox } from "./run-svc.ts";

const CODE = `import os, sys
from svc import Endpoint, Secret

@Endpoint(name="hello", workers=(0, 1), env={"MODE": "VERSION", "TOKEN": Secret("TOKEN")})
def hello(print_it: bool = False) -> dict:
    if print_it:
        print("token is", os.environ["TOKEN"])
        print("to stderr", file=sys.stderr)
    return {"mode": os.environ["MODE"], "token": os.environ["TOKEN"]}
`;

const box = await sandbox();
const cwd = join(box.cwd, "shop");
await mkdir(cwd);

describe("administration", () => {
  const svc = (args: string[], input?: string): Promise<Outcome> => box.svc(args, { cwd, input });
  let url: string;
  let key: string;
  const ok = async (...args: string[]) => {
    const outcome = await svc(args);
    assert.equal(outcome.code, 0, outcome.stderr);
    return outcome;
  };
  const shown = async <T>(...args: string[]) => JSON.parse((await ok(...args, "--json")).stdout) as T;
  const call = async (input: object, secret = key) => {
    const [endpoint] = await shown<{ url: string }[]>("status");
    const response = await fetch(`${endpoint!.url}/runsync`, {
      method: "POST",
      headers: { authorization: `Bearer ${secret}` },
      body: JSON.stringify({ input }),
    });
    return { ...((await response.json()) as { id: string; output: Record<string, string> }), http: response.status };
  };
  /** The lines of a table on a terminal of 80 columns. */
  const onTerminal = async (...args: string[]) => {
    const terminal = openPseudoTerminal([process.execPath, ...box.command(args)], { cwd, env: box.env });
    assert.equal(await terminal.ended, 0, terminal.text);
    return terminal.text.trimEnd().split(/\r?\n/);
  };
  const write = (version: string) => writeFile(join(cwd, "hello.py"), CODE.replace("VERSION", version));

  before(async () => {
    await ok("platform", "start", "--port", "0");
    ({ url } = await shown<{ url: string }>("whoami"));
    key = (await ok("whoami", "--show-key")).stdout.trim();
  });

  test("a secret reaches the worker, is masked in its log, and is in no file of the platform", async () => {
    await write("one");
    const missing = await svc(["deploy"]);
    assert.equal(missing.code, 1);
    assert.match(missing.stderr, /svc secret set TOKEN --app shop --env production/);
    assert.equal((await svc(["secret", "set", "TOKEN"], "very-secret-value\n")).code, 0);
    await ok("deploy");
    const { output, id } = await call({ print_it: true });
    assert.deepEqual(output, { mode: "one", token: "very-secret-value" });

    const lines = (await ok("logs", "hello", "--job", id, "--json")).stdout.trim().split("\n");
    const texts = lines.map((line) => (JSON.parse(line) as { text: string }).text);
    assert.deepEqual(texts.sort(), ["to stderr", "token is ********"]);
    assert.match((await ok("logs", "hello", "--tail", "50")).stdout, /^\d\d:\d\d:\d\d w-\S+ token is \*{8}$/m);
    assert.match((await ok("secret", "list")).stdout, /TOKEN +\d{4}-/);
    assert.ok(!(await ok("secret", "list", "--json")).stdout.includes("very-secret"));
    assert.equal((await stat(join(box.dataDir, "secret.key"))).mode & 0o777, 0o600);

    for (const name of await readdir(box.dataDir, { recursive: true })) {
      // The result of the call above tells it, and results are kept.
      if (/platform\.db|blobs/.test(name) || !(await stat(join(box.dataDir, name))).isFile()) continue;
      assert.ok(!(await readFile(join(box.dataDir, name))).includes("very-secret-value"), name);
    }
  });

  test("a new value of a secret reaches the workers without a deploy", async () => {
    await svc(["secret", "set", "TOKEN"], "another-value");
    for (let i = 0; (await call({})).output.token !== "another-value"; i++) assert.ok(i < 200);
    assert.match((await svc(["secret", "rm", "TOKEN"])).stderr, /used by hello/);
  });

  test("svc rollback brings the earlier build back, with its variables", async () => {
    await write("two");
    await ok("deploy", "--message", "a message that is far longer than its column in a list can be");
    assert.equal((await call({})).output.mode, "two");
    for (const line of await onTerminal("rollback", "--list")) assert.ok(line.length <= 80, line);
    const builds = await shown<{ id: string; live: boolean }[]>("rollback", "--list");
    assert.deepEqual(
      builds.map(({ live }) => live),
      [true, false],
    );
    const { stdout, stderr } = await ok("rollback");
    assert.match(stdout, new RegExp(`shop/production runs the build ${builds[1]!.id} of .* again: hello`));
    assert.match(stderr, new RegExp(`svc rollback --to ${builds[0]!.id}`));
    for (let i = 0; (await call({})).output.mode !== "one"; i++) assert.ok(i < 200);
    await ok("rollback", "--to", builds[0]!.id);
    for (let i = 0; (await call({})).output.mode !== "two"; i++) assert.ok(i < 200);
    assert.match((await svc(["rollback", "--to", "nope"])).stderr, /no build "nope".*The newest are/s);
  });

  test("svc status --why explains what the autoscaler did", async () => {
    const { stdout } = await ok("status", "hello", "--why");
    assert.match(stdout, /^TIME +STARTED +STOPPED +WHY/);
    assert.match(stdout, /replaced by a new revision/);
    assert.equal((await svc(["status", "--why"])).code, 2);
  });

  test("svc logs without a name shows all endpoints, chosen by time, level and text", async () => {
    await call({ print_it: true });
    const texts = async (...flags: string[]) => {
      const { stdout } = await ok("logs", "--json", ...flags);
      return stdout.split("\n").flatMap((line) => (line === "" ? [] : [JSON.parse(line)]));
    };
    const found = await texts("--since", "1h", "--grep", "TO STDERR", "--tail", "1");
    assert.deepEqual(
      found.map(({ endpoint, text, level }) => [endpoint, text, level]),
      [["hello", "to stderr", "info"]],
    );
    assert.deepEqual(await texts("--until", "2020-01-01"), []);
    assert.match((await ok("logs", "--app", "shop", "-n", "1")).stdout, /^\d\d:\d\d:\d\d hello w-\S+ /);
    assert.match((await ok("logs", "--level", "error")).stderr, /No endpoint has printed such a line/);
    assert.equal((await svc(["logs", "--level", "grave"])).code, 2);
    assert.equal((await svc(["logs", "--since", "yesterday"])).code, 2);
  });

  test("svc logs --follow goes on with new lines", async (t) => {
    const { said } = startCommand(t, ["logs", "hello", "--follow", "--json", "--tail", "1"], box);
    await eventually(() => assert.match(said.out, /"text":/));
    const { id } = await call({ print_it: true });
    await eventually(() => assert.match(said.out, new RegExp(`"job":"${id}".*token is \\*{8}`)));
  });

  test("svc key create prints the key alone; a bound key reaches its endpoint; a revoked one nothing", async () => {
    const made = await ok("key", "create", "website", "--scopes", "invoke", "--endpoint", "hello", "--expires", "7d");
    const secret = made.stdout.trim();
    assert.match(secret, /^svc_\S{40,}$/);
    assert.match(made.stderr, /may invoke shop\/production\/hello/);
    assert.equal((await call({}, secret)).http, 200);
    const list = (await ok("key", "list")).stdout;
    assert.match(list, /website +svc_\S+… +invoke +shop\/production\/hello/);
    assert.ok(!list.includes(secret));
    const [, , shown] = await onTerminal("key", "list");
    assert.match(shown!, /website +svc_\S+ +invoke +shop\S* +\d{4}-\d\d-\d\d +\d+ s ago +\d{4}-\d\d-\d\d$/);
    assert.ok(shown!.length <= 80, shown);
    await ok("key", "revoke", "website");
    assert.equal((await call({}, secret)).http, 401);
    assert.equal((await svc(["key", "create", "x", "--scopes", "root"])).code, 2);
    assert.equal((await svc(["key", "revoke", "first key"])).code, 1, "the last admin key stays");
  });

  test("svc login asks for an approval and stores the key it gets", async (t) => {
    const other = await sandbox();
    const { said, ended } = startCommand(t, ["login", "--url", url, "--no-browser"], other);
    const code = await eventually(() => {
      const shown = /code is (\S{9})\./.exec(said.err);
      assert.ok(shown, said.err);
      return shown[1]!;
    });
    const done = await fetch(`${url}/device`, {
      method: "POST",
      body: new URLSearchParams({ code, key, decision: "approve" }),
    });
    assert.match(await done.text(), /Approved/);
    assert.equal(await ended, 0, said.err);
    assert.match((await other.svc(["whoami"])).stdout, /Valid +yes/);
    assert.match((await ok("key", "list")).stdout, new RegExp(hostname()));
  });

  test("a secret in an error at the start of a worker is masked too", async () => {
    const code = `import os
from svc import Endpoint, Secret

if "TOKEN" in os.environ: raise RuntimeError("cannot use " + os.environ["TOKEN"])

@Endpoint(name="broken", env={"TOKEN": Secret("TOKEN")})
def broken(): ...
`;
    await writeFile(join(cwd, "broken.py"), code);
    const { stderr } = await svc(["deploy"]);
    assert.match(stderr, /cannot use \*{8}/);
    assert.ok(!(await ok("status")).stdout.includes("another-value"));
    assert.ok(!(await readFile(join(box.dataDir, "platform.log"), "utf8")).includes("another-value"));
    await rm(join(cwd, "broken.py"));
    await ok("deploy");
  });

  test("svc env and svc app make and delete", async () => {
    await ok("env", "create", "staging");
    assert.match((await ok("env", "list")).stdout, /staging +0/);
    assert.match((await ok("env", "delete", "staging")).stdout, /Deleted shop\/staging/);
    const refused = await svc(["app", "delete", "shop"]);
    assert.equal(refused.code, 2);
    assert.match(refused.stderr, /production\/hello.*--force/s);
    assert.match((await ok("app", "delete", "shop", "--force")).stdout, /finish what they run: hello/);
    assert.deepEqual(await shown("app", "list"), []);
    assert.deepEqual(await shown("status"), []);
  });
});
