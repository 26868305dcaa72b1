import { existsSync } from "node:fs";
import { type ProcessOptions, runProcess } from "../lib/run-process.ts";

const ASK =
  "import sys; print(sys.executable); print('%d.%d' % sys.version_info[:2]); print(getattr(sys, '_base_executable', ''))";

/**
 * The real interpreter behind a command, and its version ("3.11"). A version manager's shim costs 50 to 100 ms at every
 * start; `sys.executable` does not. `base`: what a virtual environment was made with, which outlives it. `problem` is the last
 * line of what it printed when it does not run.
 */
export async function askPython(
  command: string,
  options: Pick<ProcessOptions, "cwd" | "env"> = {},
): Promise<
  { readonly executable: string; readonly base: string; readonly version: string } | { readonly problem: string }
> {
  const { code, stdout, stderr } = await runProcess(command, ["-I", "-S", "-c", ASK], options);
  const [executable, version, base] = stdout.split("\n").map((line) => line.trim());
  if (code === 0 && executable && version)
    return { executable, base: base && existsSync(base) ? base : executable, version };
  return { problem: stderr.trim().split("\n").at(-1) || `exit code ${code}` };
}
