import assert from "node:assert/strict";
import path from "node:path";
import { test } from "node:test";
import { runProcess } from "../../src/lib/run-process.ts";

const MODULE = path.resolve(import.meta.dirname, "../../src/lib/run-process.ts");

test("A program that cannot start is a rejection: none of that name, or no free descriptor for its pipes", async () => {
  await assert.rejects(runProcess("/no/such/program", []), { code: "ENOENT" });
  const code = `
    import { openSync } from "node:fs";
    import { runProcess } from ${JSON.stringify(MODULE)};
    try { for (;;) openSync("/dev/null"); } catch {}
    const first = await runProcess("true", []).catch((error) => error.code);
    const second = await runProcess("true", [], { signal: new AbortController().signal }).catch((error) => error.code);
    process.stdout.write(first + " " + second);`;
  const script = 'ulimit -n 60; exec "$0" --input-type=module -e "$1"';
  const { code: ended, stdout, stderr } = await runProcess("sh", ["-c", script, process.execPath, code]);
  assert.deepEqual([ended, stdout], [0, "EMFILE EMFILE"], stderr);
});
