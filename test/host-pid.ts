/** Workers count their processes in a namespace of their own. */
import assert from "node:assert/strict";
import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { eventually } from "./eventually.ts";

/** In Python, what `hostPid` takes. */
export const OWN_PID = `f"{os.readlink('/proc/self/ns/pid')} {os.getpid()}"`;

/** The number here of a process that calls itself e.g. "pid:[4026532801] 3"; undefined when it is gone. */
export function hostPid(named: string): number | undefined {
  const [namespace, inner] = named.split(" ");
  for (const pid of readdirSync("/proc").filter((name) => /^\d+$/.test(name))) {
    try {
      if (readlinkSync(`/proc/${pid}/ns/pid`) !== namespace) continue;
      const numbers = /^NSpid:\s+(.*)$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))![1]!.split(/\s+/);
      if (numbers.at(-1) === inner) return Number(pid);
    } catch {} // It has just ended.
  }
  return undefined;
}

/** The same of the process that names itself in a file, once it has. */
export function hostPidIn(file: string): Promise<number> {
  return eventually(() => {
    const pid = hostPid(readFileSync(file, "utf8"));
    assert.ok(pid !== undefined);
    return pid;
  });
}
