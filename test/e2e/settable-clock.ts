/** A clock of the day that a test sets, for one process alone: a library that is loaded before its C library adds an offset. */
import { closeSync, openSync, writeFileSync, writeSync } from "node:fs";
import path from "node:path";
import { runProcess } from "../../src/lib/run-process.ts";

export interface SettableClock {
  /** Of the process whose clock it is. */
  readonly env: Readonly<Record<string, string>>;
  /** From now on it is so many seconds ahead. */
  set(seconds: number): void;
}

/** Why there is none here; false when there is. */
export async function whyNoClock(): Promise<string | false> {
  const compiler =
    process.platform === "linux" ? await runProcess("cc", ["--version"]).catch(() => undefined) : undefined;
  return compiler?.code === 0 ? false : "needs Linux and a C compiler: what is set is the clock of one process";
}

/** Its files lie in `dir`. */
export async function settableClock(dir: string): Promise<SettableClock> {
  const shim = path.join(dir, "clock.so");
  const offset = path.join(dir, "offset");
  const source = path.join(import.meta.dirname, "clock.c");
  const { code, stderr } = await runProcess("cc", ["-shared", "-fPIC", "-o", shim, source, "-ldl"]);
  if (code !== 0) throw new Error(stderr);
  writeFileSync(offset, Buffer.alloc(8));
  return {
    env: { LD_PRELOAD: shim, SVC_TEST_CLOCK: offset },
    // It is mapped into the process: the file stays, its bytes change.
    set: (seconds) => {
      const bytes = Buffer.alloc(8);
      bytes.writeBigInt64LE(BigInt(seconds));
      const file = openSync(offset, "r+");
      writeSync(file, bytes, 0, 8, 0);
      closeSync(file);
    },
  };
}
