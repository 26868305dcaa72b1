import assert from "node:assert/strict";
import path from "node:path";
import { test } from "node:test";
import { onPath } from "../../src/lib/on-path.ts";
import { runProcess } from "../../src/lib/run-process.ts";
import { CTRL_C, openPseudoTerminal } from "../cli/pseudo-terminal.ts";
import { project, ROOT, startPlatform } from "./platform.ts";

const DOUBLE = `
import asyncio
from svc import Endpoint

@Endpoint("double", workers=(1, 2), max_concurrency=16)
async def double(x: int) -> int:
    return 2 * x

@Endpoint("slow", workers=(1, 1), max_concurrency=16)
async def a_function_whose_long_name_leaves_little_of_a_line_to_its_numbers(x: int) -> int:
    await asyncio.sleep(0.05)
    return x
`;

const WATCHED = `
from double import a_function_whose_long_name_leaves_little_of_a_line_to_its_numbers as slow

for _ in slow.map(range(100_000), progress=True):
    pass
`;
const COLUMNS = 80;

/** What is taken ahead of the results stays bounded, and so does the memory between the 2,000th and the last item. */
const SCRIPT = `
import itertools, json, os
from double import double

def resident_kb():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") // 1024

taken = itertools.count()
most = total = early = 0
for done, value in enumerate(double.map((next(taken) for _ in range(10_000)), ordered=False), 1):
    total += value
    if done % 1000 == 0:
        most = max(most, taken.__reduce__()[1][0] - done)
    if done == 2000:
        early = resident_kb()
print(json.dumps({"total": total, "most": most, "grown_kb": resident_kb() - early}))
`;

test("A map of 10,000 items through a platform holds few of them at a time, and no more memory for it", async (t) => {
  const platform = await startPlatform(t);
  const cwd = project(t, { "double.py": DOUBLE, "script.py": SCRIPT, "watched.py": WATCHED }, "shop");
  const deploy = await platform.svc(["deploy"], { cwd });
  assert.equal(deploy.code, 0, deploy.stderr);
  const env = {
    PATH: process.env.PATH,
    PYTHONPATH: path.join(ROOT, "python/src"),
    PLATFORM_URL: platform.url,
    PLATFORM_API_KEY: platform.key,
  };
  const { code, stdout, stderr } = await runProcess("python3", ["script.py"], { cwd, env });
  assert.equal(code, 0, stderr);
  const { total, most, grown_kb } = JSON.parse(stdout);
  assert.equal(total, 9_999 * 10_000);
  assert.ok(most <= 32 * 8, `${most} items were taken ahead`);
  assert.ok(grown_kb < 8192, `${grown_kb} KiB more after 8,000 further items`);

  await t.test(
    "on a terminal its line stays one line, and Ctrl+C leaves it whole and the cursor below it",
    async (t) => {
      const python = onPath("python3", process.env.PATH ?? "")!;
      const terminal = openPseudoTerminal([python, "watched.py"], { cwd, env: env as Record<string, string> });
      t.after(terminal.close);
      await terminal.shows(/ {2}\d+\/100000 {2}.* left *\r.* {2}\d+\/100000 /);
      terminal.type(CTRL_C);
      await terminal.ended;
      const at = terminal.raw.indexOf("\r\nTraceback");
      assert.ok(at > 0 && terminal.raw.trimEnd().endsWith("KeyboardInterrupt"), terminal.text);
      const lines = terminal.raw.slice(0, at).split("\r").slice(1);
      for (const line of lines) {
        assert.ok(line.length < COLUMNS && !line.includes("\n"), JSON.stringify(line));
        assert.match(line, /^a_function_whose_long_name_\w*\.\.\. {2}\d+\/100000 {2}[\d.]+\/s {2}/);
      }
      assert.match(lines.at(-1)!, / in 0:\d\d *$/);
      const typed = lines.findIndex((line) => line.endsWith("^C"));
      assert.ok(
        typed >= 0 && lines.at(-1)!.length >= lines[typed]!.length,
        "what the terminal shows of Ctrl+C is covered",
      );
    },
  );
});
