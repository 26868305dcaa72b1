import { mountOptions } from "../lib/mount-options.ts";
import type { Terminal } from "./terminal.ts";

/** Compiled packages are loaded from the layers in a data directory, which exists. */
export function warnOfNoexec(terminal: Terminal, dataDir: string): void {
  if (!mountOptions(dataDir).includes("noexec")) return;
  const then = "packages with compiled parts, such as numpy, cannot be loaded there. Choose another with --data-dir";
  terminal.warn(`${dataDir} lies on a file system that is mounted noexec: ${then}.`);
}
