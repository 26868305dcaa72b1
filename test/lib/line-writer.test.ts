import assert from "node:assert/strict";
import { existsSync, mkdtempSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { eventually } from "../eventually.ts";
import { removeFolder } from "../remove-folder.ts";
import { type OutputKind, runUnread } from "../unread-output.ts";

for (const kind of ["pipe", "terminal", "socket"] satisfies OutputKind[]) {
  test(`a ${kind} that nobody reads makes no writer wait; who reads again gets what came last`, async (t) => {
    const dir = mkdtempSync(path.join(tmpdir(), "svc-lines-"));
    t.after(() => removeFolder(dir));
    const goesOn = path.join(dir, "it-goes-on");
    const writer = `
import { writeFileSync } from "node:fs";
import { lineWriter } from ${JSON.stringify(path.resolve(import.meta.dirname, "../../src/lib/log.ts"))};
const write = lineWriter(2, 4_096);
for (let n = 1; n <= 2_000; n++) write("line " + n + " " + "x".repeat(1_000) + "\\n");
writeFileSync(${JSON.stringify(goesOn)}, "");
setInterval(() => {}, 1_000);
`;
    const command = await runUnread(t, kind, [process.execPath, "--input-type=module", "--eval", writer]);
    await eventually(() => assert.ok(existsSync(goesOn)));
    const last: string[] = [];
    for await (const line of createInterface(command.read())) {
      last.push(line.split(" ", 2).join(" "));
      if (line.startsWith("line 2000 ")) break;
    }
    assert.deepEqual(last.slice(-3), ["line 1998", "line 1999", "line 2000"]);
  });
}
