import assert from "node:assert/strict";
import { cpSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import path from "node:path";
import { test } from "node:test";
import { runProcess } from "../../src/lib/run-process.ts";
import { ROOT, tempDir } from "./platform.ts";

const SOURCE = `
from dataclasses import dataclass
from svc import Endpoint

@dataclass
class Point:
    x: int

@Endpoint(name="hello")
def hello(point: Point) -> int:
    return point.x + 1
`;

test("svc that lies in the home folder, which workers do not see, works as it does elsewhere", async (t) => {
  const home = path.join(tempDir(t), "home");
  const copy = path.join(home, "svc");
  for (const part of ["bin", "src", "python", "templates", "package.json"]) {
    cpSync(path.join(ROOT, part), path.join(copy, part), { recursive: true });
  }
  symlinkSync(path.join(ROOT, "node_modules"), path.join(copy, "node_modules"));
  const project = path.join(home, "project");
  mkdirSync(project);
  writeFileSync(path.join(project, "worker.py"), SOURCE);
  const env = { PATH: process.env.PATH, HOME: home, CI: "1", NO_COLOR: "1" };
  const svc = (...args: string[]) => runProcess(path.join(copy, "bin/svc"), args, { cwd: project, env });
  try {
    const deployed = await svc("deploy", "--force");
    assert.equal(deployed.code, 0, deployed.stderr);
    const called = await svc("call", "hello", '{"point": {"x": 1}}');
    assert.deepEqual([called.stdout, called.code], ["2\n", 0], called.stderr);
  } finally {
    await svc("platform", "stop", "--now");
  }
});
