/**
 * The wheel of the Python package that svc carries, so that a project installs exactly the SDK of its svc: an installed
 * svc has it made, a clone makes it of its sources.
 */
import { existsSync } from "node:fs";
import { copyFile } from "node:fs/promises";
import path from "node:path";
import { fileURLToPath } from "node:url";
import { SvcError } from "../domain/errors.ts";
import { VERSION } from "../domain/version.ts";
import { makeFolder } from "../lib/make-folder.ts";
import { runProcess } from "../lib/run-process.ts";

export const WHEEL_NAME = `svc-${VERSION}-py3-none-any.whl`;

/** Puts the wheel into `directory`, which is made when it is missing. Throws TOOL_MISSING. */
export async function placeWheel(directory: string, env: Readonly<Record<string, string | undefined>>): Promise<void> {
  const python = pythonFolder();
  const backend = path.join(python, "build_backend.py");
  makeFolder(directory);
  if (!existsSync(backend)) return copyFile(path.join(python, "dist", WHEEL_NAME), path.join(directory, WHEEL_NAME));
  const { code, stderr } = await runProcess("python3", ["-I", backend, directory], { env }).catch((error) => ({
    code: null,
    stderr: String(error),
  }));
  if (code === 0) return;
  throw new SvcError("TOOL_MISSING", `The Python package could not be packed: ${stderr.trim()}`, {
    help: "Install Python 3.10 or newer as python3.",
  });
}

/** python/ stands beside src/ in a clone and beside dist/ in an installed package. */
function pythonFolder(): string {
  for (let at = path.dirname(fileURLToPath(import.meta.url)); at !== path.dirname(at); at = path.dirname(at)) {
    const candidate = path.join(at, "python");
    if (existsSync(candidate)) return candidate;
  }
  throw new SvcError("TOOL_MISSING", "The Python package is missing from this installation of svc.", {
    help: "Install svc again.",
  });
}
