/** On hardened machines, with a strict umask and closed folders, a platform closes its data to others and not its code to its workers. */
import assert from "node:assert/strict";
import { mkdtempSync, readdirSync, statSync } from "node:fs";
import path from "node:path";
import { type TestContext, test } from "node:test";
import { project, startPlatform } from "../e2e/platform.ts";
import { removeFolder } from "../remove-folder.ts";

const MAIN = `from svc import Endpoint
from pkg.deep.helper import WORD

@Endpoint(name="hello", workers=(0, 1))
def hello() -> str:
    return WORD
`;

async function helloOn(t: TestContext) {
  const platform = await startPlatform(t);
  const cwd = project(t, { "main.py": MAIN, "pkg/deep/helper.py": 'WORD = "read"\n' });
  const deployed = await platform.svc(["deploy"], { cwd });
  assert.equal(deployed.code, 0, deployed.stdout + deployed.stderr);
  const [endpoint] = await platform.endpoints();
  const answer = await platform.call(`${endpoint!.url}/runsync`, { body: { input: {} } });
  assert.equal(answer.json.output, "read", answer.text);
  return platform;
}

test("a data directory in a folder that root alone may enter is as good as any", { timeout: 300_000 }, async (t) => {
  if (process.getuid?.() !== 0) return t.skip("only root runs workers as other users");
  const closed = mkdtempSync("/var/lib/svc-closed-");
  const { TMPDIR = "/tmp" } = process.env;
  process.env.TMPDIR = closed;
  const platform = await helloOn(t).finally(() => {
    process.env.TMPDIR = TMPDIR;
    t.after(() => removeFolder(closed));
  });
  assert.ok(platform.dataDir.startsWith(`${closed}/`));
  assert.equal(statSync(closed).mode & 0o777, 0o700);
});

for (const umask of [0o077, 0o000]) {
  test(`with umask ${umask.toString(8).padStart(3, "0")} workers read their code and others nothing`, {
    timeout: 300_000,
  }, async (t) => {
    const before = process.umask(umask);
    t.after(() => process.umask(before));
    const platform = await helloOn(t);
    assert.equal(statSync(platform.dataDir).mode & 0o777, 0o700);
    const layers = path.join(platform.dataDir, "layers");
    for (const entry of readdirSync(layers, { recursive: true, withFileTypes: true })) {
      if (entry.isSymbolicLink()) continue;
      const { mode } = statSync(path.join(entry.parentPath, entry.name));
      assert.equal(mode & 0o7022, 0, `${entry.name}: nobody else writes it`);
    }
  });
}
