import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, readFileSync } from "node:fs";
import path from "node:path";
import { createInterface } from "node:readline";
import { test } from "node:test";
import { pathToFileURL } from "node:url";
import { eventually } from "../eventually.ts";

test("a campaign that is interrupted leaves no platform, no launcher, no disk and no folder behind, and ends by the signal", async () => {
  const subject = pathToFileURL(path.join(import.meta.dirname, "subject.ts")).href;
  const script = `
    const { Subject } = await import(${JSON.stringify(subject)});
    const { dir, dataDir, pid } = await Subject.start();
    console.log(JSON.stringify({ dir, dataDir, pid }));
    setInterval(() => {}, 1000);
  `;
  const child = spawn(process.execPath, ["--input-type=module", "-e", script], {
    stdio: ["ignore", "pipe", "inherit"],
    detached: true,
  });
  const ended = once(child, "exit");
  const [line] = await once(createInterface(child.stdout), "line");
  const { dir, dataDir, pid } = JSON.parse(line) as { dir: string; dataDir: string; pid: number };
  const launcher = (JSON.parse(readFileSync(path.join(dataDir, "launcher.json"), "utf8")) as { pid: number }).pid;
  const alive = () => [pid, launcher].map((one) => existsSync(`/proc/${one}`));
  assert.ok(existsSync(dir));
  assert.deepEqual(alive(), [true, true]);
  // As a terminal does: to all of the group.
  process.kill(-child.pid!, "SIGINT");
  assert.deepEqual(await ended, [null, "SIGINT"]);
  // The launcher ends by itself when its platform has.
  await eventually(() => assert.deepEqual(alive(), [false, false]));
  assert.equal(existsSync(dir), false);
  assert.ok(!readFileSync("/proc/mounts", "utf8").includes(dir));
});
