/** A disk that stops answering when the test says so, as one of another machine does whose network is cut. Only root may mount one. */
import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import type { TestContext } from "node:test";
import { aptInstall } from "./apt-install.ts";
import { eventually } from "./eventually.ts";

const PROGRAM = "/usr/bin/bindfs";

/** Why there is none; undefined when it can be mounted. */
export async function lackOfHangingDisk(): Promise<string | undefined> {
  if (process.getuid?.() !== 0) return "needs root to mount a disk";
  if (!existsSync("/dev/fuse")) return "needs /dev/fuse";
  if (existsSync(PROGRAM)) return undefined;
  const problem = await aptInstall("bindfs");
  return existsSync(PROGRAM) ? undefined : (problem ?? "bindfs is not installed");
}

/** Ask it for nothing while it hangs: not even the end of this process would come. */
export async function hangingDisk(t: TestContext): Promise<{ disk: string; hang(): void; answer(): void }> {
  const dir = mkdtempSync(path.join(tmpdir(), "svc-hanging-"));
  const [behind, disk] = ["behind", "disk"].map((name) => path.join(dir, name)) as [string, string];
  for (const folder of [behind, disk]) mkdirSync(folder);
  const child = spawn(PROGRAM, ["-f", behind, disk], { stdio: ["ignore", "ignore", "inherit"] });
  const ended = once(child, "exit");
  const answer = () => void child.kill("SIGCONT");
  t.after(() => {
    answer();
    // What was started on the disk ends first: it would make its folders again below the mount.
    t.after(async () => {
      execFileSync("umount", ["-l", disk]);
      child.kill("SIGKILL");
      await ended;
      rmSync(dir, { recursive: true });
    });
  });
  await eventually(() => {
    assert.equal(child.exitCode, null, "bindfs ended");
    assert.ok(readFileSync("/proc/self/mounts", "utf8").includes(` ${disk} `), "it is not mounted yet");
  });
  return { disk, hang: () => void child.kill("SIGSTOP"), answer };
}
