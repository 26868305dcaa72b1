/** What workers print is others' text: the developer's terminal shows its control characters and obeys none. */
import assert from "node:assert/strict";
import { once } from "node:events";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { test } from "node:test";
import { terminalText } from "../../src/lib/terminal-text.ts";
import { startSvcRun } from "../dev/svc-run.ts";
import { project, startPlatform, svc, tempDir } from "../e2e/platform.ts";
import { eventually } from "../eventually.ts";

const OBEYED = /\u001b(?!\[[0-9;:]*m)|[\u0000-\u0008\u000b-\u001a\u001c-\u001f\u007f-\u009f]/;
const EVIL = String.raw`\x1b]52;c;cm0gLXJmIH4=\x07\x1b[2J\x1b[1A\rgone\x9b2J\x1b[31mred\x1b[0m`;
const FILES = {
  "main.py": `from svc import Endpoint, progress

@Endpoint(name="evil", workers=(0, 1))
def evil(fail: bool = False):
    print("${EVIL}")
    progress("${EVIL}")
    if fail:
        raise RuntimeError("${EVIL}")
    return "${EVIL}"
`,
  "broken.py": `from svc import Endpoint

@Endpoint(name="broken", workers=(1, 1))
def broken(): ...

raise RuntimeError("${EVIL}")
`,
};

test("control characters of workers reach no terminal: logs, jobs, status, svc run", {
  timeout: 300_000,
}, async (t) => {
  const platform = await startPlatform(t);
  const cwd = project(t, FILES);
  const deployed = await platform.svc(["deploy"], { cwd });
  assert.match(deployed.stdout + deployed.stderr, /\]52;c;/);
  assert.doesNotMatch(deployed.stdout + deployed.stderr, OBEYED, "deploy");
  const endpoint = await eventually(async () => {
    const found = (await platform.endpoints()).find(({ name }) => name === "evil");
    assert.ok(found);
    return found;
  });
  for (const fail of [false, true]) await platform.call(`${endpoint.url}/runsync`, { body: { input: { fail } } });
  const shows = async (args: string[], pattern: RegExp) => {
    await eventually(async () => {
      const { stdout, stderr } = await platform.svc(args, { cwd, env: { FORCE_COLOR: "1", NO_COLOR: "" } });
      assert.doesNotMatch(stdout + stderr, OBEYED, args.join(" "));
      assert.match(stdout + stderr, pattern, args.join(" "));
    });
  };
  await shows(["logs", "evil"], /\\u001b\]52;c;.*\\u0007.*\u001b\[31mred\u001b\[0m/);
  await shows(["logs", "evil", "--json"], /u001b\]52/);
  await shows(["jobs", "evil"], /FAILED/);
  await shows(["status"], /\]52;c;/);

  const server = await startSvcRun(t, platform, cwd, [], { FORCE_COLOR: "1", NO_COLOR: "" });
  await fetch(`${server.url}/main/runsync`, { method: "POST", body: '{"input":{"fail":true}}' });
  await eventually(() => assert.match(server.output(), /RuntimeError.*\]52;c;/s));
  assert.doesNotMatch(server.output(), OBEYED);
});

test("what a platform answers in an error is shown, not obeyed", { timeout: 300_000 }, async (t) => {
  const server = createServer((_req, res) => {
    const message = "\u001b]52;c;cm0=\u0007\u001b[2J \u202egnp.exe";
    res.writeHead(200, { "content-type": "application/json" });
    res.end(JSON.stringify({ errors: [{ message, extensions: { code: "INTERNAL" } }] }));
  }).listen(0, "127.0.0.1");
  t.after(() => server.close());
  await once(server, "listening");
  const env = {
    PLATFORM_URL: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    PLATFORM_API_KEY: "svc_k",
    SVC_CONFIG_DIR: tempDir(t),
  };
  const { stdout, stderr } = await svc(["status"], { env });
  assert.match(stderr, /\\u001b\]52;c;cm0=\\u0007/);
  assert.doesNotMatch(stdout + stderr, OBEYED);
  assert.equal(terminalText("a\tb\n\u001b[1;31mc\u001b[0m\r\nd\re"), "a\tb\n\u001b[1;31mc\u001b[0m\r\nd\\u000de");
});
