/** Installs, on this machine, the packages that an image is to have. */
import { mkdir } from "node:fs/promises";
import { SvcError } from "../../domain/errors.ts";
import { installComplaint, installFailure, installStep } from "../../python/install-output.ts";
import { InstallFailed, NoInstaller, PythonInstaller } from "../../python/installer.ts";

const COMPLAINT_LINES_MAX = 5;

interface ImagePackages {
  readonly target: string;
  /** Of the image's Python. */
  readonly pythonVersion: string;
  readonly requirements: readonly string[];
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly report: (line: string) => void;
}

/** Throws DEPENDENCIES_FAILED. */
export async function installInto({ target, pythonVersion, requirements, env, report }: ImagePackages): Promise<void> {
  const names = requirements.join(", ");
  report(`installing ${names}`);
  await mkdir(target, { recursive: true });
  try {
    await new PythonInstaller(env, [`python${pythonVersion}`]).install({
      target,
      pythonVersion,
      requirements,
      cwd: target,
      env,
      onLine: (line) => {
        const step = installStep(line);
        if (step !== undefined) report(step);
      },
    });
  } catch (error) {
    if (error instanceof NoInstaller) {
      throw new SvcError("TOOL_MISSING", "Neither uv nor a Python with pip was found to install packages.", {
        help: "Install uv, or pip for python3.",
      });
    }
    if (!(error instanceof InstallFailed)) throw error;
    const noIndex = installFailure(error.output) === "network";
    const why = noIndex
      ? "the package index cannot be reached"
      : installComplaint(error.output, COMPLAINT_LINES_MAX).join("; ");
    throw new SvcError("DEPENDENCIES_FAILED", `${names} could not be installed for the image: ${why}.`, {
      help: "Name the packages the image is to have with --packages (for example --packages numpy, or --packages none).",
    });
  }
}
