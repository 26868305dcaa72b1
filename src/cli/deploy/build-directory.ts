import type { BuildOptions, ProjectBuild } from "../../build/build.ts";
import { type FlagsOf, switchFlag, valueFlag } from "../command.ts";
import type { CliContext } from "../context.ts";
import { cacheDir, configDir } from "../paths.ts";

/** Flags of every command that builds. */
export const buildFlags = {
  noDeps: switchFlag("Install the listed packages only, without what they depend on"),
  exclude: valueFlag("PACKAGES", "Packages to leave out of the artifact, separated by commas"),
  output: valueFlag("FILE", "Name of the archive in .svc/; default: artifact.tar.gz"),
};
export type BuildFlags = FlagsOf<typeof buildFlags>;

/** Builds the project svc was called in, showing progress and warnings. */
export async function buildDirectory(
  context: CliContext,
  flags: BuildFlags & Pick<BuildOptions, "keepBuild" | "onScan">,
): Promise<ProjectBuild> {
  const { terminal, cwd, env } = context;
  const progress = await terminal.progress("Building");
  const { buildProject } = await import("../../build/build.ts");
  let result: ProjectBuild;
  const stop = new AbortController();
  const unclaim = context.interrupt.claim((again) => (again ? context.interrupt.end() : stop.abort()));
  try {
    result = await buildProject({
      signal: stop.signal,
      projectDir: cwd,
      env,
      output: flags.output,
      noDeps: flags.noDeps,
      exclude: flags.exclude?.split(",").flatMap((name) => name.trim() || []),
      keepBuild: flags.keepBuild,
      onScan: flags.onScan,
      cacheDir: cacheDir(env),
      configDir: configDir(env),
      python: env.SVC_PYTHON,
      onProgress: ({ step, detail }) => {
        if (detail !== undefined) progress.update(`Building: ${detail}`);
        else if (terminal.live) progress.update(`Building: ${step}`);
      },
    });
  } catch (error) {
    if (!stop.signal.aborted) throw error;
    return context.interrupt.end();
  } finally {
    unclaim();
    progress.done();
  }
  if (result.warnings.length > 0) {
    const { formatDiagnostic } = await import("../../build/diagnostics.ts");
    for (const warning of result.warnings)
      terminal.note(formatDiagnostic(warning, terminal.errColors.isColorSupported));
  }
  noteLeftOut(context, result);
  return result;
}

/** What is missing from the artifact, and why, is said once for each package. */
function noteLeftOut({ terminal }: CliContext, result: ProjectBuild): void {
  const packages = new Set(Object.values(result.leftOut).flat());
  if (packages.size === 0) return;
  terminal.note(`Left out of the artifact, because the base image has it: ${[...packages].sort().join(", ")}.`);
}
