import assert from "node:assert/strict";
import path from "node:path";
import { test } from "node:test";
import { runProcess } from "../../src/lib/run-process.ts";
import { project, ROOT, startPlatform } from "./platform.ts";

const DOUBLE = `
from svc import Endpoint

@Endpoint("double", workers=(1, 2), max_concurrency=16)
async def double(x: int) -> int:
    return 2 * x
`;

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
  const cwd = project(t, { "double.py": DOUBLE, "script.py": SCRIPT }, "shop");
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
});
