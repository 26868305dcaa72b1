import { closeSync, existsSync, fsyncSync, linkSync, openSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { temporaryName } from "./write-file-atomic.ts";

/**
 * Makes a file that its owner alone reads; one that is there stays, whoever was first. A crash leaves it whole or not at all.
 * Throws the errors of the file system.
 */
export function makePrivateFile(file: string, content: string | Uint8Array): void {
  if (existsSync(file)) return;
  const draft = temporaryName(file);
  const descriptor = openSync(draft, "wx", 0o600);
  try {
    writeFileSync(descriptor, content);
    fsyncSync(descriptor);
    linkSync(draft, file);
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    // There are file systems without hard links.
    if (code === "EPERM" || code === "ENOTSUP") renameSync(draft, file);
    else if (code !== "EEXIST") throw error;
  } finally {
    closeSync(descriptor);
    rmSync(draft, { force: true });
  }
}
