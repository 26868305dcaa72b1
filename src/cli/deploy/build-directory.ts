import { isAbsolute, normalize, sep } from "node:path";
import type { BuildOptions, ProjectBuild } from "../../build/build.ts";
import { SvcError } from "../../domain/errors.ts";
import { type FlagsOf, switchFlag, valueFlag } from "../command.ts";
import type { CliContext } from "../context.ts";
import { cacheDir, configDir } from "../paths.ts";

/** Flags of every command that builds. */
export const buildFlags = {
  noDeps: switchFlag("Install the listed packages only, without what they depend on"),
  exclude: valueFlag("PACKAGES", "Packages to leave out of the artifact, separated by commas"),
  output: valueFlag("FILE", "Name of the archive in .svc/, or an absolute path; default: artifact.tar.gz"),
};
export type BuildFlags = FlagsOf<typeof buildFlags>;

/** Builds the project svc was called in, showing progress and warnings. */
export async function buildDirectory(
  context: CliContext,
  flags: BuildFlags & Pick<BuildOptions, "keepBuild" | "onScan">,
): Promise<ProjectBuild> {
  const { terminal, cwd, env } = context;
  requireInside(flags.output);
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

/** Who means another place says which. Throws USAGE. */
function requireInside(output: string | undefined): void {
  if (output === undefined || isAbsolute(output)) return;
  const inside = normalize(output);
  const isFile = inside !== "." && inside !== ".." && !inside.startsWith(`..${sep}`) && !inside.endsWith(sep);
  if (isFile) return;
  throw new SvcError("USAGE", `--output "${output}" names no file in .svc.`, {
    help: "Give a file's name, which stands in .svc, or an absolute path for another place.",
  });
}

/** What is missing from the artifact, and why, is said once for each package. */
function noteLeftOut({ terminal }: CliContext, result: ProjectBuild): void {
  const { left, unknown } = result.excluded;
  if (left.length > 0) terminal.note(`Left out of the artifact by --exclude: ${[...left].sort().join(", ")}.`);
  for (const name of unknown)
    terminal.warn(`--exclude names ${name}, which no endpoint and none of its packages asks for.`);
  const packages = new Set(Object.values(result.leftOut).flat());
  if (packages.size === 0) return;
  terminal.note(`Left out of the artifact, because the base image has it: ${[...packages].sort().join(", ")}.`);
}
