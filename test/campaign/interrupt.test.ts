import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { pathToFileURL } from "node:url";

test("a campaign that is interrupted leaves no platform, no disk and no folder behind, and ends by the signal", async () => {
  const subject = pathToFileURL(path.join(import.meta.dirname, "subject.ts")).href;
  const script = `
    const { Subject } = await import(${JSON.stringify(subject)});
    const { dir, pid } = await Subject.start();
    console.log(JSON.stringify({ dir, pid }));
    setInterval(() => {}, 1000);
  `;
  const child = spawn(process.execPath, ["--input-type=module", "-e", script], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const ended = once(child, "exit");
  const [line] = await once(createInterface(child.stdout), "line");
  const { dir, pid } = JSON.parse(line) as { dir: string; pid: number };
  assert.ok(existsSync(dir) && existsSync(`/proc/${pid}`));
  child.kill("SIGINT");
  assert.deepEqual(await ended, [null, "SIGINT"]);
  assert.equal(existsSync(`/proc/${pid}`), false);
  assert.equal(existsSync(dir), false);
  assert.ok(!readFileSync("/proc/mounts", "utf8").includes(dir));
});
