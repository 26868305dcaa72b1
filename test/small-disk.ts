/** A disk of a test's own, which it fills. Only root may mount one. */
import { execFileSync } from "node:child_process";
import { chmodSync, closeSync, mkdirSync, mkdtempSync, openSync, rmSync, statfsSync, writeSync } from "node:fs";
import { tmpdir } from "node:os";
import path from "node:path";
import type { TestContext } from "node:test";

export const whyNoSmallDisk =
  process.platform === "linux" && process.getuid?.() === 0 ? false : "needs root to mount a small disk";

/** `uid`: whose it is, who may not enter the folder of tests. */
export function smallDisk(t: TestContext, megabytes: number, uid = 0) {
  const dir = mkdtempSync(path.join(uid === 0 ? tmpdir() : "/tmp", "svc-disk-"));
  if (uid !== 0) chmodSync(dir, 0o755);
  const disk = path.join(dir, "data");
  mkdirSync(disk);
  execFileSync("mount", ["-t", "tmpfs", "-o", `size=${megabytes}m,mode=700,uid=${uid}`, "svc-test", disk]);
  let end = async () => {};
  t.after(async () => {
    await end();
    execFileSync("umount", ["-l", disk]);
    rmSync(dir, { recursive: true });
  });
  const filler = path.join(disk, "filler");
  return {
    dir,
    disk,
    /** Done before the disk goes. */
    before(work: () => Promise<void>) {
      end = work;
    },
    fill() {
      const file = openSync(filler, "a");
      try {
        for (let size = 1 << 20; size >= 1; size >>= 1) {
          try {
            for (;;) writeSync(file, Buffer.alloc(size));
          } catch {} // as much as fits
        }
      } finally {
        closeSync(file);
      }
    },
    makeRoom: () => rmSync(filler, { force: true }),
  };
}

/** A tmpfs whose size can be changed: full without a byte being written. */
export function changingDisk() {
  const dir = mkdtempSync(path.join(tmpdir(), "svc-host-disk-"));
  const disk = path.join(dir, "host");
  mkdirSync(disk);
  execFileSync("mount", ["-t", "tmpfs", "-o", "size=1200m,mode=700", "svc-test", disk]);
  const resize = (bytes: number) => execFileSync("mount", ["-o", `remount,size=${bytes}`, disk]);
  return {
    disk,
    fill: () => {
      const { blocks, bfree, bsize } = statfsSync(disk);
      resize((blocks - bfree) * bsize);
    },
    makeRoom: () => resize(1200 * 2 ** 20),
    remove: () => {
      execFileSync("umount", ["-l", disk]);
      rmSync(dir, { recursive: true });
    },
  };
}
