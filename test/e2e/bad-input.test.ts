import assert from "node:assert/strict";
import { chmodSync, mkdirSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import path from "node:path";
import { test } from "node:test";
import { type CliResult, project, svc, tempDir } from "./platform.ts";

/** One clear message, exit code 1, no stack trace. */
function assertClear(result: CliResult, ...patterns: RegExp[]): void {
  assert.equal(result.code, 1, result.stdout + result.stderr);
  for (const pattern of patterns) assert.match(result.stderr, pattern);
  assert.doesNotMatch(result.stderr, /\n\s+at .*[:(]|Traceback|node:internal/);
}

const PROJECTS: readonly { title: string; files: Record<string, string>; says: RegExp[] }[] = [
  {
    title: "A project without endpoints: the build reports none found and lists what it looked at",
    files: { "worker.py": "def hello():\n    return 1\n" },
    says: [/No function .* decorated with Endpoint/, /worker\.py/],
  },
  {
    title: "A name used twice by queue-based functions is an error with both places",
    files: {
      "a.py": 'from svc import Endpoint\n\n@Endpoint(name="twin")\ndef one():\n    return 1\n',
      "b.py": 'from svc import Endpoint\n\n@Endpoint(name="twin")\ndef two():\n    return 2\n',
    },
    says: [/twin/, /a\.py:3/, /b\.py:3/],
  },
  {
    title: "An unknown keyword names the nearest one",
    files: {
      "worker.py": 'from svc import Endpoint\n\n@Endpoint(name="hello", worker=(0, 1))\ndef hello():\n    return 1\n',
    },
    says: [/worker\.py:3:\d+/, /workers/],
  },
  {
    title: "A syntax error in a worker file is shown with its place",
    files: {
      "worker.py": 'from svc import Endpoint\n\n@Endpoint(name="hello")\ndef hello(:\n    return 1\n',
    },
    says: [/worker\.py:4/, /syntax/i],
  },
];

for (const { title, files, says } of PROJECTS) {
  test(title, async (t) => {
    const cwd = project(t, files);
    assertClear(await svc(["build"], { cwd }), ...says);
  });
}

test("A busy port is named, with what to do", async (t) => {
  const server = createServer().listen(0, "127.0.0.1");
  t.after(() => server.close());
  await new Promise((resolve) => server.once("listening", resolve));
  const { port } = server.address() as { port: number };
  const dataDir = tempDir(t);
  const result = await svc(["platform", "start", "--port", String(port), "--data-dir", dataDir]);
  assertClear(result, new RegExp(`${port}`), /in use/, /--port|SVC_PORT/);
});

test("An unwritable data directory is named, with what to do", async (t) => {
  const dir = tempDir(t);
  const file = path.join(dir, "file");
  writeFileSync(file, "");
  assertClear(
    await svc(["platform", "start", "--port", "0", "--data-dir", path.join(file, "data")]),
    /data directory/i,
    /--data-dir/,
  );
  if (process.getuid?.() === 0) return; // root may write anywhere: the folder below cannot be made unwritable.
  const closed = path.join(dir, "closed");
  mkdirSync(closed);
  chmodSync(closed, 0o500);
  assertClear(await svc(["platform", "start", "--port", "0", "--data-dir", closed]), /data directory/i);
});
